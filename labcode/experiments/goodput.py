"""Goodput as a rate: how many requests a second a system can take and still keep its promise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from labcode.checks import fraction, positive
from labcode.results.metrics import SLO
from labcode.simulate import simulate
from labcode.workload import Workload

#: Far enough below the capacity for requests not to meet, far enough above for all to come at once.
WIDEST = 1e4


@dataclass(frozen=True)
class Goodput:
    """The largest rate that meets the SLO, with the bracket that the search ended with.

    Attributes
    ----------
    rate : float
        Requests/s; equal to `low`.  0 if no rate meets it, infinity if even all requests at once do.
    low, high : float
        The largest rate seen to meet the objective and the smallest above it seen to miss it.
    attainment_low, attainment_high : float
        Shares of submitted requests within the SLO at those two.
    runs : int
        Simulations that the search took.
    """

    rate: float
    low: float
    high: float
    attainment_low: float
    attainment_high: float
    runs: int


def search_rate(attained: Callable[[float], float], target: float, first: float, tolerance: float) -> Goodput:
    """Return the largest rate at which ``attained(rate) >= target``, if attainment falls with the rate.

    The search widens from `first` by growing factors until it has a bracket, then narrows it: in turn by linear
    interpolation on the logarithm of the rate and by halving, so that a cliff cannot stall it.
    """
    runs = 0

    def ask(rate: float) -> float:
        nonlocal runs
        runs += 1
        return attained(rate)

    low, high, at_low, at_high = math.nan, math.nan, math.nan, math.nan
    rate, factor = first, 1.5
    while math.isnan(low) or math.isnan(high):
        share = ask(rate)
        if share >= target:
            low, at_low = rate, share
        else:
            high, at_high = rate, share
        if math.isnan(high):
            if rate > first * WIDEST:
                return Goodput(math.inf, rate, math.inf, at_low, math.nan, runs)
            rate *= factor
        elif math.isnan(low):
            if rate < first / WIDEST:
                return Goodput(0.0, 0.0, rate, math.nan, at_high, runs)
            rate /= factor
        factor = min(factor * factor, 16.0)
    halve = False
    while high > low * (1 + tolerance):
        width = math.log(high / low)
        step = 0.5
        if not halve:
            step = min(max((at_low - target) / (at_low - at_high), 0.1), 0.9)
        # Never closer to an end than the tolerance asks for: two runs cannot be told apart there.
        step = min(max(step, 0.9 * tolerance / width), 1 - 0.9 * tolerance / width) if width > 1.8 * tolerance else 0.5
        rate = low * math.exp(step * width)
        share = ask(rate)
        if share >= target:
            low, at_low = rate, share
        else:
            high, at_high = rate, share
        halve = not halve
    return Goodput(low, low, high, at_low, at_high, runs)


def goodput(
    load: Workload, slo: SLO | None = None, attainment: float = 0.9, tolerance: float = 0.015, **options: Any
) -> Goodput:
    """Return the largest arrival rate at which at least `attainment` of the requests keep the SLO.

    The requests stay the same at every rate (``load.at_rate``): only the gaps between them shrink.  Mind that a
    finite workload ends: if it all arrives before a line can grow, the answer says more about the length of the
    workload than about the system.

    Parameters
    ----------
    load : Workload
        With a finite rate of its own.
    slo : SLO, optional
        By default TTFT <= 1 s and TPOT <= 50 ms.
    attainment : float
        Share of submitted requests, in (0, 1].
    tolerance : float
        The bracket's relative width at the end.
    **options
        As for :func:`labcode.simulate`.

    Returns
    -------
    Goodput
    """
    slo = SLO() if slo is None else slo
    attainment, tolerance = fraction("attainment", attainment), positive("tolerance", tolerance)

    def attained(rate: float) -> float:
        return simulate(load.at_rate(rate), **options).attainment(slo)

    # Everything at once gives the pace at which the system works the queue off: a first guess, and the proof of
    # whether any rate can be too much for so few requests.
    together = simulate(load.at_rate(1e6 * len(load)), **options)
    if together.attainment(slo) >= attainment:
        return Goodput(math.inf, math.inf, math.inf, together.attainment(slo), math.nan, 1)
    ends = together.record.finished
    served = ends[ends == ends]
    if not len(served):
        return Goodput(0.0, 0.0, 0.0, math.nan, together.attainment(slo), 1)
    found = search_rate(attained, attainment, len(served) / float(served.max()), tolerance)
    return Goodput(found.rate, found.low, found.high, found.attainment_low, found.attainment_high, found.runs + 1)
