"""Answers to the exercises of chapter 5, computed."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np

from labcode.cost.hardware import SeqWork
from labcode.course.code_tasks import Attempt, task
from labcode.course.evidence.serving import abc_completions, utilisation
from labcode.course.exercises import exercise
from labcode.model.padding import Rectangle

ROUNDS, OUTPUTS = (0.007, 0.010), (3, 1, 2)  # exercise 5.1
PROMPTS = (32, 96, 128, 256)  # exercise 5.2
MIXED_STEP = (SeqWork(20), SeqWork(6), SeqWork(1, 50), SeqWork(1, 11))  # exercise 5.3


@exercise("5.1a", 1e-3)
def static_mean() -> float:
    """Mean completion of A, B, C under static batching with early return, ms."""
    return 1000 * sum(abc_completions("early return", ROUNDS, OUTPUTS)) / 3


@exercise("5.1b", 1e-3)
def continuous_mean() -> float:
    """Mean completion of A, B, C under continuous batching, ms."""
    return 1000 * sum(abc_completions("continuous", ROUNDS, OUTPUTS)) / 3


@exercise("5.2a", 1e-3, share=True)
def linear_share() -> float:
    """Useful share of the linear layers, prompts 32, 96, 128, 256."""
    return utilisation(PROMPTS)["linear"]


@exercise("5.2b", 2e-3, share=True)
def attention_share() -> float:
    """Useful share of square attention, the same prompts."""
    return utilisation(PROMPTS)["attention"]


@exercise("5.3a", 0)
def useful_pairs() -> float:
    """Useful query-key pairs of the mixed step."""
    return Rectangle.of(MIXED_STEP).useful_pairs


@exercise("5.3b", 0)
def padded_pairs() -> float:
    """Pairs of the padded mixed step."""
    return Rectangle.of(MIXED_STEP).pairs


@exercise("5.4a", 1e-3, share=True)
def empty_places() -> float:
    """Empty share of the place-rounds of a static batch with outputs 10, 20, 30, 100."""
    return 1 - utilisation((10, 20, 30, 100))["linear"]


@exercise("5.4b", 5e-3, share=True)
def empty_places_of_three() -> float:
    """Empty share without the longest."""
    return 1 - utilisation((10, 20, 30))["linear"]


def next_batch(
    waiting: list[tuple[float, int]], edges: tuple[int, ...], max_bs: int, max_wait: float, now: float
) -> list[int]:
    """Which of `waiting`, pairs of arrival and prompt by arrival, leave together now."""
    buckets: dict[int, list[int]] = {}
    for i, (_, prompt) in enumerate(waiting):
        buckets.setdefault(bisect_left(edges, prompt), []).append(i)
    for queue in sorted(buckets.values()):  # by who came first
        if len(queue) >= max_bs or waiting[queue[0]][0] + max_wait <= now:
            return queue[:max_bs]
    return []


@task("5.build", limit=10.0)
def build_buckets(attempt: Attempt) -> None:
    """next_batch(waiting, edges, max_bs, max_wait, now): positions in `waiting` of those who leave together now."""
    by_hand: tuple[tuple[Any, ...], ...] = (
        ([], [], (64,), 2, 1.0, 5.0),
        ([0], [(0.0, 10)], (64,), 2, 1.0, 1.0),  # alone, and has waited long enough
        ([], [(0.0, 10)], (64,), 2, 1.0, 0.5),  # alone, and has not
        ([0, 2], [(0.0, 10), (0.0, 200), (0.25, 64)], (64,), 2, 9.0, 0.5),  # 64 tokens still belong to the first bucket
        ([1, 2], [(0.0, 10), (0.25, 70), (0.5, 300)], (64,), 2, 9.0, 0.5),  # the full one leaves, not the older one
        ([0, 2], [(0.0, 10), (0.0, 70), (0.25, 20), (0.25, 90)], (64,), 2, 9.0, 0.5),  # both full: who came first
        ([0, 1], [(0.0, 10), (0.0, 11), (0.0, 12)], (), 2, 0.0, 0.0),  # no edges: one bucket, at most max_bs
    )
    for wanted, *case in by_hand:
        attempt.returns(wanted, *case)
    rng = np.random.default_rng(5)
    for _ in range(200):
        arrivals = np.sort(rng.integers(0, 16, rng.integers(0, 12))) / 4
        waiting = [(float(arrival), int(rng.integers(1, 300))) for arrival in arrivals]
        edges = tuple(sorted({int(edge) for edge in rng.integers(1, 300, rng.integers(0, 4))}))
        max_bs, max_wait = int(rng.integers(1, 5)), float(rng.integers(0, 9) / 4)
        attempt.returns(next_batch(waiting, edges, max_bs, max_wait, 4.0), list(waiting), edges, max_bs, max_wait, 4.0)
