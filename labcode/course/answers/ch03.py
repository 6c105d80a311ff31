"""Answers to the exercises of chapter 3, computed."""

from __future__ import annotations

from labcode.course.evidence.queueing import little_by_hand
from labcode.course.exercises import exercise
from labcode.queueing import MG1, MG1PS, MM1, SharedServer, decode_speed, little, stage_level, union_bound

RATE, TOKENS, FIXED, SLOPE, SEATS = 16.0, 290.0, 0.006, 0.00003, 256  # exercise 3.2


@exercise("31.6a", 1e-3)
def area() -> float:
    """Area under the staircase, request-seconds."""
    return little_by_hand()["area"]


@exercise("31.6b", 1e-3)
def mean_number() -> float:
    """Mean number present on [0, 3]."""
    return little_by_hand()["mean_number"]


@exercise("31.6c", 1e-3)
def window_rate() -> float:
    """Arrival rate in the window, 1/s."""
    return little_by_hand()["rate"]


@exercise("31.6d", 1e-3)
def carried_in() -> float:
    """Carried into the window [1, 3], request-seconds."""
    return little([0, 1], [2, 3], (1, 3)).carried_in


@exercise("31.7e", 5e-3)
def mean_stay() -> float:
    """Mean time in the system at 95 of 100 requests/s, s."""
    return MM1(95, 100).W


@exercise("31.7f", 5e-3)
def p99_stay() -> float:
    """p99 of the time in the system at 95 of 100 requests/s, s."""
    return MM1(95, 100).quantile(0.99)


@exercise("31.8b", 1e-4)
def covered() -> float:
    """Share that the sum of two p99s is sure to cover."""
    return union_bound([0.01, 0.01])


@exercise("31.8c", 1e-5)
def level_of_two() -> float:
    """Level of each of two stages for 99 % in all."""
    return stage_level(0.99, 2)


@exercise("31.8d", 1e-5)
def level_of_three() -> float:
    """Level of each of three stages for 99 % in all."""
    return stage_level(0.99, 3)


@exercise("3.1a", 5e-3)
def wait_spread() -> float:
    """Mean wait, M/G/1, utilisation 0.8, mean 1.8 s, scv 0.75, s."""
    return MG1(0.8 / 1.8, 1.8, 0.75).Wq


@exercise("3.1b", 5e-3)
def wait_constant() -> float:
    """The same with constant service, s."""
    return MG1(0.8 / 1.8, 1.8, 0.0).Wq


@exercise("3.1c", 5e-3)
def shared_short() -> float:
    """Stay under processor sharing of a request that needs 0.1 s alone, s."""
    return MG1PS(0.8 / 1.8, 1.8).conditional(0.1)


@exercise("3.2a", 1e-2)
def largest_rate() -> float:
    """Arrival rate at which the full decode loop is saturated, 1/s."""
    return float(decode_speed(FIXED, SLOPE, SEATS)[-1]) / TOKENS


@exercise("3.2b", 1e-2)
def present() -> float:
    """Mean number present at 16 arrivals/s."""
    return SharedServer(RATE, TOKENS, tuple(decode_speed(FIXED, SLOPE, SEATS))).L


@exercise("3.2c", 1e-2)
def fixed_point() -> float:
    """Number present when fluctuations are ignored."""
    return RATE * TOKENS * FIXED / (1 - RATE * TOKENS * SLOPE)
