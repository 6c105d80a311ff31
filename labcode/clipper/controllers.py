"""Controllers that choose the batch size from what they observe: the same ones in simulation and in a real
loop."""

from __future__ import annotations

import math
from collections import deque
from typing import Protocol

from labcode.checks import fraction, integer, positive
from labcode.clipper.profiles import fit_profile


class Controller(Protocol):
    """Says how large the next batch may be, and is told how long each batch took."""

    def next_batch(self) -> int:
        """Size allowed for the next batch (at least 1)."""
        ...

    def observe(self, batch: int, latency: float) -> None:
        """Take note that `batch` inputs took `latency` seconds."""
        ...


class FixedBatch:
    """Always the same size, tuned off line.  Notices nothing."""

    def __init__(self, size: int) -> None:
        self.size = integer("size", size)

    def next_batch(self) -> int:
        return self.size

    def observe(self, batch: int, latency: float) -> None:
        pass


class AIMD:
    """Additive increase, multiplicative decrease.

    A batch within `target` raises the size by `additive`; one beyond it multiplies the size by `backoff` and
    rounds down. Clipper's default, with a backoff of 10 % (Crankshaw et al. 2017, section 4.3.1); TCP's
    would be 0.5 (Chiu and Jain 1989).

    Parameters
    ----------
    target : float
        Latency to stay within (s).  Head-room is a target below the SLO.
    additive : int
        Inputs added after a batch in time.
    backoff : float
        Factor after a late batch, in (0, 1).
    start, max_batch : int
        First size and largest size ever.
    """

    def __init__(
        self,
        target: float,
        additive: int = 1,
        backoff: float = 0.9,
        start: int = 1,
        max_batch: int = 1_000_000,
    ) -> None:
        self.target = positive("target", target)
        self.additive = integer("additive", additive)
        if fraction("backoff", backoff) == 1:
            raise ValueError("backoff = 1: must lie in (0, 1), or the size never shrinks")
        self.backoff = backoff
        self.max_batch = integer("max_batch", max_batch)
        self.size = integer("start", start, at_most=self.max_batch)

    def next_batch(self) -> int:
        return self.size

    def observe(self, batch: int, latency: float) -> None:
        if latency <= self.target:
            self.size = min(self.size + self.additive, self.max_batch)
        else:
            self.size = max(1, math.floor(self.size * self.backoff))


class QuantileRegression:
    """Fits the `quantile` of latency as a line over recent batches and solves for the size that meets the
    target.

    Clipper's other scheme (section 4.3.1). Only the last `window` batches count, so that it can follow a
    change; every `refit` batches the line is fitted anew. A line needs different sizes: the sizes used are
    the limit times 1, 0.9, 0.8 in turn, and a new limit is at most double the largest size seen in the
    window (a line is not trusted far beyond its data).
    """

    def __init__(
        self, target: float, quantile: float = 0.99, window: int = 100, refit: int = 10, start: int = 4
    ) -> None:
        self.target = positive("target", target)
        if fraction("quantile", quantile) == 1:
            raise ValueError("quantile = 1: must lie in (0, 1)")
        self.quantile = quantile
        self.refit = integer("refit", refit, at_least=2)
        self.limit = integer("start", start)
        self._seen: deque[tuple[int, float]] = deque(maxlen=integer("window", window, at_least=self.refit))
        self._count = 0

    def next_batch(self) -> int:
        return max(1, math.floor(self.limit * (1.0, 0.9, 0.8)[self._count % 3]))

    def observe(self, batch: int, latency: float) -> None:
        self._seen.append((batch, latency))
        self._count += 1
        if self._count % self.refit:
            return
        sizes, latencies = zip(*self._seen, strict=True)
        largest = max(sizes)
        if largest == min(sizes):
            self.limit = largest + 1  # nothing to fit yet: try another size
            return
        fitted = fit_profile(sizes, latencies, self.quantile).max_batch(self.target)
        self.limit = max(2, min(fitted, 2 * largest))
