"""Cost models: how long one step takes.  Each answers one question, ``step_time(shape)``.

An object of the reader's own needs that one method and nothing else.  A model that can also price a
whole run of decode steps at once offers ``decode_times``; the others are asked step by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labcode.checks import non_negative, number, positive
from labcode.cost.hardware import GPUSpec, ModelSpec, Roofline, SeqWork, as_gpu, as_model, roofline


class StepShape(NamedTuple):
    """What a step computes: the prefills (or chunks) one by one, and four sums over all its sequences.

    Attributes
    ----------
    prefill : tuple of SeqWork
        Prompts, or chunks of prompts.
    n_decode : int
        Sequences that produce one token each.
    decode_kv : int
        Over those, the sum of cached positions with the new one, in tokens.
    new, seqs, pairs, kv : int
        Over all sequences: new positions, sequences, query-key pairs, moved positions of KV cache.
    """

    prefill: tuple[SeqWork, ...]
    n_decode: int
    decode_kv: int
    new: int
    seqs: int
    pairs: int
    kv: int

    @classmethod
    def of(cls, prefill: Sequence[SeqWork] = (), n_decode: int = 0, decode_kv: int = 0) -> StepShape:
        """Return the shape of a step, its sums worked out.

        A decode's one query sees every cached position and itself, so its pairs equal its positions.
        """
        new, pairs, kv = n_decode, decode_kv, decode_kv
        for work in prefill:
            new += work.new
            pairs += work.pairs
            kv += work.kv_positions
        return cls(tuple(prefill), n_decode, decode_kv, new, len(prefill) + n_decode, pairs, kv)


@runtime_checkable
class CostModel(Protocol):
    """Anything that can say how long a step takes."""

    def step_time(self, shape: StepShape) -> float:
        """Return the duration of a step in seconds."""


@dataclass(frozen=True)
class RooflineCost:
    """The two roofs of a paper GPU, combined by a p-norm.

    ``(memory^p + compute^p)^(1/p)``: `p` = infinity is the hard roofline (perfect overlap), `p` = 1 the sum
    (no overlap at all), values between are a smooth roofline, which measured kernels follow more closely.
    """

    roofs: Roofline
    p: float = np.inf

    def __post_init__(self) -> None:
        if not self.p >= 1:
            raise ValueError(f"p = {self.p!r}: must be at least 1 (infinity for the hard roofline)")

    def combine(self, memory: ArrayLike, compute: ArrayLike) -> NDArray[np.float64]:
        """Combine memory and compute times (seconds, any shape)."""
        memory, compute = np.asarray(memory, dtype=float), np.asarray(compute, dtype=float)
        longer, shorter = np.maximum(memory, compute), np.minimum(memory, compute)
        if np.isinf(self.p):
            return longer
        if self.p == 1:
            return memory + compute
        return longer * (1 + (shorter / longer) ** self.p) ** (1 / self.p)

    def step_time(self, shape: StepShape) -> float:
        """Return the duration of a step in seconds."""
        memory = self.roofs.memory_time(shape.new, shape.kv)
        compute = self.roofs.compute_time(shape.new, shape.seqs, shape.pairs)
        if np.isinf(self.p):
            return memory if memory >= compute else compute
        return float(self.combine(memory, compute))

    def bound(self, shape: StepShape) -> str:
        """Return which roof is the higher one, ``"memory"`` or ``"compute"``."""
        memory = self.roofs.memory_time(shape.new, shape.kv)
        return "compute" if self.roofs.compute_time(shape.new, shape.seqs, shape.pairs) > memory else "memory"

    def decode_times(self, n_decode: ArrayLike, kv: ArrayLike) -> NDArray[np.float64]:
        """Return the durations of decode-only steps (s), for arrays of batch sizes and summed positions."""
        n_decode, kv = np.asarray(n_decode, dtype=float), np.asarray(kv, dtype=float)
        return self.combine(
            self.roofs.memory_time(n_decode, kv),  # type: ignore[arg-type]
            self.roofs.compute_time(n_decode, n_decode, kv),  # type: ignore[arg-type]
        )


def paper(model: ModelSpec | str, gpu: GPUSpec | str) -> RooflineCost:
    """Return the paper GPU's cost model: the hard roofline, the default everywhere."""
    return RooflineCost(roofline(as_model(model), as_gpu(gpu)))


def smooth(model: ModelSpec | str, gpu: GPUSpec | str, p: float = 2.0) -> RooflineCost:
    """Return a smooth roofline with exponent `p` (1.55 fits an A100's linear layers, 2.03 an H100's)."""
    return RooflineCost(roofline(as_model(model), as_gpu(gpu)), number("p", p))


def linear(fixed: float, per_sequence: float) -> RooflineCost:
    """Return Clipper's latency profile: ``fixed + per_sequence * B`` seconds for a step of B sequences."""
    fixed, per_sequence = positive("fixed", fixed), non_negative("per_sequence", per_sequence)
    return RooflineCost(Roofline(fixed, 0.0, 0.0, 0.0, per_sequence, 0.0), p=1.0)


def decode_times(cost: CostModel, n_decode: int, kv: int, steps: int, grow: int | None = None) -> NDArray[np.float64]:
    """Return the durations (s) of `steps` successive decode-only steps of the same sequences.

    Each step finds `grow` (by default `n_decode`) more cached positions than the one before.
    """
    positions = kv + np.arange(steps) * (n_decode if grow is None else grow)
    if hasattr(cost, "decode_times"):
        return np.asarray(cost.decode_times(np.full(steps, n_decode), positions), dtype=float)
    return np.array([cost.step_time(StepShape.of((), n_decode, int(position))) for position in positions])
