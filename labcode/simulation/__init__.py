"""Who owns the time: loops that drive a scheduler against a clock."""
