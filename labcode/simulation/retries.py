"""Clients that time out and try again, before one server with a queue: how a retry storm begins, lasts and ends.

The server is one queue, first come, first served, with exponential service times: the part of an engine that
matters here is its pace.  A client waits `timeout` seconds for an answer; after that the server's work for it is
wasted, unless the server looks whether the client is still there.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labcode.checks import integer, non_negative, positive


@dataclass(frozen=True)
class RetryPolicy:
    """What a client does when an attempt was refused or timed out.

    Attributes
    ----------
    timeout : float
        Seconds that it waits for an answer.
    retries : int
        Most retries of a request.
    backoff, longest : float
        Seconds before the first retry; they double with each, up to `longest`.
    jitter : bool
        Wait a uniform share of that instead ("full jitter").
    budget : float or None
        Retries that all clients together may make per new request: a bucket gains `budget` with every new request and
        loses 1 with every retry.  None is no budget.
    saved : float
        Most retries that the bucket holds; it is full at first.
    """

    timeout: float = 1.0
    retries: int = 3
    backoff: float = 0.0
    longest: float = 60.0
    jitter: bool = False
    budget: float | None = None
    saved: float = 10.0

    def __post_init__(self) -> None:
        positive("timeout", self.timeout)
        integer("retries", self.retries, at_least=0)
        for name in ("backoff", "longest", "saved"):
            non_negative(name, getattr(self, name))
        if self.budget is not None:
            non_negative("budget", self.budget)


@dataclass(frozen=True)
class QueueServer:
    """The server.

    Attributes
    ----------
    rate : float
        Requests/s that it can do.
    queue : int or None
        Most that wait; beyond that it refuses at once.  None is no limit.
    drops_abandoned : bool
        Whether it looks, before it starts, if the client still waits.
    slow_from, slow_for : float
        When its pace falls (s), and for how long (s).
    slow_to : float
        The share of its pace that is left meanwhile, in (0, 1].
    """

    rate: float
    queue: int | None = None
    drops_abandoned: bool = False
    slow_from: float = 0.0
    slow_for: float = 0.0
    slow_to: float = 1.0

    def __post_init__(self) -> None:
        positive("rate", self.rate)
        if self.queue is not None:
            integer("queue", self.queue)
        for name in ("slow_from", "slow_for"):
            non_negative(name, getattr(self, name))
        if not 0 < self.slow_to <= 1:
            raise ValueError(f"slow_to = {self.slow_to!r}: must be in (0, 1]")

    def ends(self, start: float, work: float) -> float:
        """Return when `work` seconds of full pace, begun at `start` (s), are done."""
        slow_end = self.slow_from + self.slow_for
        before = max(0.0, self.slow_from - start)
        if work <= before or start >= slow_end:
            return start + work
        begun, left = start + before, work - before
        within = (slow_end - begun) * self.slow_to
        return begun + left / self.slow_to if left <= within else slow_end + left - within


@dataclass(frozen=True)
class RetryRun:
    """What happened; all times in seconds.

    Attributes
    ----------
    new, attempts : float64
        When requests came, and when attempts did (the first ones among them).
    good, wasted : float64
        When work was done for a client that still waited, and for one that had gone.
    answered : float64, shape (n,)
        When each request got its answer; NaN if never.
    refused, denied : int
        Attempts that the full queue refused; retries that the budget denied.
    horizon : float
        Nothing after this was looked at.
    """

    new: NDArray[np.float64]
    attempts: NDArray[np.float64]
    good: NDArray[np.float64]
    wasted: NDArray[np.float64]
    answered: NDArray[np.float64]
    refused: int
    denied: int
    horizon: float

    def per_second(self, times: NDArray[np.float64], width: float = 1.0) -> NDArray[np.float64]:
        """Return how many of `times` fall into each `width` seconds up to the horizon, as a rate (1/s)."""
        edges = np.arange(0.0, self.horizon + width / 2, width)
        return np.histogram(times, edges)[0] / width

    def success(self, start: float, end: float) -> float:
        """Return the share of the requests that came in [start, end) s which got an answer; NaN if none came."""
        came = (self.new >= start) & (self.new < end)
        return float((~np.isnan(self.answered[came])).mean()) if came.any() else float("nan")

    def recovers_after(self, moment: float, share: float = 0.9, width: float = 5.0) -> float:
        """Return the seconds from `moment` until success stays at `share` or above; infinity if it never does.

        Success is taken over the requests of every `width` seconds; requests of the last `width` seconds may be still
        under way and are left out.
        """
        starts = np.arange(moment, self.horizon - 2 * width + 1e-9, width)
        bad = [k for k, start in enumerate(starts) if self.success(start, start + width) < share]
        if not bad:
            return 0.0
        return float("inf") if bad[-1] == len(starts) - 1 else (bad[-1] + 1) * width


def poisson_arrivals(rate: float, horizon: float, seed: int) -> NDArray[np.float64]:
    """Return Poisson arrivals at `rate` (1/s) within `horizon` seconds."""
    rng = np.random.default_rng(seed)
    count = rng.poisson(positive("rate", rate) * positive("horizon", horizon))
    return np.sort(rng.uniform(0.0, horizon, count))


ARRIVE, TIME_OUT, DONE = 0, 1, 2


class _Storm:
    """One run: a heap of events, a queue, a bucket."""

    def __init__(self, new: Sequence[float], policy: RetryPolicy, server: QueueServer, horizon: float, seed: int):
        self.policy, self.server, self.horizon = policy, server, horizon
        self.rng = np.random.default_rng(seed)
        self.heap: list[tuple[float, int, int, int]] = []  # (time, serial number, kind, attempt)
        self.serial = 0
        self.owner: list[int] = []  # attempt -> request
        self.waits: list[bool] = []  # attempt -> whether its client still waits for it
        self.tries = [0] * len(new)
        self.answered = [float("nan")] * len(new)
        self.queue: deque[int] = deque()
        self.serving: int | None = None
        self.bucket = policy.saved
        self.attempts: list[float] = []
        self.good: list[float] = []
        self.wasted: list[float] = []
        self.refused = self.denied = 0
        self.works = np.empty(0)
        for i, time in enumerate(new):
            self.push(time, ARRIVE, self.attempt(i))

    def push(self, time: float, kind: int, attempt: int) -> None:
        if time < self.horizon:
            self.serial += 1
            heapq.heappush(self.heap, (time, self.serial, kind, attempt))

    def attempt(self, request: int) -> int:
        self.owner.append(request)
        self.waits.append(True)
        return len(self.owner) - 1

    def run(self) -> None:
        while self.heap:
            now, _, kind, attempt = heapq.heappop(self.heap)
            if kind == ARRIVE:
                self.arrive(attempt, now)
            elif kind == TIME_OUT:
                if self.waits[attempt]:
                    self.waits[attempt] = False
                    self.again(self.owner[attempt], now)
            else:
                self.done(attempt, now)

    def arrive(self, attempt: int, now: float) -> None:
        request = self.owner[attempt]
        self.attempts.append(now)
        if self.tries[request] == 0 and self.policy.budget is not None:
            self.bucket = min(self.policy.saved, self.bucket + self.policy.budget)
        if self.server.queue is not None and self.serving is not None and len(self.queue) >= self.server.queue:
            self.refused += 1
            self.waits[attempt] = False
            self.again(request, now)
            return
        self.push(now + self.policy.timeout, TIME_OUT, attempt)
        self.queue.append(attempt)
        if self.serving is None:
            self.start(now)

    def again(self, request: int, now: float) -> None:
        """Try again, if the number of retries and the budget allow."""
        policy = self.policy
        if self.tries[request] >= policy.retries:
            return
        if policy.budget is not None:
            if self.bucket < 1:
                self.denied += 1
                return
            self.bucket -= 1
        pause = min(policy.longest, policy.backoff * 2.0 ** self.tries[request])
        if policy.jitter:
            pause *= self.rng.random()
        self.tries[request] += 1
        self.push(now + pause, ARRIVE, self.attempt(request))

    def start(self, now: float) -> None:
        while self.queue:
            attempt = self.queue.popleft()
            if self.server.drops_abandoned and not self.waits[attempt]:
                continue
            self.serving = attempt
            self.push(self.server.ends(now, self.work()), DONE, attempt)
            return
        self.serving = None

    def work(self) -> float:
        """Return the next service time at full pace, s."""
        if not len(self.works):
            self.works = self.rng.exponential(1 / self.server.rate, 4096)
        last, self.works = float(self.works[-1]), self.works[:-1]
        return last

    def done(self, attempt: int, now: float) -> None:
        if self.waits[attempt]:
            self.waits[attempt] = False
            self.answered[self.owner[attempt]] = now
            self.good.append(now)
        else:
            self.wasted.append(now)
        self.serving = None
        self.start(now)


def run_retries(arrivals: ArrayLike, policy: RetryPolicy, server: QueueServer, horizon: float, seed: int) -> RetryRun:
    """Let requests come at `arrivals` (s), with retries, until `horizon` (s).

    Parameters
    ----------
    arrivals : array, shape (n,)
        New requests, at least 0 and never decreasing.
    policy : RetryPolicy
    server : QueueServer
    horizon : float
        Seconds.
    seed : int
        Of service times and jitter.
    """
    new = np.asarray(arrivals, dtype=float)
    if new.ndim != 1 or not np.isfinite(new).all() or (len(new) and (new[0] < 0 or (np.diff(new) < 0).any())):
        raise ValueError("arrivals: finite times of at least 0 s that never decrease are needed")
    horizon = positive("horizon", horizon)
    storm = _Storm(new.tolist(), policy, server, horizon, seed)
    storm.run()
    attempts, good, wasted = (np.array(times, dtype=float) for times in (storm.attempts, storm.good, storm.wasted))
    answered = np.array(storm.answered, dtype=float)
    return RetryRun(new, attempts, good, wasted, answered, storm.refused, storm.denied, horizon)


def lasts_for_ever(load: float, retries: float) -> bool:
    """Whether a storm feeds itself: every attempt fails and comes `retries` times again, load · (1 + retries) > 1.

    Parameters
    ----------
    load : float
        New requests/s over the server's pace.
    retries : float
        Retries per new request when everything fails: the limit per request, or the budget if that is smaller.
    """
    return non_negative("load", load) * (1 + non_negative("retries", retries)) > 1
