"""In which order waiting requests come in.

An order is a *key*, a plain function of the request: the smallest comes first, and ties go to the earlier arrival.
An order that changes while requests wait keeps state and is a class with the methods of `WaitingQueue`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from labcode.scheduler.kv_cache import Memory
from labcode.scheduler.request import Request

OrderKey = Callable[[Request], float]


class WaitingQueue:
    """What a scheduler asks of a waiting queue."""

    def push(self, request: Request, now: float) -> None:
        """Let `request` join the queue."""
        raise NotImplementedError

    def peek(self, now: float) -> Request:
        """Return who comes next, without removing it."""
        raise NotImplementedError

    def pop(self, now: float) -> Request:
        """Remove and return whom `peek` offered."""
        raise NotImplementedError

    def __len__(self) -> int:
        """Return how many wait (those who have left meanwhile may be counted)."""
        raise NotImplementedError

    def served(self, request: Request, positions: int, tokens: int, past: int) -> None:
        """Hear what was done for `request`: `positions` on top of `past` cached ones, `tokens` new tokens.

        As many tokens as positions may be so many decode steps in a row.  A queue that listens is told of arrivals
        in time, even while all places are taken.
        """

    def ended(self, request: Request) -> None:
        """Hear that `request` has reached a terminal state, wherever it stood; it may never have been in the queue."""


class KeyQueue(WaitingQueue):
    """The queue ordered by a key that each request keeps while it waits."""

    def __init__(self, key: OrderKey) -> None:
        self.key = key
        self._heap: list[tuple[float, float, int, Request]] = []

    def push(self, request: Request, now: float) -> None:
        """Let `request` join the queue."""
        heapq.heappush(self._heap, (self.key(request), request.arrival, request.id, request))

    def peek(self, now: float) -> Request:
        """Return who comes next, without removing it."""
        return self._heap[0][-1]

    def pop(self, now: float) -> Request:
        """Remove and return who comes next."""
        return heapq.heappop(self._heap)[-1]

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._heap)


def first_come(request: Request) -> float:
    """First come, first served (FCFS)."""
    return request.arrival


def shortest_predicted(request: Request) -> float:
    """Shortest job first (SJF), by predicted output."""
    return request.expected


def earliest_deadline(request: Request) -> float:
    """Earliest deadline first (EDF); who has none comes last."""
    return float("inf") if request.deadline is None else request.deadline


class AgeingQueue(WaitingQueue):
    """A key that falls while a request waits: key(request) - rate · waiting time.

    All fall at the same pace, so the order of two waiting requests never changes, and the queue is one by
    key + rate · arrival: ageing bounds by how much later arrivals may pass.

    Parameters
    ----------
    key : callable
    rate : float
        Units of the key that a second of waiting is worth; 0 is the bare key, infinity first come, first served.
    """

    def __init__(self, key: OrderKey, rate: float) -> None:
        if not rate >= 0:
            raise ValueError(f"rate = {rate!r}: must be at least 0")
        self.rate = rate
        self._queue = KeyQueue(first_come if rate == float("inf") else lambda r: key(r) + rate * r.arrival)
        self.push, self.peek, self.pop = self._queue.push, self._queue.peek, self._queue.pop  # type: ignore[method-assign]

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._queue)


class SkippingQueue(WaitingQueue):
    """First come, first served, but whoever fits may pass those who do not.

    Orca's `Select` stops at the first request whose reservation does not fit (Yu et al. 2022, Algorithm 1); this queue
    looks further.

    Parameters
    ----------
    memory : Memory
        The one that the scheduler has; asked with `fits`.
    patience : float
        Seconds after which the head of the queue may no longer be passed; infinity lets it be passed for ever,
        0 is Orca's rule.
    """

    def __init__(self, memory: Memory, patience: float = float("inf")) -> None:
        if not patience >= 0:
            raise ValueError(f"patience = {patience!r}: must be at least 0")
        self.memory, self.patience = memory, patience
        self.line: list[Request] = []
        self._offered: Request | None = None

    def _next(self, now: float) -> Request:
        head = self.line[0]
        if now - head.arrival >= self.patience:
            return head
        return next((request for request in self.line if self._fits(request)), head)

    def _fits(self, request: Request) -> bool:
        """Try, and give back."""
        fits = self.memory.try_admit(request, request.prompt)
        if fits:
            self.memory.free(request)
        return fits

    def push(self, request: Request, now: float) -> None:
        """Let `request` join the queue at its place by arrival."""
        k = len(self.line)
        while k and (self.line[k - 1].arrival, self.line[k - 1].id) > (request.arrival, request.id):
            k -= 1
        self.line.insert(k, request)

    def peek(self, now: float) -> Request:
        """Return who comes next, without removing it."""
        self._offered = self._next(now)
        return self._offered

    def pop(self, now: float) -> Request:
        """Remove and return whom `peek` offered: asking again, with its blocks taken, would differ."""
        request = self._offered or self._next(now)
        self.line.remove(request)
        self._offered = None
        return request

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self.line)


class Adapted(WaitingQueue):
    """A reader's object with `push`, `peek`, `pop` and a length, and `served` and `ended` if it has them."""

    def __init__(self, own: Any) -> None:
        self.own = own
        self.push, self.peek, self.pop = own.push, own.peek, own.pop  # type: ignore[method-assign]
        if hasattr(own, "served"):
            self.served = own.served  # type: ignore[method-assign]
        if hasattr(own, "ended"):
            self.ended = own.ended  # type: ignore[method-assign]

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self.own)


def as_queue(own: Any) -> WaitingQueue:
    """Return `own` as a queue: itself, adapted if it has the methods, or ordered by it if it is a function.

    Raises
    ------
    ValueError
        If it is none of these.
    """
    if isinstance(own, WaitingQueue):
        return own
    if all(callable(getattr(own, name, None)) for name in ("push", "peek", "pop", "__len__")):
        return Adapted(own)
    if callable(own):
        return KeyQueue(own)
    raise ValueError(f"order = {own!r}: a function of a Request, or an object with push, peek, pop and len")
