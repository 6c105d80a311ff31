"""Sweeps: a grid of settings, several seeds, any executor, resumable.

``sweep`` runs every combination of a grid for every seed and returns one tidy table.  The work goes to any
executor in the manner of ``concurrent.futures``: in this process, to a pool of processes, or beyond one
machine::

    from dask.distributed import Client
    client = Client("scheduler:8786")          # or Client() for this machine
    table = sweep(grid, workload.chat, executor=client.get_executor())
"""

from labcode.experiments.grid import cells_of, seeds_of
from labcode.experiments.sweep import sweep
from labcode.experiments.sweep_statistics import interval, paired

__all__ = ["cells_of", "interval", "paired", "seeds_of", "sweep"]
