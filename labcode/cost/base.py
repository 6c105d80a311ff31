"""What a cost model is: something that says how long a step takes, and what follows from that."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labcode.cost.compiled import CompiledCost
from labcode.cost.leap import SAME_INSTANT
from labcode.cost.step import SeqWork, StepShape

Floats = NDArray[np.float64]

#: Decode steps that are priced together while nobody knows how many will be needed.
BLOCK = 1 << 12


class HasStepTime(Protocol):
    """The least that an object of a reader's own needs to serve as a cost; see :func:`labcode.cost.as_cost`."""

    def step_time(self, shape: StepShape) -> float:
        """Return the duration of a step in seconds."""


class CostModel(ABC):
    """How long a step takes.  A model of one's own needs `step_time`; the other methods follow from it."""

    @abstractmethod
    def step_time(self, shape: StepShape) -> float:
        """Return the duration of a step in seconds."""

    def decode_times(self, n_decode: ArrayLike, kv: ArrayLike) -> Floats:
        """Return the durations of decode-only steps (s), for arrays of batch sizes and of summed positions."""
        batch, positions = np.broadcast_arrays(n_decode, kv)
        times = [
            self.step_time(StepShape.of((), int(b), int(k))) for b, k in zip(batch.flat, positions.flat, strict=True)
        ]
        return np.array(times, dtype=float).reshape(batch.shape)

    def prefill_times(self, prompt: ArrayLike) -> Floats:
        """Return the durations of steps that hold one whole prompt each (s), for an array of lengths."""
        lengths = np.asarray(prompt)
        times = [self.step_time(StepShape.of([SeqWork(int(length))])) for length in lengths.flat]
        return np.array(times, dtype=float).reshape(lengths.shape)

    def bounds(self, new: ArrayLike, seqs: ArrayLike, pairs: ArrayLike, kv: ArrayLike) -> NDArray[np.str_]:
        """Return what binds steps with these four sums: "memory", "compute", or "" where the model does not say."""
        return np.full(np.broadcast(new, seqs, pairs, kv).shape, "")

    def bound(self, shape: StepShape) -> str:
        """Return what binds a step: "memory", "compute", or "" if the model does not say."""
        return str(self.bounds(shape.new, shape.seqs, shape.pairs, shape.kv))

    def advance(self, shape: StepShape, start: float, limit: int, until: float = np.inf) -> tuple[int, float]:
        """Make decode-only steps of the same sequences until something may happen.

        Each step finds `n_decode` more cached positions than the one before.

        Parameters
        ----------
        shape : StepShape
            The first step; it has no prefill.
        start : float
            When it begins, s.
        limit : int
            Steps at most, at least 1.
        until : float
            The first step that ends at or after this time (up to `SAME_INSTANT`) is the last one.

        Returns
        -------
        steps, end
            How many were made, and when the last one ended in s.
        """
        batch, kv = shape.n_decode, shape.decode_kv
        made, end, block = 0, start, 1
        while made < limit and (made == 0 or end < until - SAME_INSTANT):
            count = min(block, limit - made)
            times = self.decode_times(np.full(count, batch), kv + batch * np.arange(made, made + count))
            ends = np.cumsum(np.concatenate(([end], times)))[1:]
            last = min(count, int(np.searchsorted(ends, until - SAME_INSTANT)) + 1)
            made, end = made + last, float(ends[last - 1])
            # As many as may be needed if each takes as long as this last one; asking for more only wastes time.
            left = (until - end) / times[-1] if times[-1] > 0 else np.inf
            block = int(min(BLOCK, max(1.0, left + 1)))
        return made, end

    def compiled_form(self) -> CompiledCost | None:
        """Return what a compiled loop needs to price steps itself, or None if this model has no such form."""
        return None


class ByStepTime(CostModel):
    """A cost model around any object that can say ``step_time(shape)`` and nothing else."""

    def __init__(self, inner: HasStepTime) -> None:
        self.inner = inner

    def step_time(self, shape: StepShape) -> float:
        """Return what the object says, in seconds."""
        return float(self.inner.step_time(shape))
