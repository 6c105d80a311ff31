"""Sample paths: departures of given arrivals and service requirements, under three disciplines.

Deterministic functions of their input; whoever draws the input owns the seed.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import ArrayLike

from labcode.checks import integer


def _path(arrivals: ArrayLike, services: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    a, s = np.asarray(arrivals, dtype=float), np.asarray(services, dtype=float)
    if a.ndim != 1 or a.shape != s.shape:
        raise ValueError(f"arrivals {a.shape} and services {s.shape}: two flat lists of one length are needed")
    if not (np.all(np.isfinite(a)) and np.all(np.isfinite(s))) or np.any(s < 0):
        raise ValueError("arrivals and services: finite times are needed, services at least 0")
    if np.any(np.diff(a) < 0):
        raise ValueError("arrivals: must be in order of time")
    return a, s


def poisson_arrivals(rate: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """`n` arrival times (s) of a Poisson process of `rate` per second."""
    return np.cumsum(rng.exponential(1 / rate, n))


def fcfs(arrivals: ArrayLike, services: ArrayLike, servers: int = 1) -> np.ndarray:
    """Departure times (s), first come, first served, by `servers` equal servers.

    With one server this is Lindley's recursion, wait' = max(0, wait + service - interarrival), unrolled:
    the workload is a random walk minus its running minimum, so a million requests take milliseconds
    (Lindley 1952).
    """
    a, s = _path(arrivals, services)
    integer("servers", servers)
    if servers == 1:
        if not len(a):
            return a.copy()
        walk = np.concatenate(([0.0], np.cumsum(s[:-1] - np.diff(a))))
        return a + (walk - np.minimum.accumulate(walk)) + s
    free = [-np.inf] * servers
    departures = np.empty_like(a)
    for i, (arrival, service) in enumerate(zip(a.tolist(), s.tolist(), strict=True)):
        departures[i] = max(arrival, free[0]) + service
        heapq.heapreplace(free, departures[i])
    return departures


def processor_sharing(arrivals: ArrayLike, services: ArrayLike) -> np.ndarray:
    """Departure times (s) when everyone present gets an equal share of one server.

    Uses attained service: while n are present each gains 1/n second a second, so a request that came at
    attained level v leaves at level v + service, and those levels never change again.
    """
    a, s = _path(arrivals, services)
    departures = np.empty_like(a)
    present: list[tuple[float, int]] = []  # (attained level at which it leaves, request)
    now, attained = 0.0, 0.0

    def advance(until: float) -> None:
        nonlocal now, attained
        while present:
            leaves = now + max(0.0, present[0][0] - attained) * len(present)
            if leaves > until:
                attained += (until - now) / len(present)
                break
            now, attained = leaves, present[0][0]
            departures[heapq.heappop(present)[1]] = leaves
        now = until

    for i, (arrival, service) in enumerate(zip(a.tolist(), s.tolist(), strict=True)):
        advance(arrival)
        heapq.heappush(present, (attained + service, i))
    advance(np.inf)
    return departures
