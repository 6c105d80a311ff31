"""Answers to the exercises of chapter 8, computed."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from labcode.course.code_tasks import Attempt, Violation, task
from labcode.course.exercises import exercise
from labcode.experiments.goodput import goodput
from labcode.simulate import simulate
from labcode.workload import chat

WANTED = 150.0  # requests/s
STATIC = {"engine": "static", "max_bs": 64, "memory": "unlimited"}


def machines(memory: str, n: int) -> int:
    """Return how many GPUs it takes, from the mean largest rate of five draws of `n` requests."""
    rates = [goodput(chat(n, 1.0, seed), memory=memory).rate for seed in range(5)]
    return math.ceil(WANTED / float(np.mean(rates)))


def throughput(n: int, steady: bool, **system: object) -> float:
    """Return tokens/s at 128 requests/s, the mean of five draws."""
    runs = [simulate(chat(n, 128.0, seed), **system) for seed in range(5)]  # type: ignore[arg-type]
    each = [run.steady_tokens_per_second() if steady else run.summary()["output_tokens_per_s"] for run in runs]
    return float(np.mean(each))


@exercise("8.1a", 0)
def reserving_short() -> float:
    """GPUs for 150 req/s, 8192 reserved, from 600 requests."""
    return machines("max:8192", 600)


@exercise("8.1b", 0)
def oracle_short() -> float:
    """GPUs for 150 req/s, oracle, from 600 requests."""
    return machines("oracle", 600)


@exercise("8.1c", 0)
def reserving_long() -> float:
    """GPUs for 150 req/s, 8192 reserved, from 10,000 requests."""
    return machines("max:8192", 10_000)


@exercise("8.1d", 0)
def oracle_long() -> float:
    """GPUs for 150 req/s, oracle, from 10,000 requests: compare 150/3 with the drain rate."""
    return machines("oracle", 10_000)


@exercise("8.2a", 0.08)
def overall_short() -> float:
    """Overall tokens/s, 8192 reserved, 600 requests."""
    return throughput(600, False, memory="max:8192")


@exercise("8.2b", 0.08)
def steady_short() -> float:
    """Steady tokens/s, 8192 reserved, 600 requests."""
    return throughput(600, True, memory="max:8192")


@exercise("8.2c", 0.05)
def overall_long() -> float:
    """Overall tokens/s, 8192 reserved, 3000 requests."""
    return throughput(3000, False, memory="max:8192")


@exercise("8.2d", 0.05)
def steady_long() -> float:
    """Steady tokens/s, 8192 reserved, 3000 requests."""
    return throughput(3000, True, memory="max:8192")


@exercise("8.2e", 0.08)
def static_long() -> float:
    """Overall tokens/s, static batching with 64 seats, 3000 requests."""
    return throughput(3000, False, **STATIC)


@exercise("8.3a", 0.005)
def decode_limit() -> float:
    """Tokens/s of 100 seats at 1000 tokens of context, memory roof only."""
    return 100 / (5.99e-3 + 100 * 1000 * 0.0489e-6)


@exercise("8.3b", 0.005)
def level_context() -> float:
    """Context at which 100 sequences' KV cache takes as long as the weights, tokens."""
    return 5.99e-3 / (100 * 0.0489e-6)


@exercise("8.4a", 0)
def fluid_line() -> float:
    """Requests waiting after 600 s at 60 in, 45 out."""
    return (60 - 45) * 600.0


@exercise("8.4b", 0)
def fluid_wait() -> float:
    """Seconds that the last arrival waits."""
    return fluid_line() / 45


@exercise("8.4c", 0)
def fluid_recovery() -> float:
    """Minutes until the line is gone at 40 in, 45 out."""
    return fluid_line() / (45 - 40) / 60


@exercise("8.4d", 0.002)
def requests_needed() -> float:
    """Requests for a largest rate of the fluid queue within 5 % of the drain rate."""
    credit = 1.0 * 45 / (1 - 1 / 1.05)
    return math.ceil((credit + 256) / 0.9)


LEAST = 0.001  # requests/s: below this the search of 8.build gives up


def bracket(attained: Callable[[float], float], target: float, first: float, tolerance: float) -> tuple[float, float]:
    """Return (low, high) around the rate at which `attained` falls below `target`: high <= (1 + tolerance) low."""
    low, high = 0.0, 0.0
    rate = first
    while not (low and high):
        if attained(rate) >= target:
            low, rate = rate, 2 * rate
        elif rate <= LEAST:
            return 0.0, rate
        else:
            high, rate = rate, max(rate / 2, LEAST)
    while high > (1 + tolerance) * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if attained(middle) >= target else (low, middle)
    return low, high


@task("8.build", limit=5.0)
def build_bracket(attempt: Attempt) -> None:
    """largest_rate(attained, target, first, tolerance): the pair (low, high) around the largest rate."""
    rng = np.random.default_rng(8)
    cases = [(16.0, 16.0, 0.01), (16.0, 1.0, 0.01), (16.0, 500.0, 0.01), (0.01, 100.0, 0.1), (3000.0, 0.1, 0.001)]
    cases += [(float(10 ** rng.uniform(-1, 3)), float(10 ** rng.uniform(-1, 3)), 0.02) for _ in range(20)]
    for limit, first, tolerance in cases:
        for target in (0.9, 0.99):
            asked: dict[float, float] = {}

            def attained(rate: float, limit: float = limit, target: float = target, asked: dict = asked) -> float:
                if not (isinstance(rate, int | float) and 0 < rate < 1e6):
                    raise Violation(f"asked for a rate of {rate!r}")
                if len(asked) > 60:
                    raise Violation("asked for more than 60 rates: each is a whole simulation")
                asked[rate] = target if rate <= limit else target * limit / rate  # exactly at the target is enough
                return asked[rate]

            low, high = attempt(attained, target, first, tolerance)
            attempt.require(low in asked and high in asked, f"returned {low, high}: say what was seen, not more")
            attempt.require(low <= limit < high, f"returned {low, high}, but the largest rate is {limit:.4g}")
            attempt.require(high <= (1 + tolerance) * low * (1 + 1e-12), f"returned {low, high}: not narrow enough")
    hopeless = attempt(lambda rate: 0.5, 0.9, 4.0, 0.01)
    attempt.require(hopeless[0] == 0 and 0 < hopeless[1] <= LEAST, f"returned {hopeless}: no rate keeps that promise")
