"""Functions that tests send through executors; at the top level of a module, so that they can be pickled."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from labcode import workload
from labcode.workload import Workload


def draw(size: int, seed: int, shift: float = 0.0) -> dict[str, float]:
    """Return statistics of a few random numbers."""
    values = np.random.default_rng(seed).random(size)
    return {"mean": values.mean() + shift, "largest": values.max()}


def fragile(size: int, seed: int) -> dict[str, float]:
    """Raise for one cell."""
    if size == 2:
        raise ZeroDivisionError("two is not allowed")
    return {"double": 2 * size}


def deadly(size: int, seed: int) -> dict[str, float]:
    """Take the whole process down for one cell."""
    if size == 2:
        os._exit(3)
    return {"double": 2 * size}


def counted(size: int, seed: int, folder: str) -> dict[str, float]:
    """Leave a mark in a folder each time it runs."""
    marks = Path(folder)
    (marks / f"{size}-{len(list(marks.glob(f'{size}-*')))}").touch()
    if (marks / "stop-at").exists() and (marks / "stop-at").read_text() == str(size):
        raise KeyboardInterrupt
    return {"double": 2 * size, "third": size / 3}


def small_chat(seed: int, n: int = 40) -> Workload:
    """Return a small chat load."""
    return workload.chat(n, 8.0, seed)
