"""Answers to the exercises of chapter 13, computed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from labcode.course.code_tasks import Attempt, task
from labcode.course.exercises import exercise
from labcode.experiments.intervals import quantile_interval
from labcode.loadtest.stalls import corrected
from labcode.results.metrics import percentile

#: A window of 250 s: submitted, finished, within the SLO, refused, failed; what is left over is unknown.
SUBMITTED, FINISHED, GOOD, REFUSED, FAILED, SECONDS = 2000, 1700, 1300, 150, 60, 250.0


@exercise("13.1a", 0.01)
def goodput() -> float:
    """Requests/s that certainly met the SLO."""
    return GOOD / SECONDS


@exercise("13.1b", 0.01, share=True)
def share_of_finished() -> float:
    """Share within the SLO of those who finished."""
    return GOOD / FINISHED


@exercise("13.1c", 0.01, share=True)
def least_share() -> float:
    """Smallest share within the SLO of those submitted: nobody unknown met it."""
    return GOOD / SUBMITTED


@exercise("13.1d", 0.01, share=True)
def largest_share() -> float:
    """Largest share within the SLO of those submitted: everybody unknown met it."""
    return (GOOD + SUBMITTED - FINISHED - REFUSED - FAILED) / SUBMITTED


@exercise("13.2a", 0.01)
def seconds_to_drain() -> float:
    """Seconds in which 240 waiting requests are worked off at 15 requests/s while 9 a second come, s."""
    return 240 / (15 - 9)


@exercise("13.2b", 0)
def queue_budget() -> float:
    """Most requests that may wait if at 15 requests/s a first token, 0.4 s after the wait, shall come within 3 s."""
    return round((3 - 0.4) * 15)


@exercise("13.3", 0)
def fewest_draws() -> float:
    """Fewest independent draws from which the 95 % interval of a P95 has an upper end."""
    return float(next(n for n in range(1, 2000) if quantile_interval(np.arange(n), 95)[2] < np.inf))


@exercise("13.4", 0)
def corrected_count() -> float:
    """Latencies above 0.05 s after the correction of one of 1.52 s at a pace of 0.05 s."""
    return float((corrected([1.52], 0.05) > 0.05).sum())


def bounds_of(seconds: Sequence[float], ended: Sequence[bool], q: float) -> tuple[float, float]:
    """Return the smallest and the largest q-th percentile: the unfinished end now, or never."""
    most = [second if done else math.inf for second, done in zip(seconds, ended, strict=True)]
    return percentile(seconds, q), percentile(most, q)


@task("13.build")
def build_bounds(attempt: Attempt) -> None:
    """bounds(seconds, ended, q): the smallest and the largest q-th percentile with unfinished requests."""
    by_hand: tuple[tuple[tuple[float, float], list[float], list[bool], float], ...] = (
        ((3.0, 3.0), [1.0, 2.0, 3.0, 4.0, 5.0], [True] * 5, 50),
        ((2.0, 2.0), [1.0, 2.0, 9.0], [True, True, False], 50),  # it has waited longer already: known
        ((2.0, 3.0), [2.0, 1.0, 3.0], [True, False, True], 50),  # it may turn out to be the longest
        ((9.0, math.inf), [1.0, 2.0, 9.0], [True, True, False], 90),
        ((1.0, math.inf), [1.0], [False], 50),
        ((4.0, math.inf), [4.0, 3.0], [False, False], 100),
    )
    for wanted, seconds, ended, q in by_hand:
        attempt.returns(wanted, list(seconds), list(ended), q)
    rng = np.random.default_rng(13)
    for _ in range(100):
        n = int(rng.integers(1, 30))
        times, done = np.round(rng.exponential(2.0, n), 2).tolist(), (rng.random(n) < 0.7).tolist()
        q = float(rng.choice([10, 50, 90, 99, 100]))
        attempt.returns(bounds_of(times, done, q), list(times), list(done), q)
