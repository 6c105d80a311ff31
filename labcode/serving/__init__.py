"""The scheduler: engines, memory policies, orders, and the record of what they did."""
