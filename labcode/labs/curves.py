"""Curves that several labs draw: distributions, and what happens over the time of a run."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labcode.metrics import weighted_percentiles
from labcode.run import Run

#: Shares at which a distribution is drawn: close together at both ends, where something happens.
SHARES = (0.01, 0.05, *np.linspace(0.1, 0.9, 17).round(3).tolist(), 0.95, 0.97, 0.98, 0.99, 0.995, 1.0)


def distribution(values: ArrayLike, weights: ArrayLike | None = None, floor: float = 1e-3) -> tuple[float, ...]:
    """Return the values (at least `floor`, for a log axis) below which each of `SHARES` of the weight lies.

    Empty if there are no values: a panel then says "no data".
    """
    points = weighted_percentiles(values, weights, [100 * share for share in SHARES])
    return () if np.isnan(points[0]) else tuple(max(point, floor) for point in points)


def shares(points: tuple[float, ...]) -> tuple[float, ...]:
    """Return the y values that go with `distribution`'s x values."""
    return SHARES if points else ()


def over_time(run: Run, column: NDArray[np.float64], points: int = 40) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return times (s) and the time average of a segment column over each of `points` equal intervals of a run.

    Idle time counts as zero.
    """
    segments = run.record.segments
    if not len(segments["start"]):
        return (), ()
    edges = np.linspace(0.0, float(segments["end"][-1]), points + 1)
    # The integral of the column up to any time is piecewise linear; interpolate it at the edges.
    knots = np.ravel(np.column_stack([segments["start"], segments["end"]]))
    area = np.cumsum(np.ravel(np.column_stack([np.zeros(len(column)), column * (segments["end"] - segments["start"])])))
    averages = np.diff(np.interp(edges, knots, area)) / np.diff(edges)
    return tuple((edges[:-1] + edges[1:]) / 2), tuple(averages)


def running(run: Run) -> NDArray[np.float64]:
    """Return the sequences in each segment."""
    segments = run.record.segments
    return np.asarray(segments["n_prefill"] + segments["n_decode"], dtype=float)


#: What `what_binds` says, in words.
WAITING = {"nothing": "nobody waits", "seats": "requests wait for a seat", "memory": "requests wait for KV cache"}


def what_binds(run: Run, seats: int) -> str:
    """Return what makes requests wait for most of the waiting time: "seats", "memory" or "nothing"."""
    segments = run.record.segments
    length = segments["end"] - segments["start"]
    waiting = segments["waiting"] > 0
    if not waiting.any():
        return "nothing"
    full = float(length[waiting & (running(run) >= seats)].sum())
    return "seats" if full >= float(length[waiting].sum()) / 2 else "memory"
