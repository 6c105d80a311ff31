"""The playground's engine: the book's own scheduler and loop, run by a page."""
