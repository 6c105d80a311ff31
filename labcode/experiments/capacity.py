"""How many GPUs for a trace, and with which settings: `plan_capacity`.

The answer rests on runs, not on averages: settings are compared by the rate that one replica keeps up within the SLO
(never more than its drain rate), and the number of replicas is the smallest with which the trace's own arrivals, dealt
out in turn, keep it, and never less than rate over drain rate.  Both are computed again for resampled traces and under
two prices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from labcode.checks import fraction, integer, one_of
from labcode.cluster import simulate_cluster
from labcode.cost.catalogue import as_gpu, as_model
from labcode.cost.hardware import kv_capacity
from labcode.cost.specs import GPUSpec, ModelSpec
from labcode.experiments.capacity_plan import CapacityPlan, Rated, Setting, Sizing
from labcode.experiments.goodput import goodput
from labcode.experiments.intervals import t_interval
from labcode.experiments.saturation import drain_rate
from labcode.results.metrics import SLO, percentile
from labcode.simulate import simulate
from labcode.workload import Workload

COSTS = ("paper", "smooth")
PLACES = (32, 64, 128, 256, 512)
FEWEST = 100  # requests: with fewer there is nothing to resample
SCREENED = 1500  # requests of the trace of the first look
LONG = 3000  # requests of a resampled trace at least: with fewer, places are never short and no queue has time to grow
FACTOR = 4.0  # more headroom than that is not looked for
MOST = 4096  # replicas


def resampled(load: Workload, rng: np.random.Generator, n: int | None = None, blocks: int = 10) -> Workload:
    """Return a trace put together from blocks of consecutive requests of `load`, drawn with replacement.

    Within a block requests keep their lengths and the gaps between them, so bursts stay bursts; how bursts follow each
    other is lost at the seams (the circular block bootstrap, Politis and Romano 1992).

    Parameters
    ----------
    n : int, optional
        Requests; as many as `load` has by default.
    blocks : int
        Into how many blocks the result is put together.
    """
    count = len(load)
    n = count if n is None else integer("n", n)
    length = -(-n // integer("blocks", blocks))
    starts = rng.integers(0, count, blocks)
    rows = ((starts[:, None] + np.arange(length)) % count).ravel()[:n]
    gaps = np.diff(load.arrival, prepend=load.arrival[0] - (load.arrival[-1] - load.arrival[0]) / (count - 1))
    taken: dict[str, Any] = {
        name: column[rows]
        for name in ("prompt", "output", "max_tokens", "tenant", "prefix")
        if (column := getattr(load, name)) is not None
    }
    plain: dict[str, Any] = {"deadline": None, "cancel_at": None, "nominal_rate": None, "unit_arrival": None}
    return replace(load, arrival=np.cumsum(gaps[rows]), **taken, **plain)


def candidates(load: Workload, model: ModelSpec) -> list[Setting]:
    """Return the settings that are compared: places, reservation, prefill mode."""
    longest = int((load.prompt + load.output).max())
    most = min(model.max_context, 1 << (longest - 1).bit_length())
    memories = [(f"max:{most}", 0.0), ("paged:16", 0.0), ("paged:16", 0.05)]
    if load.max_tokens is not None:
        memories.insert(1, ("declared", 0.0))
    modes = ("mixed", "prefill_first", "chunked")
    return [Setting(places, *memory, mode) for places in PLACES for memory in memories for mode in modes]


def replica_gpu(model: ModelSpec, gpu: GPUSpec) -> tuple[GPUSpec, int]:
    """Return the smallest group of 1, 2, 4, ... GPUs that holds the weights and 8192 tokens of cache, and its size."""
    for size in (1, 2, 4, 8, 16, 32, 64):
        group = gpu if size == 1 else gpu.times(size)
        try:
            if kv_capacity(model, group) >= 8192:
                return group, size
        except ValueError:
            continue
    raise ValueError(f"model = {model.name!r}: its weights do not fit into 64 x {gpu.name}")


def within(load: Workload, slo: SLO, attainment: float, **options: Any) -> tuple[float, float]:
    """Return the largest rate within the SLO, at most the drain rate, and the drain rate (requests/s)."""
    try:
        drain = drain_rate(load, **options)
    except ValueError:  # nobody has to wait for a place, or nobody gets one: the pace of all at once, then
        ends = simulate(load.at_rate(1e6 * len(load)), **options).record.finished
        drain = float(np.isfinite(ends).sum() / np.nanmax(ends)) if np.isfinite(ends).any() else 0.0
    return min(goodput(load, slo, attainment, tolerance=0.03, **options).rate, drain), drain


def replicas_needed(
    load: Workload, slo: SLO, attainment: float, floor: int = 1, **options: Any
) -> tuple[int, dict[int, float]]:
    """Return the smallest number of replicas that keeps the SLO (0 if none up to `MOST` does), and what was seen.

    Requests are dealt out in turn.  The search doubles and then halves, as if attainment grew with the number.

    Parameters
    ----------
    floor : int
        Fewer are not enough in any case: rate over drain rate, without which a short trace would be over before the
        line is long enough to show.
    """
    seen: dict[int, float] = {}

    def enough(count: int) -> bool:
        seen[count] = simulate_cluster(load, count, "round_robin", **options).attainment(slo)
        return seen[count] >= attainment

    low, high = floor - 1, floor
    while not enough(high):
        if high >= MOST or high >= 2 * len(load):
            return 0, seen
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high, seen


def plan_capacity(
    load: Workload,
    model: ModelSpec | str = "llama3-8b",
    gpu: GPUSpec | str = "h100",
    slo: SLO | None = None,
    attainment: float = 0.9,
    *,
    samples: int = 5,
    seed: int = 0,
    costs: Sequence[str] = COSTS,
) -> CapacityPlan:
    """Say how many GPUs a trace needs, and with which settings.

    Parameters
    ----------
    load : Workload
        A trace with its own arrivals; ``load.at_rate`` scales it to the rate that is expected.
    model, gpu : name or spec
    slo : SLO, optional
        By default TTFT <= 1 s and TPOT <= 50 ms.
    attainment : float
        Share of the submitted requests that must meet it, in (0, 1].
    samples : int
        Resampled traces, at least 2.
    seed : int
        Of the resampling.
    costs : sequence of {"paper", "smooth"}

    Returns
    -------
    CapacityPlan

    Raises
    ------
    ValueError
        If an argument is not allowed, the trace is too short, or the model does not fit.
    """
    model, gpu = as_model(model), as_gpu(gpu)
    slo, attainment = slo or SLO(), fraction("attainment", attainment)
    samples, seed = integer("samples", samples, at_least=2), integer("seed", seed, at_least=0)
    for cost in costs:
        one_of("costs", cost, COSTS)
    if len(load) < FEWEST:
        raise ValueError(f"load: {len(load)} requests; a plan needs at least {FEWEST}")
    if not math.isfinite(load.rate):
        raise ValueError("load: all requests come at once; a plan needs a rate")
    group, size = replica_gpu(model, gpu)
    common: dict[str, Any] = {"model": model, "gpu": group}
    rng = np.random.default_rng(seed)
    length, blocks = max(len(load), LONG), 10 * max(1, LONG // len(load))
    short = [resampled(load, rng, LONG, blocks) for _ in range(samples)]
    whole = [resampled(load, rng, length, blocks) for _ in range(samples)]

    # One resampled trace, all settings, the dearer price; then the best one and its neighbours on all of them, of which
    # the one is taken that does best under both prices (of equals the first: fewer places, less machinery).
    settings = candidates(load, model)
    dearer = costs[-1]
    glance = short[0].head(SCREENED)
    first = [within(glance, slo, attainment, cost=dearer, **common, **one.options())[0] for one in settings]
    leader = settings[int(np.argmax(first))]
    near = [one for one in settings if _differs(one, leader) <= 1]
    rated = tuple(_rate(one, cost, short, slo, attainment, common) for cost in costs for one in near)
    scores = [math.prod(one.rate.mean for one in rated if one.setting == setting) for setting in near]
    best = next(one for one, score in zip(near, scores, strict=True) if score >= 0.99 * max(scores))
    drains = {one.cost: one.drain.mean for one in rated if one.setting == best}
    if min(drains.values()) <= 0:
        raise ValueError("load: every request is refused; is the model's context too short for this trace?")
    sizing = tuple(_size(load, whole, slo, attainment, best, cost, drains[cost], common) for cost in costs)
    alone = simulate(load.at_rate(1e-3), cost=dearer, **common, **best.options()).attainment(slo)
    count = max(0, *(one.most for one in sizing))
    factors = {
        one.cost: _headroom(whole, count, slo, attainment, cost=one.cost, **common, **best.options())
        if all(one.least for one in sizing)
        else math.nan
        for one in sizing
    }
    notes = _assumptions(load, model, gpu, size, samples, length, costs)
    return CapacityPlan(
        load.name,
        len(load),
        load.rate,
        model.name,
        gpu.name,
        size,
        slo,
        attainment,
        best,
        rated,
        sizing,
        factors,
        alone,
        notes,
    )


def _differs(one: Setting, other: Setting) -> int:
    """Return in how many of places, reservation and prefill mode two settings differ."""
    memory = (one.memory, one.watermark) != (other.memory, other.watermark)
    return (one.max_bs != other.max_bs) + memory + (one.prefill != other.prefill)


def _rate(
    setting: Setting, cost: str, loads: Sequence[Workload], slo: SLO, attainment: float, common: dict[str, Any]
) -> Rated:
    pairs = [within(load, slo, attainment, cost=cost, **common, **setting.options()) for load in loads]
    rates, drains = zip(*pairs, strict=True)
    return Rated(setting, cost, t_interval(rates), t_interval(drains))


def _size(
    load: Workload,
    others: Sequence[Workload],
    slo: SLO,
    attainment: float,
    setting: Setting,
    cost: str,
    drain: float,
    common: dict[str, Any],
) -> Sizing:
    options = {"cost": cost, **common, **setting.options()}

    def floor(one: Workload) -> int:
        return max(1, math.ceil(one.rate / drain))

    count, seen = replicas_needed(load, slo, attainment, floor(load), **options)
    more = [replicas_needed(other, slo, attainment, floor(other), **options)[0] for other in others]
    for nearby in (count - 1, count + 1, count + 2):
        if count and nearby >= 1 and nearby not in seen:
            seen[nearby] = simulate_cluster(load, nearby, "round_robin", **options).attainment(slo)
    return Sizing(cost, (count, *more), tuple(sorted(seen.items())))


def _headroom(loads: Sequence[Workload], count: int, slo: SLO, attainment: float, **options: Any) -> float:
    """Return by which factor, up to `FACTOR`, all of `loads` may come faster before `count` replicas miss the SLO."""

    def kept(factor: float) -> bool:
        faster = (load.at_rate(factor * load.rate) for load in loads)
        return all(
            simulate_cluster(one, count, "round_robin", **options).attainment(slo) >= attainment for one in faster
        )

    low, high = 1.0, FACTOR
    for _ in range(5):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if kept(middle) else (low, middle)
    return low


def _assumptions(
    load: Workload, model: ModelSpec, gpu: GPUSpec, size: int, samples: int, length: int, costs: Sequence[str]
) -> tuple[str, ...]:
    """Return what the plan takes for granted, in sentences."""
    too_long = int((load.prompt + load.output > model.max_context).sum())
    gaps = np.diff(load.arrival)
    notes = [
        f"Steps cost what a roofline says ({' and '.join(costs)} price) of {gpu.name} at "
        f"{gpu.compute_efficiency:.0%} of its peak FLOP/s and {gpu.bandwidth_efficiency:.0%} of its bandwidth; "
        "nothing was measured on the GPU itself.",
        f"{gpu.usable:.0%} of the memory holds weights and KV cache; host time, tokenising and the network take none.",
        f"The trace: {len(load)} requests, {load.rate:.3g}/s, CV of gaps {gaps.std() / gaps.mean():.2f}, prompt median "
        f"{percentile(load.prompt, 50):.0f} and P99 {percentile(load.prompt, 99):.0f}, output median "
        f"{percentile(load.output, 50):.0f} and P99 {percentile(load.output, 99):.0f} tokens. Tomorrow is like it.",
        "Requests are dealt out in turn to equal replicas, first come, first served at each; a router that looks may "
        "do with fewer.",
        f"Intervals come from {samples} traces made of blocks of this one ({length} requests each to count replicas); "
        "a day of another kind is in none.",
        "No replica fails, none is restarted, and nobody is refused for load.",
    ]
    if size > 1:
        notes.append(f"{size} GPUs work as one device; their communication is free, so real ones are slower.")
    if too_long:
        notes.append(
            f"{too_long} requests ({too_long / len(load):.1%}) exceed the model's context of {model.max_context} "
            "tokens, are refused and count as missed."
        )
    if load.prefix is not None:
        notes.append("Prefixes that requests share are not made use of.")
    return tuple(notes)
