"""Answers to the exercises of chapter 8, computed."""

from __future__ import annotations

import math

import numpy as np

from labcode.course.exercises import exercise
from labcode.experiments.goodput import goodput
from labcode.simulate import simulate
from labcode.workload import chat

WANTED = 150.0  # requests/s
STATIC = {"engine": "static", "max_bs": 64, "memory": "unlimited"}


def machines(memory: str, n: int) -> int:
    """Return how many GPUs it takes, from the mean goodput of five draws of `n` requests."""
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
    """Requests for a fluid goodput within 5 % of the drain rate."""
    credit = 1.0 * 45 / (1 - 1 / 1.05)
    return math.ceil((credit + 256) / 0.9)
