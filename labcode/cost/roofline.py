"""Rooflines as cost models: the paper GPU, its smooth sibling, and Clipper's straight line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labcode.checks import non_negative, number, positive
from labcode.cost.base import CostModel, Floats
from labcode.cost.catalogue import as_gpu, as_model
from labcode.cost.compiled import CompiledCost, roofline_form
from labcode.cost.formula import Roofline, combine
from labcode.cost.leap import run_length, steps_until
from labcode.cost.specs import GPUSpec, ModelSpec
from labcode.cost.step import SeqWork, StepShape

#: One byte and one FLOP a second: on it, seconds are bytes and FLOPs.
_COUNTER = GPUSpec("counter", 1.0, 1.0, 1.0, compute_efficiency=1.0, bandwidth_efficiency=1.0)


@dataclass(frozen=True)
class StepCost:
    """Price of one step: seconds, FLOPs, bytes of weights, bytes of KV cache, and the roof that binds."""

    time: float
    flops: float
    weight_bytes: float
    kv_bytes: float
    bound: str


def roofline(model: ModelSpec, gpu: GPUSpec) -> Roofline:
    """Return the two roofs of `model` on `gpu`.

    Every parameter outside the experts is read once a step; besides, each new position gathers its row of the
    embedding table.  (For a model whose input and output embeddings are two tables this counts the input table
    in full, as the lecture does: 6.5 % too many bytes for Llama-3-8B.)  Logits are computed for the
    last position of each sequence only.

    Of E experts in a layer a step reads those that at least one of its T new positions takes.  If each position
    takes k different ones, all sets being equally likely, and positions choose independently, then a given expert is
    left out by one position with probability 1 - k/E and by all with (1 - k/E)^T.  By linearity of expectation a step
    reads E (1 - (1 - k/E)^T) experts of each layer, and that is what it is charged.  Real routers have favourites and
    neighbouring tokens agree, so that they read fewer; several GPUs that share the experts are not modelled.
    """
    bandwidth, flops = gpu.achieved_bandwidth, gpu.achieved_flops
    return Roofline(
        read_weights=(model.weight_bytes - model.expert_bytes) / bandwidth,
        gather=model.dtype_bytes * model.hidden / bandwidth,
        move_kv=model.kv_bytes_per_token / bandwidth,
        linear=2 * model.matmul_params / flops,
        logits=2 * model.hidden * model.vocab / flops,
        attention=4 * model.layers * model.heads * model.head_dim / flops,
        read_experts=model.expert_bytes / bandwidth,
        unrouted=1 - model.experts_per_token / model.experts if model.experts else 0.0,
    )


def step_cost(model: ModelSpec | str, gpu: GPUSpec | str, works: Iterable[SeqWork]) -> StepCost:
    """Price one step on the paper GPU.

    Parameters
    ----------
    model, gpu : spec or name
        See :mod:`labcode.cost.catalogue`.
    works : iterable of SeqWork
        One entry a sequence; at least one.

    Returns
    -------
    StepCost
        ``time = max(flops / achieved FLOP/s, bytes / achieved bandwidth)`` in seconds.

    Raises
    ------
    ValueError
        If `works` is empty or a name is unknown.
    """
    shape = StepShape.of(list(works))
    if not shape.seqs:
        raise ValueError("works is empty: a step needs at least one sequence")
    return price(model, gpu, shape.new, shape.seqs, shape.pairs, shape.kv)


def price(model: ModelSpec | str, gpu: GPUSpec | str, new: int, seqs: int, pairs: int, kv: int) -> StepCost:
    """Price a step of the paper GPU from its four sums (see :class:`labcode.cost.step.StepShape`)."""
    model, gpu = as_model(model), as_gpu(gpu)
    count = roofline(model, _COUNTER)
    flops, weight_bytes = count.compute_time(new, seqs, pairs), count.memory_time(new, 0)
    kv_bytes = count.move_kv * kv
    memory, compute = (weight_bytes + kv_bytes) / gpu.achieved_bandwidth, flops / gpu.achieved_flops
    bound = "compute" if compute > memory else "memory"
    return StepCost(float(combine(memory, compute, np.inf)), flops, weight_bytes, kv_bytes, bound)


@dataclass(frozen=True)
class RooflineCost(CostModel):
    """The two roofs of a paper GPU, combined by a p-norm (see :func:`labcode.cost.formula.combine`).

    Raises
    ------
    ValueError
        If `p` is below 1, a coefficient is negative or not finite, or a step would take no time at all.
    """

    roofs: Roofline
    p: float = np.inf

    def __post_init__(self) -> None:
        if not self.p >= 1:
            raise ValueError(f"p = {self.p!r}: must be at least 1 (infinity for the hard roofline)")
        for name, value in zip(self.roofs._fields, self.roofs, strict=True):
            non_negative(f"roofs.{name}", value)
        if not any(value > 0 for name, value in zip(self.roofs._fields, self.roofs, strict=True) if name != "unrouted"):
            raise ValueError("roofs: every coefficient is zero, so that a step would take no time")

    def times(self, new: ArrayLike, seqs: ArrayLike, pairs: ArrayLike, kv: ArrayLike) -> Floats:
        """Return the durations (s) of steps with these four sums, which may be numbers or arrays."""
        new, seqs, pairs, kv = (np.asarray(values, dtype=float) for values in (new, seqs, pairs, kv))
        return np.asarray(combine(self.roofs.memory_time(new, kv), self.roofs.compute_time(new, seqs, pairs), self.p))

    def step_time(self, shape: StepShape) -> float:
        """Return the duration of a step in seconds."""
        memory = self.roofs.memory_time(shape.new, shape.kv)
        return float(combine(memory, self.roofs.compute_time(shape.new, shape.seqs, shape.pairs), self.p))

    def decode_times(self, n_decode: ArrayLike, kv: ArrayLike) -> Floats:
        """Return the durations of decode-only steps (s), for arrays of batch sizes and of summed positions."""
        return self.times(n_decode, n_decode, kv, kv)

    def prefill_times(self, prompt: ArrayLike) -> Floats:
        """Return the durations of steps that hold one whole prompt each (s), for an array of lengths."""
        new = np.asarray(prompt, dtype=float)
        return self.times(new, 1.0, new * (new + 1) / 2, new)

    def bounds(self, new: ArrayLike, seqs: ArrayLike, pairs: ArrayLike, kv: ArrayLike) -> NDArray[np.str_]:
        """Return which roof is the higher one, "memory" or "compute"."""
        new, seqs, pairs, kv = (np.asarray(values, dtype=float) for values in (new, seqs, pairs, kv))
        higher = self.roofs.compute_time(new, seqs, pairs) > self.roofs.memory_time(new, kv)
        return np.where(higher, "compute", "memory")

    def advance(self, shape: StepShape, start: float, limit: int, until: float = np.inf) -> tuple[int, float]:
        """Make decode-only steps of the same sequences, by the closed forms of :mod:`labcode.cost.leap`.

        Their number of new positions does not change, so that memory and compute time are straight lines in the
        number of the step, for a mixture of experts too.
        """
        batch, roofs = shape.n_decode, self.roofs
        lines = (
            float(roofs.memory_time(batch, shape.decode_kv)),
            roofs.move_kv * batch,
            float(roofs.compute_time(batch, batch, shape.decode_kv)),
            roofs.attention * batch,
            float(self.p),
        )
        steps = limit if np.isinf(until) else steps_until(*lines, until - start, limit)
        return steps, start + run_length(*lines, float(steps))

    def compiled_form(self) -> CompiledCost:
        """Return the roofs and the exponent for a compiled loop."""
        return roofline_form(self.roofs, self.p)


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
