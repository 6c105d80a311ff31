"""Theory against the simulator: what single-server formulas say of continuous batching, and what a service
curve says.

All functions take a workload of :mod:`labcode.workload` and price steps on the paper GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labcode.checks import integer, positive
from labcode.cost import paper
from labcode.cost.specs import GPUSpec, ModelSpec
from labcode.queueing.closed_forms import MG1, MM1, quantile_of_tail
from labcode.queueing.little import LittleArea, little
from labcode.queueing.sharing import MG1PS, SharedServer
from labcode.queueing.transform import empirical, mg1_tail
from labcode.results.metrics import percentile
from labcode.simulate import simulate
from labcode.workload import Workload

MODEL, GPU = "llama3-8b", "h100"


@dataclass(frozen=True)
class Sojourn:
    """Sojourn (arrival to last token, s) of a run's requests, those of its first and last tenth left out."""

    mean: float
    p99: float
    little: LittleArea


def measured(load: Workload, max_bs: int = 256) -> Sojourn:
    """Run `load` by continuous batching with KV memory unlimited, so that places are the only limit."""
    table = simulate(load, MODEL, GPU, max_bs=max_bs, memory="unlimited").requests
    arrival, finished = table.arrival.to_numpy(), table.finished.to_numpy()
    edge = len(load) // 10
    inner = slice(edge, len(load) - edge)
    sojourn = (finished - arrival)[inner]
    window = (float(arrival[edge]), float(arrival[-edge - 1]))
    return Sojourn(float(sojourn.mean()), percentile(sojourn, 99), little(arrival, finished, window))


def offline_rate(load: Workload, max_bs: int = 256) -> float:
    """Requests/s when every request is there from the start: the offline throughput that benchmarks print.

    Counted until the last request gets its first token, so that the tail-off does not dilute it.
    """
    run = simulate(load.at_rate(1e6), MODEL, GPU, max_bs=max_bs, memory="unlimited")
    ends = run.requests.finished.to_numpy()
    full = float(run.requests.first_token.max())
    return float((ends <= full).sum() / full)


def alone_time(load: Workload, model: ModelSpec | str = MODEL, gpu: GPUSpec | str = GPU) -> np.ndarray:
    """Seconds that each request takes with the GPU to itself (shape (len(load),))."""
    cost = paper(model, gpu)
    prompt, output = load.prompt.astype(float), load.output.astype(float)
    later = output - 1  # they read prompt + 1 ... prompt + output - 1 positions, prompt + output / 2 on average
    return cost.prefill_times(prompt) + later * cost.roofs.memory_time(1, prompt + output / 2)


def service_curve(
    load: Workload, limit: int, model: ModelSpec | str = MODEL, gpu: GPUSpec | str = GPU, sample: int = 300
) -> tuple[np.ndarray, np.ndarray]:
    """Step seconds with 1 ... `limit` sequences decoding, and the seconds that a joining prompt adds.

    Averages over the workload: contexts as the tokens of `load` see them, prompts as its first `sample`
    requests.

    Returns
    -------
    decode, excess : ndarray, shape (limit,)
        Time of a pure decode step; mean of (step with one prompt) - (pure decode step).
    """
    cost = paper(model, gpu)
    n = np.arange(1, integer("limit", limit) + 1, dtype=float)[:, None]
    prompt, output = load.prompt.astype(float), load.output.astype(float)
    context = ((prompt + output / 2) * output).sum() / output.sum()
    held = n * (context + 1)
    decode = cost.decode_times(n, held)
    joined = prompt[:sample][None, :]
    mixed = cost.times(n + joined, n + 1, held + joined * (joined + 1) / 2, held + joined)
    return decode[:, 0], (mixed - decode).mean(axis=1)


def served_by_curve(load: Workload, rate: float, limit: int = 256) -> SharedServer:
    """The shared server that goes through the service curve of `load` at `rate` requests/s.

    Of the steps a share rate * step time carries a prompt, so a step lasts decode / (1 - rate * excess) on
    average, and n sequences get n tokens from it.

    Raises
    ------
    ValueError
        If the curve cannot keep up with the rate.
    """
    positive("rate", rate)
    decode, excess = service_curve(load, limit)
    spare = 1 - rate * excess
    if spare.min() <= 0:
        raise ValueError(f"rate = {rate!r}: prompts alone take all the time there is")
    return SharedServer(rate, float(load.output.mean()), tuple(np.arange(1, limit + 1) / decode * spare))


THEORIES = ("M/M/1", "M/G/1", "processor sharing", "service curve")


def predicted(load: Workload, rate: float, offline: float, limit: int = 256) -> dict[str, tuple[float, float]]:
    """Mean and p99 of the sojourn (s) by each of `THEORIES`; NaN where a theory sees no steady state.

    The first three take 1 / `offline` for the mean service time: the mistake that the chapter warns of.
    M/G/1 and processor sharing take the spread of the output lengths for that of the service times. The p99
    of the two sharing models scales the mean by p99 / mean of the output lengths, as if each request were
    slowed by the same factor.
    """
    work = load.output / load.output.mean()
    long = percentile(work, 99)
    nan = (float("nan"), float("nan"))
    result = dict.fromkeys(THEORIES, nan)
    if rate < offline:
        mean = 1 / offline
        exponential, shared = MM1(rate, offline), MG1PS(rate, mean)
        general = MG1.from_samples(rate, work * mean)
        transform = empirical(work[:400] / work[:400].mean() * mean)
        p99 = quantile_of_tail(lambda t: mg1_tail(rate, transform, mean, t) if t > 0 else 1.0, 0.99, general.W)
        result["M/M/1"] = (exponential.W, exponential.quantile(0.99))
        result["M/G/1"] = (general.W, p99)
        result["processor sharing"] = (shared.W, shared.conditional(long * mean))
    try:
        curve = served_by_curve(load, rate, limit)
    except ValueError:
        return result
    result["service curve"] = (curve.W, curve.conditional(long * float(load.output.mean())))
    return result
