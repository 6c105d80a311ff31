"""Speeds of the simulator, measured: ``make bench``, or ``python -m benchmarks.run`` for the table in the README."""
