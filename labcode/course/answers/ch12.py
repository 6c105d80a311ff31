"""Answers to the exercises of chapter 12, computed, and the hidden tests of its building task."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from labcode.course.code_tasks import Attempt, task
from labcode.course.evidence.fairness import break_even, link, recompute_seconds
from labcode.course.exercises import exercise
from labcode.scheduler import Request
from labcode.scheduler.fair import BY_OUTPUT, BY_TOKENS, DeficitRoundRobin, Tariff

PROMPT, ANSWER_A, ANSWER_B = 100, 50, 1100  # tokens, exercise 12.1


def charge(tariff: Tariff, answer: int) -> float:
    """Return what a request of exercise 12.1 costs by `tariff`."""
    return tariff.expected(Request(0, PROMPT, answer), answer)


@exercise("12.1a", 0)
def tokens_by_requests() -> float:
    """Output tokens of B for each output token of A, request by request."""
    return charge(BY_OUTPUT, ANSWER_B) / charge(BY_OUTPUT, ANSWER_A)


@exercise("12.1b", 0.01)
def requests_by_tokens() -> float:
    """Requests of A for each request of B, priced tokens divided evenly."""
    return charge(BY_TOKENS, ANSWER_B) / charge(BY_TOKENS, ANSWER_A)


@exercise("12.2a", 0)
def rounds_until_paid() -> float:
    """Rounds until credit of 50 a round, from -130, pays a request of 400."""
    return math.ceil((400 + 130) / 50)


@exercise("12.2b", 0)
def credit_afterwards() -> float:
    """Credit after a prediction of 400 of which 260 were used, when it paid out of 420."""
    queue = DeficitRoundRobin(420.0, BY_OUTPUT)
    request = Request(0, 1, 400, tenant="A")
    queue.push(request, 0.0)
    queue.push(Request(1, 1, 400, tenant="A"), 0.0)
    queue.pop(0.0)
    queue.served(request, 260, 260, 1)
    queue.ended(request)
    return queue.credit["A"]


@exercise("12.3a", 0.02)
def swap_time() -> float:
    """Seconds to swap 6,144 positions of Llama-3-8B out and in at 25 GB/s, without latency."""
    return 2 * link(25e9, latency=0.0).seconds(6144)


@exercise("12.3b", 0.05)
def recompute_time() -> float:
    """Seconds to compute 6,144 positions again on the paper H100, alone."""
    return recompute_seconds(6144)


@exercise("12.3c", 0.03)
def even_bandwidth() -> float:
    """Bandwidth in GB/s of a link shared by four at which both cost the same (latency 50 µs)."""
    return 4 * break_even(6144) / 1e9


@exercise("12.4a", 0)
def readers_of_a_free_page() -> float:
    """Requests that still read a page of six readers when its counter says zero; one of them released it thrice."""
    counter, readers = 6 - 3, 6 - 1
    while counter:
        counter, readers = counter - 1, readers - 1
    return readers


def rounds_of(lines: dict[str, list[float]], weights: dict[str, float], quantum: float, count: int) -> list[str]:
    """Who is let in, one after the other, from lines of charges: deficit round robin as `DeficitRoundRobin` does it."""
    queue = DeficitRoundRobin(quantum, BY_OUTPUT, weights)
    number = 0
    for tenant, charges in lines.items():
        for charge in charges:
            queue.push(Request(number, 1, int(charge), tenant=tenant), 0.0)
            number += 1
    return [queue.pop(0.0).tenant for _ in range(min(count, number))]


@task("12.build", limit=10.0)
def build_deficit_round_robin(attempt: Attempt) -> None:
    """admit(lines, weights, quantum, count): tenants in the order in which their requests are let in."""
    by_hand: tuple[tuple[Any, ...], ...] = (
        ([], {}, {}, 10.0, 3),
        (["A", "A"], {"A": [5, 5]}, {}, 10.0, 9),  # fewer than count
        (["A", "B", "A", "B"], {"A": [10, 10], "B": [10, 10]}, {}, 10.0, 4),
        (["A", "A", "B", "A", "A", "B"], {"A": [10] * 4, "B": [20] * 2}, {"A": 2, "B": 2}, 10.0, 6),
        (["A", "A", "B", "A", "B"], {"A": [10] * 3, "B": [20] * 2}, {}, 10.0, 5),  # B's credit is carried over
        (["A"] * 100 + ["B"], {"A": [10] * 200, "B": [1000]}, {}, 100.0, 101),
        (["B"], {"B": [7]}, {}, 0.001, 1),  # many rounds: gone through without waiting
        (["A", "A", "A", "B", "B"], {"A": [10, 5, 10], "B": [5, 10]}, {"A": 3}, 10.0, 5),
    )
    for wanted, lines, weights, quantum, count in by_hand:
        attempt.returns(wanted, {t: list(line) for t, line in lines.items()}, dict(weights), quantum, count)
    rng = np.random.default_rng(12)
    for _ in range(150):
        tenants = list("ABC")[: int(rng.integers(1, 4))]
        lines = {t: [int(c) for c in rng.integers(1, 60, rng.integers(1, 8))] for t in tenants}
        weights = {t: float(rng.integers(1, 5)) for t in tenants if rng.random() < 0.7}
        quantum, count = float(rng.integers(1, 40)), int(rng.integers(1, 20))
        wanted = rounds_of(lines, weights, quantum, count)
        attempt.returns(wanted, {t: list(line) for t, line in lines.items()}, dict(weights), quantum, count)
