"""What a run leaves behind, and what is derived from it."""
