"""Batching and scheduling for LLM inference: the engine behind the course book."""
