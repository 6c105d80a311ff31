"""Answers to the exercises of chapter 2, computed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from labcode.course.code_tasks import Attempt, task
from labcode.course.exercises import exercise
from labcode.course.labs.ch02_chunks import log_of
from labcode.course.labs.ch02_denominators import window_summary
from labcode.results.logs import from_events
from labcode.results.metrics import mean, weighted_percentile

# Exercise 2.2: nine requests of 11 tokens at 20 ms, one of 101 tokens at 60 ms.
TPOT = [0.02] * 9 + [0.06]
GAPS = [10] * 9 + [100]


def one_request() -> pd.Series:
    """Return exercise 2.1's request: there at 0 s, runs at 0.2 s, 26 tokens from 0.45 to 1.2 s."""
    tokens = pd.DataFrame({"request": "r", "token": range(1, 27), "time_s": np.linspace(0.45, 1.2, 26)})
    asked = pd.DataFrame({"request": ["r"], "submitted_s": 0.0, "prompt_tokens": 1, "admitted_s": 0.2})
    return from_events(tokens, asked).requests.iloc[0]


@exercise("2.1a", 1e-3)
def ttft() -> float:
    """TTFT of exercise 2.1, s."""
    return float(one_request()["ttft"])


@exercise("2.1b", 1e-3)
def tpot() -> float:
    """TPOT of exercise 2.1, s: 25 gaps."""
    return float(one_request()["tpot"])


@exercise("2.1c", 1e-3)
def end_to_end() -> float:
    """End-to-end time of exercise 2.1, s."""
    return float(one_request()["finished"])


@exercise("2.1d", 1e-3)
def waited() -> float:
    """Wait before first running, exercise 2.1, s."""
    return float(one_request()["waited"])


@exercise("2.2a", 5e-3)
def mean_over_requests() -> float:
    """Mean TPOT, every request counted once, s."""
    return mean(TPOT)


@exercise("2.2b", 5e-3)
def mean_over_gaps() -> float:
    """Mean TPOT, every gap counted once, s."""
    return mean(TPOT, GAPS)


@exercise("2.2c", 5e-3)
def median_gap() -> float:
    """Median gap, s."""
    return weighted_percentile(TPOT, GAPS, 50)


def stricter_door() -> dict[str, float]:
    """Return the summary of exercise 2.3's window: 300 refused, 50 failed, none late, 100 s."""
    return window_summary(refused=300, failed=50, late=0, window=100.0)[0]


@exercise("2.3a", 5e-3)
def strict_goodput() -> float:
    """Goodput with the stricter door, requests/s."""
    return stricter_door()["goodput_per_s"]


@exercise("2.3b", 5e-3, share=True)
def strict_of_finished() -> float:
    """Attainment over the finished."""
    return stricter_door()["slo_of_finished"]


@exercise("2.3c", 5e-3, share=True)
def strict_of_submitted() -> float:
    """Attainment over the submitted."""
    return stricter_door()["slo_of_submitted"]


def pieces() -> tuple[float, float, float, float]:
    """Return usual and largest interval, the largest over its tokens, and the largest ITL of exercise 2.4, s."""
    intervals, tokens = log_of(4, 25.0, 0.3).chunk_intervals()
    itl, _ = log_of(1, 25.0, 0.3).itl()
    usual = weighted_percentile(intervals, None, 50)
    return usual, float(intervals.max()), float((intervals / tokens).max()), float(itl.max())


@exercise("2.4a", 5e-3)
def usual_interval() -> float:
    """Usual interval between messages, s."""
    return pieces()[0]


@exercise("2.4b", 5e-3)
def largest_interval() -> float:
    """Largest interval between messages, s."""
    return pieces()[1]


@exercise("2.4c", 5e-3)
def divided_interval() -> float:
    """Largest interval divided by its four tokens, s."""
    return pieces()[2]


@exercise("2.4d", 5e-3)
def largest_itl() -> float:
    """Largest inter-token latency, s."""
    return pieces()[3]


def attained(requests: Sequence[Mapping[str, Any]], ttft: float, tpot: float) -> float:
    """Return the share of the submitted requests that finished within both limits (s); of none it is NaN."""
    kept = 0
    for request in requests:
        times = request["times"]
        if request["outcome"] == "finished" and times and times[0] - request["arrival"] <= ttft:
            kept += len(times) == 1 or (times[-1] - times[0]) / (len(times) - 1) <= tpot
    return kept / len(requests) if requests else math.nan


@task("2.build", limit=5.0)
def build_attained(attempt: Attempt) -> None:
    """attained(requests, ttft, tpot): the share of the submitted requests that kept both limits."""

    def request(arrival: float, times: Sequence[float], outcome: str = "finished") -> dict[str, Any]:
        return {"arrival": arrival, "times": list(times), "outcome": outcome}

    good, refused = request(2.0, [2.5, 2.75, 3.0]), request(0.0, [], "refused")
    attempt.returns(1.0, [good], 0.5, 0.25)  # exactly at both limits is within them
    attempt.returns(0.0, [good], 0.25, 0.25)
    attempt.returns(0.0, [good], 0.5, 0.125)
    attempt.returns(1.0, [request(0.0, [0.25, 0.25, 0.75])], 1.0, 0.25)  # a mean over gaps: one of 0.5 s may be in it
    attempt.returns(1.0, [request(0.0, [0.5])], 0.5, 0.001)  # one token: no time between tokens to miss
    attempt.returns(0.5, [good, refused], 0.5, 0.25)  # the refused stay in the denominator
    attempt.returns(0.5, [good, request(0.0, [0.25, 0.5], "failed")], 0.5, 0.25)  # tokens, but no answer
    attempt.returns(1 / 3, [good, request(0.0, [0.25], "unfinished"), request(0.0, [], "timed_out")], 0.5, 0.25)
    empty = attempt([], 1.0, 1.0)
    attempt.require(isinstance(empty, float) and math.isnan(empty), f"returned {empty!r}: the share of nothing is NaN")
    rng = np.random.default_rng(2)
    for _ in range(60):
        outcomes = ("finished", "finished", "finished", "refused", "failed", "cancelled", "unfinished")
        drawn = [
            request(
                float(i),
                (i + np.cumsum(rng.integers(1, 5, rng.integers(1, 6))) / 8).tolist(),
                str(rng.choice(outcomes)),
            )
            for i in range(int(rng.integers(1, 12)))
        ]
        limits = float(rng.integers(1, 5) / 8), float(rng.integers(1, 5) / 8)
        attempt.returns(attained(drawn, *limits), drawn, *limits)
