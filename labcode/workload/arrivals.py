"""Arrival processes at one request per second; a workload divides the times by its rate.

Every process is drawn at unit rate, so that two runs that differ only in the rate see the same pattern of
arrivals, stretched: common random numbers.
"""

from __future__ import annotations

import numpy as np

from labcode.checks import fraction, integer, positive
from labcode.workload.request import FloatArray

KNOWN = ("poisson", "gamma:BURSTINESS", "on_off:SHARE:BURST", "deterministic")


def unit_arrivals(process: str, n: int, rng: np.random.Generator) -> FloatArray:
    """Return `n` arrival times of a process with a mean rate of one request per second.

    Parameters
    ----------
    process : str
        "poisson": exponential gaps. "gamma:0.5" or "gamma": gamma gaps with burstiness 1/CV^2 = 0.5;
        1 is Poisson, smaller is burstier. "on_off:0.2:50" or "on_off": Poisson bursts; the source is on for
        a share 0.2 of the time and a burst holds 50 requests on average (the defaults). "deterministic": a
        request every second, the first at time 0.
    n : int
        Number of requests, at least 1.
    rng : numpy.random.Generator
        Source of every random number used here.

    Raises
    ------
    ValueError
        If the process is unknown or a parameter out of its range.
    """
    integer("n", n)
    kind, *given = str(process).split(":")
    try:
        numbers = [float(value) for value in given]
    except ValueError:
        raise ValueError(f"arrivals = {process!r}: parameters after the colon must be numbers") from None
    most = {"poisson": 0, "gamma": 1, "on_off": 2, "deterministic": 0}
    if kind not in most or len(numbers) > most[kind]:
        raise ValueError(f"arrivals = {process!r}: known are {', '.join(KNOWN)}")
    if kind == "poisson":
        return np.cumsum(rng.standard_exponential(n))
    if kind == "gamma":
        (burstiness,) = numbers or [0.5]
        return gamma(n, burstiness, rng)
    if kind == "on_off":
        share, burst = numbers + [0.2, 50.0][len(numbers) :]
        return on_off(n, share, burst, rng)
    return np.arange(n, dtype=np.float64)


def gamma(n: int, burstiness: float, rng: np.random.Generator) -> FloatArray:
    """Return `n` arrivals with gamma gaps of mean 1 s and squared coefficient of variation 1/burstiness.

    A gamma variable with shape k and scale 1/k has mean 1 and CV^2 = 1/k, so burstiness is the shape.
    """
    burstiness = positive("burstiness", burstiness)
    return np.cumsum(rng.gamma(burstiness, 1 / burstiness, n))


def on_off(n: int, share: float, burst: float, rng: np.random.Generator) -> FloatArray:
    """Return `n` arrivals of a two-state source: Poisson at rate 1/share while on, silent while off.

    On and off periods are exponential with means burst*share and burst*(1 - share) seconds, so a cycle lasts
    `burst` seconds and brings `burst` requests on average. The first state is drawn from the stationary
    distribution.

    Parameters
    ----------
    share : float
        Share of the time that the source is on, in (0, 1]; 1 is Poisson.
    burst : float
        Mean number of requests in an on period, above 0.
    """
    share, burst = fraction("share", share), positive("burst", burst)
    busy = np.cumsum(rng.exponential(share, n))  # arrival times on a clock that runs only while the source is on
    if share == 1:
        return busy
    starts_off = rng.random() >= share
    on_ends: list[FloatArray] = []
    reached, chunk = 0.0, int(min(n, n / burst * 1.2)) + 16
    while reached <= busy[-1]:
        on_ends.append(reached + np.cumsum(rng.exponential(burst * share, chunk)))
        reached = float(on_ends[-1][-1])
    period = np.searchsorted(np.concatenate(on_ends), busy)  # on periods that ended before each arrival
    silence = np.append(0.0, np.cumsum(rng.exponential(burst * (1 - share), int(period[-1]) + 1)))
    return busy + silence[period + int(starts_off)]
