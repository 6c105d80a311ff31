"""One worker in an open loop that serves batches: what a *request* waits, and what a delay of the batches does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labcode.checks import integer, non_negative, one_of, positive
from labcode.clipper.profiles import LatencyProfile
from labcode.results.metrics import percentile

#: When the clock of the longest wait starts: as soon as the worker is free and somebody waits, or at the arrival of
#: the oldest who waits.
TIMERS = ("free", "oldest")


@dataclass(frozen=True)
class DelayedRun:
    """What a run of :func:`simulate_delayed` left behind.

    Attributes
    ----------
    latency : ndarray, shape (n,)
        Arrival to end of the request's batch (s).
    batch : ndarray, shape (batches,)
        Size of each batch.
    busy_time, span : float
        Seconds that the worker computed, and seconds from 0 to the end of the last batch.
    """

    latency: np.ndarray
    batch: np.ndarray
    busy_time: float
    span: float

    @property
    def busy(self) -> float:
        """Busy share of the worker."""
        return self.busy_time / self.span

    @property
    def mean_batch(self) -> float:
        """Mean over batches."""
        return float(self.batch.mean())

    @property
    def mean_latency(self) -> float:
        """Mean over requests (s)."""
        return float(self.latency.mean())

    @property
    def throughput(self) -> float:
        """Requests per second over the whole span."""
        return len(self.latency) / self.span

    def late_share(self, slo: float) -> float:
        """Share of the requests that took longer than `slo` seconds, give or take the rounding of a sum."""
        return float(np.mean(self.latency > slo * (1 + 1e-9)))

    def percentile(self, q: float) -> float:
        """Latency (s) of the q-th percentile over requests; see `labcode.results.metrics.percentile`."""
        return percentile(self.latency, q)


def serve_queue(
    profile: LatencyProfile,
    arrivals: np.ndarray,
    max_wait: float,
    max_batch: int,
    *,
    rng: np.random.Generator,
    timer: str = "free",
) -> DelayedRun:
    """Serve requests with one worker that takes whoever waits, up to `max_batch`, and may delay its batches.

    When the worker is free and someone waits, it starts as soon as `max_batch` wait or the longest wait is over,
    whichever is first.  With ``max_wait=0`` it never waits: batches form only while it is busy.

    Parameters
    ----------
    arrivals : ndarray, shape (n,)
        Seconds, ascending.
    max_wait : float
        Seconds.
    timer : {"free", "oldest"}
        The clock of the wait starts when both are true, free and someone there; or at the arrival of the oldest who
        waits, so that whoever queued behind a batch does not wait on purpose as well.
    rng : Generator
        For the profile's noise.
    """
    non_negative("max_wait", max_wait)
    integer("max_batch", max_batch)
    one_of("timer", timer, TIMERS)
    n = len(arrivals)
    finish = np.empty(n)
    batches: list[int] = []
    served, free, busy = 0, 0.0, 0.0
    while served < n:
        ready = max(free, arrivals[served])
        over = ready + max_wait if timer == "free" else max(free, arrivals[served] + max_wait)
        full = arrivals[served + max_batch - 1] if served + max_batch <= n else np.inf
        start = min(over, max(ready, full))
        size = min(max_batch, int(np.searchsorted(arrivals, start, side="right")) - served)
        latency = profile.sample(size, rng)
        free = start + latency
        finish[served : served + size] = free
        busy += latency
        served += size
        batches.append(size)
    return DelayedRun(finish - arrivals, np.array(batches), busy, free)


def simulate_delayed(
    profile: LatencyProfile,
    rate: float,
    n: int,
    max_wait: float,
    max_batch: int,
    *,
    rng: np.random.Generator,
    timer: str = "free",
) -> DelayedRun:
    """Serve `n` Poisson arrivals; see :func:`serve_queue`.

    Arrivals are drawn before anything else, so that equal generators give equal arrivals whatever the wait.

    Parameters
    ----------
    rate : float
        Requests/s; may exceed the capacity, then latencies grow with `n`.
    """
    positive("rate", rate)
    arrivals = np.cumsum(rng.exponential(1 / rate, integer("n", n)))
    return serve_queue(profile, arrivals, max_wait, max_batch, rng=rng, timer=timer)


def unbatched_rate(profile: LatencyProfile, load: float) -> float:
    """Arrival rate (1/s) that is the share `load` of what the worker serves one by one."""
    return positive("load", load) / profile.latency(1)
