"""What chapter 12 computes: tenants' shares, deadlines in a pool, ageing under overload, recompute against swap."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from labcode import workload
from labcode.cost import SeqWork, StepShape, as_cost, hardware, linear
from labcode.results.run import Run
from labcode.results.timeline import OneStep
from labcode.scheduler.fair import BY_OUTPUT, BY_REQUEST, BY_TOKENS, DeficitRoundRobin, Tariff, VirtualTokenCounter
from labcode.scheduler.preemption import Link
from labcode.simulate import simulate
from labcode.workload import Workload

SHORT, LONG = 10, 1000  # output tokens of A's and of B's requests in exercise 31.9


def two_backlogs(
    a: int, b: int, prompts: tuple[int, int] = (1, 1), outputs: tuple[int, int] = (SHORT, LONG)
) -> Workload:
    """Return `a` requests of tenant A and `b` of tenant B, all before the door at once, in turn as far as they last."""
    ranks = np.concatenate([(np.arange(a) + 0.25) / a, (np.arange(b) + 0.5) / b])
    mine = np.concatenate([np.zeros(a, bool), np.ones(b, bool)])[np.argsort(ranks, kind="stable")]
    return workload.from_arrays(
        np.zeros(a + b), np.where(mine, *prompts[::-1]), np.where(mine, *outputs[::-1]), tenant=np.where(mine, "B", "A")
    )


def exercise_31_9(rounds: int = 4) -> dict[str, tuple[int, int]]:
    """C11, by simulation: what A and B got in `rounds` rounds of deficit round robin, one place, both backlogged.

    Keys "requests" (each round one request of either) and "tokens" (each round 1000 output tokens); values are
    (A, B): output tokens in the first case, finished requests in the second.
    """
    load = two_backlogs(rounds * 100 + 50, rounds + 3)
    found = {}
    for name, queue in (("requests", DeficitRoundRobin(1, BY_REQUEST)), ("tokens", DeficitRoundRobin(LONG, BY_OUTPUT))):
        run = simulate(load, memory="unlimited", max_bs=1, cost=OneStep(), order=queue)
        done = run.requests.sort_values("finished")
        end = done["finished"][done["output_tokens"] == LONG].iloc[rounds - 1]
        inside = done[done["finished"] <= end]
        tokens = [inside["output_tokens"][inside["output_tokens"] == size] for size in (SHORT, LONG)]
        a, b = ((int(t.sum()), len(t))[name == "tokens"] for t in tokens)
        found[name] = (a, b)
    return found


def device_tariff(model: str = "llama3-8b", gpu: str = "h100", places: int = 32) -> Tariff:
    """Return a tariff in seconds of the paper GPU: arithmetic by position, KV traffic by position read, and of the
    weights' reading a fixed part, 1 / `places`, for each token."""
    roofs = hardware.roofline(hardware.model(model), hardware.gpu(gpu))
    return Tariff(position=roofs.linear, token=roofs.read_weights / places, history=roofs.move_kv)


def tokens_by(run: Run, until: float) -> list[int]:
    """Return how many tokens each request had by `until` (s)."""
    return [int((run.token_times(i) <= until).sum()) for i in range(len(run.load))]


def served(run: Run, tokens: list[int], tariff: Tariff) -> dict[str, float]:
    """Return each tenant's share of what `tariff` charges, for requests that got so many `tokens`."""
    done: dict[str, float] = {}
    tenants = run.load.tenant
    assert tenants is not None
    for tenant, prompt, count in zip(tenants.tolist(), run.load.prompt.tolist(), tokens, strict=True):
        if count:
            work = tariff.request + tariff.work(prompt, 0, 1) + tariff.work(count - 1, prompt, count - 1)
            done[tenant] = done.get(tenant, 0.0) + work
    return {tenant: work / sum(done.values()) for tenant, work in sorted(done.items())}


def both_waited_until(run: Run) -> float:
    """Return the time at which the first of the tenants had nobody waiting any more (s)."""
    rows = run.requests
    ends = [rows["admitted"][run.load.tenant == tenant].max() for tenant in ("A", "B")]
    return float(np.nanmin(ends))


def alone(prompt: int, output: int, n: int = 64, places: int = 32) -> float:
    """Return the seconds in which `n` such requests run by themselves."""
    load = workload.from_arrays(np.zeros(n), prompt, output)
    return float(simulate(load, memory="unlimited", max_bs=places).requests["finished"].max())


def deadlines_in_a_pool() -> Workload:
    """Return two requests that fit into a pool of 20 tokens together and one that needs all of it; a step is 1 s."""
    return workload.from_arrays([0, 0, 0], [1, 1, 11], [10, 10, 10], deadline=[10.0, 23.0, 22.0])


def late(order: object) -> list[int]:
    """Return who ends after its deadline in that pool."""
    load = deadlines_in_a_pool()
    run = simulate(load, memory="oracle", capacity=20, cost=OneStep(), order=order)  # type: ignore[arg-type]
    assert load.deadline is not None
    return [int(i) for i in np.flatnonzero(run.requests["finished"].to_numpy() > load.deadline + 1e-9)]


SEATS, FEW, MANY, SHARE_OF_LONG = 4, 10, 200, 0.02


@cache
def mixed_lengths(rho: float, n: int = 4000, seed: int = 0) -> Workload:
    """Return short requests and a few long ones at `rho` times what `SEATS` places drain; a step is 1 s."""
    rng = np.random.default_rng(seed)
    output = np.where(rng.random(n) < SHARE_OF_LONG, MANY, FEW)
    return workload.from_arrays(np.cumsum(rng.exponential(output.mean() / (rho * SEATS), n)), 5, output)


def waits(rho: float, ageing: float, n: int = 4000, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return how long each request waits (s) under shortest first with ageing (tokens a second), and who is long."""
    load = mixed_lengths(rho, n, seed)
    order = "fcfs" if ageing == float("inf") else lambda r: r.expected + ageing * r.arrival  # what `AgeingQueue` does
    run = simulate(load, memory="unlimited", max_bs=SEATS, cost=linear(1.0, 0.0), order=order)
    return run.requests["waited"].to_numpy(), load.output == MANY


def recompute_seconds(
    context: int, beside: int = 0, cost: str = "paper", gpu: str = "h100", model: str = "llama3-8b"
) -> float:
    """Return what it costs to prefill `context` tokens again (s): alone, or by how much it prolongs a step in which
    `beside` sequences of 1000 tokens decode."""
    price = as_cost(cost, hardware.model(model), hardware.gpu(gpu))
    with_it = price.step_time(StepShape.of([SeqWork(context, 0)], beside, beside * 1000))
    return with_it - (price.step_time(StepShape.of([], beside, beside * 1000)) if beside else 0.0)


def link(bandwidth: float, sharers: int = 1, latency: float = 50e-6, model: str = "llama3-8b") -> Link:
    """Return a way to the host at `bandwidth` bytes/s that `sharers` transfers divide."""
    per_token = hardware.model(model).kv_bytes_per_token
    return Link(bandwidth / sharers, per_token, latency)


def break_even(
    context: int, beside: int = 0, cost: str = "paper", gpu: str = "h100", model: str = "llama3-8b"
) -> float:
    """Return the bandwidth (bytes/s) at which swapping out and in costs as much as recomputing."""
    way = link(1.0, model=model)
    left = recompute_seconds(context, beside, cost, gpu, model) - 2 * way.latency
    return 2 * context * way.bytes_per_token / left if left > 0 else float("inf")


UNITS = {"requests": BY_REQUEST, "output tokens": BY_OUTPUT, "tokens 1 : 2": BY_TOKENS, "device time": device_tariff()}


def fair_queue(name: str, unit: str, weight: float = 1.0) -> DeficitRoundRobin | VirtualTokenCounter:
    """Return the queue "drr" or "vtc" in a unit of `UNITS`, B's weight against A's 1; the quantum suits the unit."""
    tariff, weights = UNITS[unit], {"B": weight}
    if name == "vtc":
        return VirtualTokenCounter(tariff, weights)
    quantum = {"requests": 1.0, "output tokens": 100.0, "tokens 1 : 2": 400.0, "device time": 0.05}[unit]
    return DeficitRoundRobin(quantum, tariff, weights)
