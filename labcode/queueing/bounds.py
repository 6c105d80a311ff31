"""Quantiles of a sum of stages: what may be said, and what may not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from labcode.checks import integer, number, positive
from labcode.queueing.closed_forms import level, quantile_of_tail


def union_bound(exceedances: Sequence[float]) -> float:
    """Smallest share of requests that a sum of thresholds is sure to cover: 1 - sum of exceedances, at
    least 0.

    If stage k exceeds its threshold with probability at most exceedances[k], the total exceeds the sum of
    the thresholds only if some stage exceeds its own, hence with probability at most their sum (Boole).
    No independence is needed.  Two p99s: `union_bound([0.01, 0.01])` is 0.98.
    """
    for k, value in enumerate(exceedances):
        if not 0 <= number(f"exceedances[{k}]", value) <= 1:
            raise ValueError(f"exceedances[{k}] = {value!r}: must lie in [0, 1]")
    # Exact decimal sums, so that 0.01 + 0.01 gives 0.98 and not a neighbour of it.
    return float(max(Fraction(0), 1 - sum((Fraction(str(value)) for value in exceedances), Fraction(0))))


def stage_level(total_level: float, stages: int) -> float:
    """Quantile level to take in each of `stages` so that the sum covers `total_level`: p99 of two needs
    p99.5."""
    if not 0 < number("total_level", total_level) < 1:
        raise ValueError(f"total_level = {total_level!r}: must lie in (0, 1)")
    return float(1 - (1 - Fraction(str(total_level))) / integer("stages", stages))


def worst_case_pair(x99: float, y99: float, excess: float) -> list[tuple[float, float, float]]:
    """Joint law of two stages that turns the union bound into an equality.

    Returns rows (probability, x, y): with probability 0.98 both stages sit exactly at their p99; one stage
    overshoots by `excess` in each of two disjoint events of probability 0.01.  The p99 of each stage alone is
    x99 and y99; their sum stays within x99 + y99 with probability 0.98 and not a hair more.
    """
    for name, value in (("x99", x99), ("y99", y99), ("excess", excess)):
        positive(name, value)
    return [(0.98, x99, y99), (0.01, x99 + excess, y99), (0.01, x99, y99 + excess)]


def quantile(law: Sequence[tuple[float, float]], q: float) -> float:
    """Smallest value of a discrete law [(probability, value), ...] whose distribution function reaches
    `q`."""
    total, target = Fraction(0), Fraction(str(q))
    value = float("nan")
    for probability, value in sorted(law, key=lambda row: row[1]):
        total += Fraction(str(probability))
        if total >= target:
            return value
    return value


def independent_exponential_sum_quantile(q: float, mean_x: float, mean_y: float) -> float:
    """Quantile of the sum of two independent exponential stages with different means (s)."""
    positive("mean_x", mean_x)
    positive("mean_y", mean_y)
    if mean_x == mean_y:
        raise ValueError(f"mean_x = mean_y = {mean_x}: the means must differ")
    level("q", q)

    def tail(t: float) -> float:
        return (mean_x * math.exp(-t / mean_x) - mean_y * math.exp(-t / mean_y)) / (mean_x - mean_y)

    return quantile_of_tail(tail, q, mean_x + mean_y)
