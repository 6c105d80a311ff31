"""Drive a controller: against a simulated profile, or against anything that takes a batch and can be
timed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from labcode.checks import integer, positive
from labcode.clipper.controllers import Controller
from labcode.clipper.profiles import LatencyProfile


@dataclass(frozen=True)
class SlowPhase:
    """From batch `start` up to (not including) batch `end` each input costs `factor` times as much."""

    start: int = 300
    end: int = 500
    factor: float = 2.0

    def __post_init__(self) -> None:
        integer("SlowPhase.start", self.start, at_least=0)
        integer("SlowPhase.end", self.end, at_least=self.start)
        positive("SlowPhase.factor", self.factor)

    def slowdown(self, index: int) -> float:
        """Factor on the cost per input of batch number `index`."""
        return self.factor if self.start <= index < self.end else 1.0


@dataclass(frozen=True)
class ControllerRun:
    """Sizes and latencies (s) of a run, one entry a batch (shape (n_batches,))."""

    batch: np.ndarray
    latency: np.ndarray

    def late_share(self, slo: float, start: int = 0, end: int | None = None) -> float:
        """Share of batches start ... end - 1 that took longer than `slo` seconds (NaN for none)."""
        part = self.latency[start:end]
        return float(np.mean(part > slo)) if len(part) else float("nan")

    def late_input_share(self, slo: float, start: int = 0, end: int | None = None) -> float:
        """Share of the *inputs* of batches start ... end - 1 whose batch took longer than `slo` seconds (NaN for none).

        Every input counts once, so that a large late batch weighs more than a small one in time.
        """
        sizes, part = self.batch[start:end], self.latency[start:end]
        return float(sizes[part > slo].sum() / sizes.sum()) if len(part) else float("nan")

    def throughput(self, start: int = 0, end: int | None = None) -> float:
        """Inputs per second of busy time over batches start ... end - 1 (NaN for none)."""
        busy = self.latency[start:end].sum()
        return float(self.batch[start:end].sum() / busy) if busy > 0 else float("nan")


def run_controller(run_batch: Callable[[int, int], float], controller: Controller, n_batches: int) -> ControllerRun:
    """Let `controller` choose, run and observe `n_batches` batches, one after the other, inputs never
    lacking.

    Parameters
    ----------
    run_batch : callable (index, size) -> seconds
        Executes batch number `index` and says how long it took.
    """
    integer("n_batches", n_batches)
    sizes, latencies = np.empty(n_batches, dtype=int), np.empty(n_batches)
    for index in range(n_batches):
        sizes[index] = controller.next_batch()
        latencies[index] = run_batch(index, int(sizes[index]))
        controller.observe(int(sizes[index]), float(latencies[index]))
    return ControllerRun(sizes, latencies)


def simulate_controller(
    profile: LatencyProfile,
    controller: Controller,
    n_batches: int = 800,
    disturbance: SlowPhase | None = None,
    *,
    rng: np.random.Generator,
) -> ControllerRun:
    """Run a controller against a profile with its noise and, if given, a slow phase.

    The random numbers are drawn one a batch whatever its size, so that controllers given equal generators
    meet the same noise.
    """
    phase = disturbance or SlowPhase(0, 0, 1.0)
    return run_controller(lambda index, size: profile.sample(size, rng, phase.slowdown(index)), controller, n_batches)


def timed(predict: Callable[[np.ndarray], object], inputs: np.ndarray) -> Callable[[int, int], float]:
    """Wrap a real model for :func:`run_controller`: a batch is the first `size` rows of `inputs`, timed by
    the wall clock.

    A size beyond the rows of `inputs` raises `ValueError`.
    """

    def run_batch(index: int, size: int) -> float:
        if size > len(inputs):
            raise ValueError(f"batch = {size}: inputs has {len(inputs)} rows only; give more, or limit the controller")
        start = time.perf_counter()
        predict(inputs[:size])
        return time.perf_counter() - start

    return run_batch
