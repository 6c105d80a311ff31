"""Latency profiles: how long a batch takes as a function of its size, and what a target then allows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linprog

from labcode.checks import fraction, integer, non_negative, positive
from labcode.cost import paper
from labcode.cost.hardware import GPUSpec, ModelSpec, as_gpu, as_model, roofline


@dataclass(frozen=True)
class LatencyProfile:
    """A batch of B inputs takes fixed + per_input * B seconds, give or take noise.

    Attributes
    ----------
    fixed : float
        Seconds that a batch costs whatever its size (call, framework, launching, reading weights).
    per_input : float
        Seconds that each further input adds.
    noise : float
        Standard deviation of a factor 1 + noise * z on the latency, z standard normal.
    name : str

    Source: Crankshaw et al. 2017, section 4.3: measured profiles are close to straight lines.
    """

    fixed: float
    per_input: float
    noise: float = 0.0
    name: str = ""

    def __post_init__(self) -> None:
        non_negative("LatencyProfile.fixed", self.fixed)
        positive("LatencyProfile.per_input", self.per_input)
        if non_negative("LatencyProfile.noise", self.noise) > 0.3:
            raise ValueError(
                f"LatencyProfile.noise = {self.noise!r}: must be at most 0.3, or a latency could be negative"
            )

    def latency(self, batch: int) -> float:
        """Seconds for a batch, without noise."""
        return self.fixed + self.per_input * integer("batch", batch)

    def sample(self, batch: int, rng: np.random.Generator, slowdown: float = 1.0) -> float:
        """Seconds for a batch, with noise; `slowdown` multiplies the cost of each input."""
        clean = self.fixed + self.per_input * slowdown * integer("batch", batch)
        # Cut at three standard deviations: with noise up to 0.3 the factor stays above 0.
        return clean * (1 + self.noise * min(3.0, max(-3.0, float(rng.standard_normal()))))

    def max_batch(self, slo: float) -> int:
        """Largest batch whose noiseless latency is within `slo` seconds: floor((slo - fixed) / per_input),
        or 0."""
        positive("slo", slo)
        # A hair of tolerance, so that (0.020 - 0.003) / 0.0005 counts as 34 and not as 33.999...
        return max(0, math.floor((slo - self.fixed) / self.per_input * (1 + 1e-12) + 1e-9))

    def throughput(self, batch: int) -> float:
        """Inputs per second of batches of this size back to back."""
        return batch / self.latency(batch)

    def half_batch(self) -> float:
        """Batch at which throughput is half of its limit 1 / per_input: fixed / per_input."""
        return self.fixed / self.per_input


# Toy models: invented parameters of the order of the Clipper paper's figure 3 (about 30,000 and 200 queries/s
# at 20 ms for its linear and its kernel SVM).  The medium one is the lecture's.
LINEAR = LatencyProfile(0.002, 0.00003, 0.05, "linear model")
MEDIUM = LatencyProfile(0.003, 0.0005, 0.05, "medium model")
KERNEL = LatencyProfile(0.002, 0.0045, 0.05, "kernel machine")
TOYS = (LINEAR, MEDIUM, KERNEL)


def fit_profile(batches: ArrayLike, latencies: ArrayLike, quantile: float = 0.5, name: str = "") -> LatencyProfile:
    """Fit latency = fixed + per_input * batch by quantile regression.

    Minimises the sum of quantile * (y - line)+ + (1 - quantile) * (line - y)+ as a linear program (scipy's
    HiGHS), with fixed >= 0 and per_input >= 0.  At 0.99 the line is the p99 of latency by batch size, as in
    Clipper's alternative to AIMD; at 0.5 it is the median, which a few hiccups of the machine do not move.
    Source: Koenker and Bassett 1978, Econometrica 46.

    Parameters
    ----------
    batches, latencies : array_like, shape (n,)
        Sizes (at least two different) and seconds (above 0).

    Raises
    ------
    ValueError
        If lengths differ, a value is invalid, or there are not two different sizes.
    """
    x, y = np.asarray(batches, dtype=float), np.asarray(latencies, dtype=float)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"batches {x.shape} and latencies {y.shape}: two flat lists of one length are needed")
    if not (np.all(np.isfinite(x)) and np.all(np.isfinite(y))) or np.any(y <= 0) or np.any(x <= 0):
        raise ValueError("batches and latencies: finite numbers above 0 are needed")
    if len(np.unique(x)) < 2:
        raise ValueError("batches: at least two different sizes are needed to fit a line")
    if fraction("quantile", quantile) == 1:
        raise ValueError("quantile = 1: must lie in (0, 1)")
    x_unit, y_unit, n = x.max(), y.max(), len(x)  # scaled to one: solvers dislike microseconds
    cost = np.concatenate(([0.0, 0.0], np.full(n, quantile), np.full(n, 1 - quantile)))
    lines = np.hstack((np.ones((n, 1)), (x / x_unit)[:, None], np.eye(n), -np.eye(n)))
    solution = linprog(cost, A_eq=lines, b_eq=y / y_unit, method="highs").x
    slope = max(float(solution[1] * y_unit / x_unit), 1e-12)  # a flat fit: one picosecond an input
    return LatencyProfile(float(solution[0] * y_unit), slope, name=name)


def decode_profile(model: ModelSpec | str, gpu: GPUSpec | str, context: int) -> LatencyProfile:
    """Profile of one decode step on the paper GPU as long as memory binds: reading weights, then KV per
    sequence.

    fixed = weight bytes / achieved bandwidth; per_input = (KV bytes of context + 1 positions + one
    embedding row) / achieved bandwidth. Beyond :func:`decode_limit` the step is compute-bound and the line
    no longer holds.
    """
    spec, device = as_model(model), as_gpu(gpu)
    roofs = roofline(spec, device)
    per_sequence = roofs.gather + roofs.move_kv * (integer("context", context, at_least=0) + 1)
    return LatencyProfile(roofs.read_weights, per_sequence, name=f"{spec.name} decode at context {context}")


def decode_latency(model: ModelSpec | str, gpu: GPUSpec | str, context: int, batch: int) -> float:
    """Seconds of one decode step of `batch` sequences of equal context: the slower of the two roofs."""
    batch = integer("batch", batch)
    positions = batch * (integer("context", context, at_least=0) + 1)
    return float(paper(model, gpu).decode_times(batch, positions))


def decode_limit(model: ModelSpec | str, gpu: GPUSpec | str, context: int, tpot: float) -> int:
    """Largest decode batch whose step takes at most `tpot` seconds, both roofs considered (0 if none)."""
    memory = decode_profile(model, gpu, context).max_batch(tpot)
    roofs = roofline(as_model(model), as_gpu(gpu))
    per_sequence = roofs.compute_time(1, 1, context + 1)
    return min(memory, math.floor(tpot / per_sequence))
