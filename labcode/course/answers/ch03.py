"""Answers to the exercises of chapter 3, computed."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from labcode.course.code_tasks import Attempt, task
from labcode.course.exercises import exercise
from labcode.queueing import (
    MG1,
    MG1PS,
    MM1,
    SharedServer,
    decode_speed,
    little,
    poisson_arrivals,
    stage_level,
    union_bound,
)

STAYS = ([0, 1, 2], [2, 4, 3])  # exercise 3.1: arrivals and ends, s
RATE, TOKENS, FIXED, SLOPE, PLACES = 16.0, 290.0, 0.006, 0.00003, 256  # exercise 3.5


@exercise("3.1a", 1e-3)
def area() -> float:
    """Area under the staircase, request-seconds."""
    return little(*STAYS, (0, 4)).area


@exercise("3.1b", 1e-3)
def mean_number() -> float:
    """Mean number present on [0, 4]."""
    return little(*STAYS, (0, 4)).mean_number


@exercise("3.1c", 1e-3)
def window_rate() -> float:
    """Arrival rate in the window, 1/s."""
    return little(*STAYS, (0, 4)).rate


@exercise("3.1d", 1e-3)
def carried_in() -> float:
    """Carried into the window [1, 4], request-seconds."""
    return little(*STAYS, (1, 4)).carried_in


@exercise("3.2e", 5e-3)
def mean_stay() -> float:
    """Mean time in the system at 34 of 40 requests/s, s."""
    return MM1(34, 40).W


@exercise("3.2f", 5e-3)
def p99_stay() -> float:
    """p99 of the time in the system at 34 of 40 requests/s, s."""
    return MM1(34, 40).quantile(0.99)


@exercise("3.3a", 1e-4, share=True)
def covered() -> float:
    """Share that the sum of two 98th percentiles is sure to cover."""
    return union_bound([0.02, 0.02])


@exercise("3.3b", 1e-4, share=True)
def level_of_two() -> float:
    """Level of each of two stages for 98 % in all."""
    return stage_level(0.98, 2)


@exercise("3.3c", 1e-4, share=True)
def level_of_four() -> float:
    """Level of each of four stages for 99 % in all."""
    return stage_level(0.99, 4)


@exercise("3.4a", 5e-3)
def wait_spread() -> float:
    """Mean wait, M/G/1, utilisation 0.8, mean 1.8 s, scv 0.75, s."""
    return MG1(0.8 / 1.8, 1.8, 0.75).Wq


@exercise("3.4b", 5e-3)
def wait_constant() -> float:
    """The same with constant service, s."""
    return MG1(0.8 / 1.8, 1.8, 0.0).Wq


@exercise("3.4c", 5e-3)
def shared_short() -> float:
    """Stay under processor sharing of a request that needs 0.1 s alone, s."""
    return MG1PS(0.8 / 1.8, 1.8).conditional(0.1)


@exercise("3.4d", 5e-3)
def shared_long() -> float:
    """Stay under processor sharing of a request that needs 10 s alone, s."""
    return MG1PS(0.8 / 1.8, 1.8).conditional(10.0)


@exercise("3.5a", 1e-2)
def largest_rate() -> float:
    """Arrival rate at which the full decode loop is saturated, 1/s."""
    return float(decode_speed(FIXED, SLOPE, PLACES)[-1]) / TOKENS


@exercise("3.5b", 1e-2)
def present() -> float:
    """Mean number present at 16 arrivals/s."""
    return SharedServer(RATE, TOKENS, tuple(decode_speed(FIXED, SLOPE, PLACES))).L


@exercise("3.5c", 2e-3)
def fixed_point() -> float:
    """Number present when fluctuations are ignored."""
    return RATE * TOKENS * FIXED / (1 - RATE * TOKENS * SLOPE)


def waits(arrivals: Sequence[float], services: Sequence[float], servers: int) -> list[float]:
    """Return how long each request waits in one queue before `servers` servers, first come, first served (s)."""
    free, waited = [0.0] * servers, []
    for arrival, service in zip(arrivals, services, strict=True):
        start = max(arrival, heapq.heappop(free))
        heapq.heappush(free, start + service)
        waited.append(start - arrival)
    return waited


@task("3.build", limit=10.0)
def build_waits(attempt: Attempt) -> None:
    """waits(arrivals, services, servers): the wait of each request, first come, first served."""
    attempt.returns([], [], [], 1)
    attempt.returns([0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [2.0, 2.0, 2.0], 1)
    attempt.returns([0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 9.0], [2.0, 5.0, 1.0, 1.0], 2)  # whoever is free first
    attempt.returns([0.0, 0.0], [5.0, 8.0], [2.0, 1.0], 1)  # the server has been idle: no wait is negative
    attempt.returns([0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 0.0, 0.0], [2.0, 2.0, 1.0, 1.0], 2)
    attempt.returns([0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [4.0, 4.0, 4.0], 3)
    rng = np.random.default_rng(3)
    for servers in (1, 2, 3, 7) * 8:
        arrivals = np.cumsum(rng.exponential(1.0, 40)).tolist()
        services = rng.exponential(0.9 * servers, 40).tolist()
        attempt.returns(waits(arrivals, services, servers), arrivals, services, servers)
    # Little's law holds the waits against M/M/1: at rho = 0.5 the mean wait is one mean service time.
    arrivals, services = poisson_arrivals(0.5, 60_000, rng).tolist(), rng.exponential(1.0, 60_000).tolist()
    mean = float(np.mean(attempt(arrivals, services, 1)))
    attempt.require(abs(mean - 1) < 0.1, f"the mean wait of an M/M/1 queue at half load is {mean:.2f} s, not 1")
