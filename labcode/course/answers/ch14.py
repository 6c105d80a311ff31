"""Answers to the exercises of chapter 14, computed, and the hidden tests of its building task."""

from __future__ import annotations

from bisect import bisect

import numpy as np

from labcode.cluster.routers import PrefixAware
from labcode.cost import SeqWork, StepShape, as_cost, hardware
from labcode.course.code_tasks import Attempt, task
from labcode.course.exercises import exercise
from labcode.scheduler.preemption import Link
from labcode.scheduler.request import Request


def tokens_a_check(k: int, a: float) -> float:
    """Return the mean number of tokens that a check of `k` drafts yields, each accepted with probability `a`."""
    return sum(a**i for i in range(k + 1))


@exercise("14.1a", 0.005)
def tokens_a_step() -> float:
    """Tokens that a step yields on average, with 3 drafts and acceptance 0.8."""
    return tokens_a_check(3, 0.8)


def gain(batch: int, k: int, a: float, context: int = 1000) -> float:
    """Return the tokens/s with drafts divided by those without, paper price, Llama-3-8B on an A100."""
    price = as_cost("paper", hardware.model("llama3-8b"), hardware.gpu("a100-80"))
    check = price.step_time(StepShape.of([SeqWork(k + 1, context)] * batch))
    return tokens_a_check(k, a) * float(price.decode_times(batch, context * batch)) / check


@exercise("14.1b", 0.01)
def first_batch_that_loses() -> float:
    """Smallest batch for which 3 drafts with acceptance 0.8 do not pay."""
    return 1 + bisect(range(1, 2049), 0, key=lambda batch: int(gain(batch, 3, 0.8) < 1) or -1)


def experts_read(batch: int, experts: int = 64, taken: int = 4) -> float:
    """Return how many different experts `batch` tokens take on average, evenly and independently."""
    return float(experts * (1 - (1 - taken / experts) ** batch))


@exercise("14.2a", 0.01)
def experts_of_eight() -> float:
    """Different experts of 64 that 8 tokens read on average, 4 each."""
    return experts_read(8)


@exercise("14.2b", 0)
def tokens_for_sixty() -> float:
    """Smallest batch that reads 60 or more of 64 experts on average."""
    return next(batch for batch in range(1, 1000) if experts_read(batch) >= 60)


@exercise("14.3", 0.02)
def bandwidth() -> float:
    """Bandwidth in GB/s with which a cache of 3,000 tokens of Llama-3-8B travels within 25 ms."""
    kv = hardware.model("llama3-8b").kv_bytes_per_token
    return Link(1e9, kv).seconds(3000) / 0.025


@exercise("14.4a", 0.02, share=True)
def overlap_raises() -> float:
    """Share by which overlap raises the pace, 12 ms on the GPU and 5 ms on the host."""
    return (12 + 5) / max(12, 5) - 1


@exercise("14.4b", 0.02, share=True)
def overlap_raises_faster() -> float:
    """Share by which overlap raises the pace, 4 ms on the GPU and 5 ms on the host."""
    return (4 + 5) / max(4, 5) - 1


@exercise("14.5a", 0.02)
def two_choices() -> float:
    """Mean time in the system with two choices and many replicas at 0.8, in mean services."""
    return sum(0.8 ** (2**i - 2) for i in range(1, 30))


@exercise("14.5b", 0.01)
def by_lot() -> float:
    """Mean time in the system by lot (M/M/1) at 0.8, in mean services."""
    return 1 / (1 - 0.8)


class Told:
    """A replica's report, as the exercise gives it."""

    tokens = 0

    def __init__(self, requests: int, prefix: int) -> None:
        self.requests, self.prefix = requests, prefix

    def cached(self, request: Request) -> int:
        """Return the tokens of the prefix that lie here."""
        return self.prefix


def routed(waiting: list[int], cached: list[int], slack: int) -> int:
    """Return the choice of the book's own router, which is fresh: ties go to the smaller number."""
    return PrefixAware(slack).choose(Request(0, 1, 1), [Told(*pair) for pair in zip(waiting, cached, strict=True)])


@task("14.build", limit=10.0)
def build_router(attempt: Attempt) -> None:
    """choose(waiting, cached, slack): the longest prefix among those that are not much busier than the least busy."""
    by_hand = (
        (0, [0], [0], 0),
        (1, [3, 2, 2], [0, 0, 0], 5),  # no prefix anywhere: the fewest requests, the smaller number
        (2, [0, 1, 5], [0, 100, 900], 5),  # exactly the slack is still near
        (1, [0, 1, 6], [0, 100, 900], 5),  # beyond it the cache does not count
        (2, [4, 4, 1], [64, 64, 64], 8),  # equal prefixes: the less busy
        (0, [9, 9, 9], [16, 16, 16], 0),
    )
    for wanted, waiting, cached, slack in by_hand:
        attempt.returns(wanted, list(waiting), list(cached), slack)
    rng = np.random.default_rng(14)
    for _ in range(200):
        n = int(rng.integers(1, 9))
        waiting, cached = rng.integers(0, 12, n).tolist(), (16 * rng.integers(0, 5, n)).tolist()
        slack = int(rng.integers(0, 9))
        attempt.returns(routed(waiting, cached, slack), list(waiting), list(cached), slack)
