"""Many decode steps at once: where a run of steps ends, and how many fit before something happens.

As long as the same sequences decode, each step finds a fixed number of cached positions more than the
one before.  Memory time and compute time are then linear in the step number, the hard roofline is the
larger of two straight lines, and the end of step k is the sum of at most two arithmetic series.
"""

from __future__ import annotations

import math

from labcode.cost.formula import scalar_combine
from labcode.jit import compiled

#: Two times closer than this (seconds) are the same instant.  Stepping and leaping round differently in
#: the last bits; without it, an arrival that falls exactly on the end of a step could be seen by one only.
SAME_INSTANT = 1e-9


@compiled
def series(first: float, slope: float, terms: float) -> float:
    """Return ``first + (first + slope) + ...`` with `terms` terms."""
    return terms * first + slope * (terms * (terms - 1.0) / 2.0)


@compiled
def run_length(
    memory: float, memory_slope: float, compute: float, compute_slope: float, p: float, steps: float
) -> float:
    """Return how long `steps` decode steps take together, in seconds.

    Parameters
    ----------
    memory, compute : float
        Times of the first step under either roof, in seconds.
    memory_slope, compute_slope : float
        What each following step adds to them, in seconds.
    p : float
        Exponent of the roofline: infinity (maximum) and 1 (sum) have closed forms, others are added up.
    """
    if p == 1.0:
        return series(memory + compute, memory_slope + compute_slope, steps)
    if math.isinf(p):
        # The lines cross at most once; before the crossing one roof binds, after it the other.
        gap, gap_slope = memory - compute, memory_slope - compute_slope
        memory_first = gap > 0.0 or (gap == 0.0 and gap_slope >= 0.0)
        before = steps
        if gap * gap_slope < 0.0:
            before = min(steps, math.floor(-gap / gap_slope) + 1.0)
        after = steps - before
        if memory_first:
            return series(memory, memory_slope, before) + series(compute + compute_slope * before, compute_slope, after)
        return series(compute, compute_slope, before) + series(memory + memory_slope * before, memory_slope, after)
    total = 0.0
    for i in range(int(steps)):
        total += scalar_combine(memory + memory_slope * i, compute + compute_slope * i, p)
    return total


@compiled
def steps_until(
    memory: float, memory_slope: float, compute: float, compute_slope: float, p: float, duration: float, limit: int
) -> int:
    """Return the number of steps after which `duration` seconds have passed, at least 1 and at most `limit`.

    A run of steps is not interrupted in the middle of a step: the last one returned is the first that ends
    at or after `duration` (up to `SAME_INSTANT`).
    """
    if limit <= 1 or run_length(memory, memory_slope, compute, compute_slope, p, 1.0) >= duration - SAME_INSTANT:
        return 1
    if run_length(memory, memory_slope, compute, compute_slope, p, float(limit)) < duration - SAME_INSTANT:
        return limit
    # The length of a run is increasing and convex in the number of steps: bracket the answer and halve.
    low, high = 1, limit
    first = max(memory, compute)
    guess = int(duration / first) + 2
    if guess < high:
        high = guess
    while high - low > 1:
        middle = (low + high) // 2
        if run_length(memory, memory_slope, compute, compute_slope, p, float(middle)) >= duration - SAME_INSTANT:
            high = middle
        else:
            low = middle
    return high
