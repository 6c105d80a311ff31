"""Programs of several calls: the next call comes when the last one is answered, so arrivals depend on the engine."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from labcode import workload
from labcode.cost import as_cost
from labcode.cost.catalogue import as_gpu, as_model
from labcode.experiments.saturation import drain_rate
from labcode.scheduler import Budgets, Request, Scheduler
from labcode.scheduler.kv_cache import Unlimited
from labcode.simulation.clock import PaperClock

#: Tokens of a call's prompt, and places of the engine.
PROMPT, PLACES = 300, 4
#: What an order may know of a program: when it came, tokens generated for it so far, the call's predicted output.
Known = Callable[[float, int, float], float]

ORDERS: dict[str, Known] = {
    "calls, first come": lambda came, served, expected: 0.0,
    "calls, shortest first": lambda came, served, expected: expected,
    "programs, first come": lambda came, served, expected: came,
    "programs, least served": lambda came, served, expected: float(served),
}


@dataclass(frozen=True)
class Programs:
    """What is to be done.

    Attributes
    ----------
    arrival : float64, shape (n,)
        When each program sends its first call (s).
    outputs : list of lists
        Tokens of each call's answer, call by call.
    prompt : int
        Tokens of every call's prompt.
    """

    arrival: NDArray[np.float64]
    outputs: list[list[int]]
    prompt: int = PROMPT


def answers(rng: np.random.Generator, calls: int) -> list[int]:
    """Return the lengths of so many answers, about 100 tokens each."""
    lengths: list[int] = np.clip(np.rint(rng.lognormal(4.35, 0.7, calls)), 1, 1000).astype(int).tolist()
    return lengths


@cache
def call_pace(cost: str, gpu: str = "a100-80", places: int = PLACES) -> float:
    """Return the drain rate of calls, in 1/s."""
    load = workload.from_arrays(np.arange(2000), PROMPT, answers(np.random.default_rng(99), 2000))
    return drain_rate(load, gpu=gpu, memory="unlimited", max_bs=places, cost=cost)


def programs(n: int, rate: float, seed: int) -> Programs:
    """Return `n` Poisson programs at `rate` 1/s: four of five have two calls, the others twenty, 100 tokens each."""
    rng = np.random.default_rng(seed)
    calls = np.where(rng.random(n) < 0.2, 20, 2)
    outputs = [answers(rng, int(k)) for k in calls]
    return Programs(np.cumsum(rng.exponential(1 / rate, n)), outputs)


def serve(
    work: Programs, order: str, cost: str = "paper", gpu: str = "a100-80", places: int = PLACES
) -> NDArray[np.float64]:
    """Return how long each program took, from its first call to its last answer, in seconds, shape (n,).

    Parameters
    ----------
    order : str
        A name in `ORDERS`: the key of a waiting call, smaller comes first; ties go to the earlier call.  A program's
        served tokens are counted when a call of it arrives, as in Autellix' least attained service (PLAS).
    """
    model = as_model("llama3-8b")
    sizes = [size for program in work.outputs for size in program]
    first = np.cumsum([0] + [len(program) for program in work.outputs])
    owner = np.repeat(np.arange(len(work.outputs)), np.diff(first))
    served, ends = [0] * len(work.outputs), np.full(len(work.outputs), np.nan)
    keys: dict[int, float] = {}
    scheduler = Scheduler(Unlimited(), lambda request: keys[request.id], Budgets(places))
    clock = PaperClock(sizes, as_cost(cost, model, as_gpu(gpu)))
    due = [(float(time), int(first[i])) for i, time in enumerate(work.arrival)]
    heapq.heapify(due)
    now = 0.0
    while due or scheduler.running or scheduler.waiting:
        while due and due[0][0] <= now:
            at, call = heapq.heappop(due)
            program = int(owner[call])
            keys[call] = ORDERS[order](float(work.arrival[program]), served[program], float(sizes[call]))
            scheduler.add(Request(call, work.prompt, sizes[call], at), at)
        plan = scheduler.schedule(now)
        if not plan:
            now = max(now, due[0][0])
            continue
        until = due[0][0] if due and scheduler.open else np.inf
        results, now = clock.execute(plan, now, scheduler.stands_for(plan), until)
        scheduler.update(plan, results, now)
        for call in results.finished:
            program = int(owner[call])
            served[program] += sizes[call]
            if call + 1 < first[program + 1]:
                heapq.heappush(due, (now, call + 1))
            else:
                ends[program] = now
    return ends - work.arrival
