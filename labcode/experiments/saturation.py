"""What an engine can keep up for ever: drain rates, bounds from the roofline, and how a queue grows above them.

A finite run cannot tell an overloaded system from one that is merely busy: the queue may not have had the time to
grow.  The pace at which a never empty queue is worked off can.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labcode.checks import integer, positive
from labcode.cost import paper
from labcode.cost.formula import combine
from labcode.cost.specs import GPUSpec, ModelSpec
from labcode.results.run import Run
from labcode.simulate import simulate
from labcode.workload import Workload

AT_ONCE = 1e6  # requests/s: all of a workload is there before the first step ends


@dataclass(frozen=True)
class Saturated:
    """What an engine does while its queue is never empty.

    Attributes
    ----------
    rate : float
        The drain rate, requests/s.
    together : float
        Requests in the running batch, mean over time.
    reserved, written : float
        Shares of the KV cache that are taken, and that hold a key and a value, means over time.
    preemptions, recomputed : float
        For each request: how often it was preempted, and how many tokens were computed again for it.
    """

    rate: float
    together: float
    reserved: float
    written: float
    preemptions: float
    recomputed: float


def _drained(load: Workload, skip: float, options: dict[str, Any]) -> tuple[Run, float, float, int]:
    """Return the run with everybody there from the start, the window that counts (s), and how many enter in it."""
    if not 0 <= skip < 1:
        raise ValueError(f"skip = {skip!r}: must be in [0, 1)")
    run = simulate(load.at_rate(AT_ONCE * len(load)), **options)
    admitted = np.sort(run.record.admitted[~np.isnan(run.record.admitted)])
    if len(admitted) < 8:
        raise ValueError(f"load: only {len(admitted)} requests were admitted; a rate needs more")
    start, end = float(admitted[int(skip * len(admitted))]), float(admitted[-1])
    if not end > start:
        raise ValueError("load: everybody is admitted at once; more requests than places are needed")
    return run, start, end, int(np.count_nonzero(admitted > start))


def drain_rate(load: Workload, skip: float = 0.25, **options: Any) -> float:
    """Return the pace at which an engine works off a queue that is never empty, in requests/s.

    Everybody is there from the start.  Counted are admissions from the moment that a share `skip` of the requests
    has been admitted (the first, synchronous batch has dissolved by then) until the last one (no place stays free
    before).  In a saturated engine admissions and completions come at the same pace.

    Parameters
    ----------
    load : Workload
        Several times as many requests as the engine has places; its own arrival times do not matter.
    skip : float
        In [0, 1).
    **options
        As for :func:`labcode.simulate`.
    """
    _, start, end, entered = _drained(load, skip, options)
    return entered / (end - start)


def saturated(load: Workload, skip: float = 0.25, **options: Any) -> Saturated:
    """Return the drain rate and what the engine looks like at it; arguments as for `drain_rate`."""
    run, start, end, entered = _drained(load, skip, options)
    segments = run.record.segments
    inside = (segments["start"] >= start) & (segments["end"] <= end)
    length = np.where(inside, segments["end"] - segments["start"], 0.0)

    def mean(values: ArrayLike) -> float:
        return float(np.average(np.asarray(values, dtype=float), weights=length))

    return Saturated(
        entered / (end - start),
        mean(segments["n_prefill"] + segments["n_decode"]),
        mean(segments["kv_reserved"]) / run.record.capacity,
        mean(run.kv_used_mean()) / run.record.capacity,
        float(run.record.preemptions.mean()),
        float(run.record.recomputed.mean()),
    )


def mean_context(load: Workload) -> float:
    """Return the mean number of cached positions of a decoding sequence, over all decode steps of `load`, in tokens.

    A request with prompt p and output o decodes o - 1 times, with p + 1 ... p + o - 1 positions.  Long outputs weigh
    more: they are there more often.
    """
    steps = load.output - 1
    total = int(steps.sum())
    if not total:
        raise ValueError("load: no request has a second token, so nobody decodes")
    return float((steps * (load.prompt + load.output / 2)).sum() / total)


def ideal_decode(
    batch: int, context: float, model: ModelSpec | str = "llama3-8b", gpu: GPUSpec | str = "h100"
) -> float:
    """Return the tokens/s of `batch` sequences that decode for ever at `context` positions: no prefill, no empty seat.

    batch / max(read_weights + batch · (gather + move_kv · context), batch · (linear + logits + attention · context))
    """
    batch, context = integer("batch", batch), positive("context", context)
    return batch / float(paper(model, gpu).decode_times(batch, batch * context))


@dataclass(frozen=True)
class FluidBounds:
    """Request rates between which a saturated engine with mixed steps must lie, in requests/s.

    Attributes
    ----------
    smooth : float
        Every step holds the same mixture of prefill and decode, so that both roofs are used at once: nobody can do
        better with so many seats.
    apart : float
        Prefills and decodes each have steps of their own.
    memory, compute : float
        Seconds of either roof in a step of the smooth mixture.
    """

    smooth: float
    apart: float
    memory: float
    compute: float


def fluid_bounds(
    load: Workload, batch: int, model: ModelSpec | str = "llama3-8b", gpu: GPUSpec | str = "h100"
) -> FluidBounds:
    """Return what the roofline allows a saturated engine that always has `batch` sequences seated.

    A request sits through one step with its prefill and o - 1 decode steps, so in an average step of `batch`
    sequences a share 1/mean(o) of them prefills.  Averages of the four sums of a step follow, and from these the time
    of each roof.
    """
    batch = integer("batch", batch)
    cost = paper(model, gpu)
    steps = float(load.output.mean())
    prefills = batch / steps
    decodes, context = batch - prefills, mean_context(load)
    tokens = prefills * float(load.prompt.mean())
    pairs = prefills * float((load.prompt * (load.prompt + 1) / 2).mean())
    memory = cost.roofs.memory_time(decodes + tokens, decodes * context + tokens)
    compute = cost.roofs.compute_time(decodes + tokens, batch, decodes * context + pairs)
    alone = float(cost.decode_times(decodes, decodes * context))
    # One prompt a step: the usual case, and the dearest, since every prefill then waits for the weights once.
    one = cost.prefill_times(load.prompt)
    apart = alone + prefills * float(one.mean())
    return FluidBounds(prefills / float(combine(memory, compute, cost.p)), prefills / apart, memory, compute)


def waiting_at(run: Run, times: ArrayLike) -> NDArray[np.float64]:
    """Return how many requests have arrived but hold no seat at each of `times` (s); refused ones are left out."""
    times = np.asarray(times, dtype=float)
    admitted = run.record.admitted
    served = ~np.isnan(admitted)
    came = np.searchsorted(np.sort(run.load.arrival[served]), times, "right")
    return came - np.searchsorted(np.sort(admitted[served]), times, "right").astype(float)


def fluid_goodput(drain: float, n: int, ttft: float, attainment: float, head_start: float) -> float:
    """Return the rate at which a fluid line just lets a share `attainment` of `n` requests start within `ttft` seconds.

    Above the drain rate d, request i waits (i - h)(1/d - 1/λ) for its turn, where the first h find a free seat.  With
    i = attainment · n that equals `ttft` at 1/λ = 1/d - ttft / (attainment · n - h); infinity if that is not positive:
    the workload is over before the line is long enough.

    Parameters
    ----------
    drain : float
        Requests/s.
    head_start : float
        h, in requests.
    """
    late = attainment * n - head_start
    if late <= 0:
        return float("inf")
    gap = 1 / positive("drain", drain) - ttft / late
    return 1 / gap if gap > 0 else float("inf")
