"""In which order waiting requests come in.

An order is a *key*: a plain function of the request; the smallest key comes first, and ties go to the earlier
arrival.  A discipline whose order changes while requests wait keeps state and is a class with the methods of
`WaitingQueue`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from labcode.checks import non_negative, number
from labcode.workload import Request, Workload

OrderKey = Callable[[Request], float]


@runtime_checkable
class Discipline(Protocol):
    """A waiting line whose order may change with time (ageing, fair shares)."""

    def push(self, request: Request, now: float) -> None:
        """Let `request` join the line."""

    def peek(self, now: float) -> Request:
        """Return who comes next, without removing it."""

    def pop(self, now: float) -> Request:
        """Remove and return who comes next."""

    def __len__(self) -> int:
        """Return how many wait."""


class WaitingQueue:
    """The waiting line ordered by a key that each request keeps while it waits."""

    def __init__(self, keys: NDArray[np.float64]) -> None:
        self._keys = keys
        self._heap: list[tuple[float, int, Request]] = []

    def push(self, request: Request, now: float) -> None:
        """Let `request` join the line."""
        heapq.heappush(self._heap, (self._keys[request.id], request.id, request))

    def peek(self, now: float) -> Request:
        """Return who comes next, without removing it."""
        return self._heap[0][2]

    def pop(self, now: float) -> Request:
        """Remove and return who comes next."""
        return heapq.heappop(self._heap)[2]

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._heap)


def predicted_output(load: Workload, sigma: float, seed: int) -> NDArray[np.float64]:
    """Return predictions of the output lengths: the true ones times exp(N(0, sigma^2)), in tokens.

    The same seed gives the same relative errors whatever the rate, so a sweep compares like with like.
    """
    errors = np.random.default_rng(seed).normal(0.0, 1.0, len(load))
    return np.asarray(load.output * np.exp(sigma * errors), dtype=float)


def order_keys(order: str | OrderKey, load: Workload, seed: int = 0) -> NDArray[np.float64]:
    """Return the key of every request under `order`; smaller comes first, shape (n,).

    Parameters
    ----------
    order : str or callable
        ``"fcfs"`` first come, first served; ``"sjf"`` shortest output first (an oracle's knowledge);
        ``"sjf:0.5"`` shortest predicted output first, the prediction off by a log-normal factor with that sigma;
        ``"deadline"`` earliest deadline first (requests without one come last); or a function of a Request.
    seed : int
        Of the prediction error.

    Raises
    ------
    ValueError
        If the name is unknown, or a function returns something that is not a number (which row).
    """
    if callable(order):
        return np.array([number(f"order(request {r.id})", order(r)) for r in load.requests()])
    name, _, argument = str(order).partition(":")
    if order == "fcfs":
        return np.asarray(load.arrival, dtype=float)
    if order == "sjf":
        return load.output.astype(float)
    if name == "sjf" and argument:
        try:
            sigma = float(argument)
        except ValueError:
            raise ValueError(f"order = {order!r}: the part after 'sjf:' must be a number, as in 'sjf:0.5'") from None
        return predicted_output(load, non_negative("order's sigma", sigma), seed)
    if order == "deadline":
        if load.deadline is None:
            raise ValueError("order = 'deadline': the workload has no deadlines")
        return np.where(np.isnan(load.deadline), np.inf, load.deadline)
    raise ValueError(
        f'order = {order!r}: known are "fcfs", "sjf", "sjf:SIGMA" (as in "sjf:0.5"), "deadline", a function of a '
        "Request, or an object with push, peek, pop and len"
    )
