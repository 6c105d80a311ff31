"""Times on somebody else's clock: counted from a second near the first, so that a double holds microseconds."""

from __future__ import annotations

import math

import numpy as np

#: Times that begin this late or later (s) are counted from their first whole second: epoch times do, at 1.7e9.
FAR = 1e6
#: Doubles that lie further apart than this (s) cannot hold a latency.
RESOLUTION = 1e-6


def origin_of(first: float) -> float:
    """Return the whole second (s) that times are counted from whose first is `first`; 0 unless that is far."""
    return float(math.floor(first)) if first >= FAR else 0.0


def check_resolution(name: str, last: float) -> None:
    """Raise a `ValueError` if doubles near `last` (s), the latest of the times `name`, are too coarse for latencies."""
    apart = float(np.spacing(abs(last)))
    if apart > RESOLUTION:
        raise ValueError(
            f"{name} = {last!r}: so far from 0, numbers are {apart:.1g} s apart, too coarse for latencies (at most "
            "1 µs); give seconds, and subtract the start first"
        )
