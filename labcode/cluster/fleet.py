"""Several equal engines behind a router: `simulate_cluster`.

Every replica is the engine of :mod:`labcode.simulate`, with a scheduler and a pool of its own.  If the router is
oblivious, its choices are made first and each replica's share runs through `simulate`, compiled where that is possible:
a million requests in seconds.  If it asks for reports, the readable loops of all replicas are driven side by
side, each no further than the report needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.checks import integer
from labcode.cluster.replica import Replica
from labcode.cluster.routers import Router
from labcode.cluster.routers import router as as_router
from labcode.cost import as_cost
from labcode.cost.catalogue import as_gpu, as_model
from labcode.cost.hardware import kv_capacity
from labcode.results.metrics import SLO, Summary, summarise
from labcode.results.run import Run
from labcode.scheduler.admission import fits_context
from labcode.scheduler.kv_cache import UNLIMITED, Memory
from labcode.scheduler.managers import memory as named_memory
from labcode.scheduler.request import Request
from labcode.scheduler.scheduler import Scheduler
from labcode.scheduler.waiting import KeyQueue
from labcode.simulate import budgets_of, seen_by, simulate
from labcode.simulation.clock import PaperClock
from labcode.simulation.requests import fair_queue, requests_of
from labcode.workload import Workload

#: Options of `simulate` that a fleet's replicas may have.
OPTIONS = (
    *("model", "gpu", "max_bs", "memory", "order", "prefill", "cost", "token_budget", "capacity", "watermark"),
    *("predictor", "seed", "preemption", "checks", "expire", "budgets", "link"),
)


@dataclass(frozen=True)
class ClusterRun:
    """What a fleet did with a workload.

    Attributes
    ----------
    load : Workload
        Everybody.
    replica : int64, shape (n,)
        Who served each request.
    runs : tuple of Run or None
        What each replica did with its share; None if it got nobody.
    """

    load: Workload
    replica: NDArray[np.int64]
    runs: tuple[Run | None, ...]

    @cached_property
    def requests(self) -> pd.DataFrame:
        """A row a request, as in a `Run`, with its replica; in the order of arrival."""
        frames = []
        for number, run in enumerate(self.runs):
            if run is not None:
                rows = np.flatnonzero(self.replica == number)
                frames.append(run.requests.set_axis(rows, axis=0).assign(replica=number))
        return pd.concat(frames).sort_index().rename_axis("request")

    def summary(self, slo: SLO | None = None) -> Summary:
        """Return the summary over all requests, as a `Run` gives it, without what belongs to one engine."""
        pairs = [run.itl() for run in self.runs if run is not None]
        values, weights = (np.concatenate(column) for column in zip(*pairs, strict=True))
        return summarise(self.requests, values, weights, slo)

    def attainment(self, slo: SLO) -> float:
        """Return the share of submitted requests that met the SLO."""
        shares = [(run.attainment(slo), len(run.load)) for run in self.runs if run is not None]
        return sum(share * n for share, n in shares) / len(self.load)

    def shares(self) -> NDArray[np.float64]:
        """Return which share of all tokens, prompts and answers, each replica got, shape (replicas,)."""
        tokens = np.bincount(self.replica, self.load.prompt + self.load.output, len(self.runs))
        return tokens / tokens.sum()


def simulate_cluster(
    load: Workload,
    replicas: int = 4,
    router: str | Router = "round_robin",
    *,
    router_seed: int = 0,
    interleaved: bool = False,
    **options: Any,
) -> ClusterRun:
    """Run `load` through several equal engines behind a router.

    Parameters
    ----------
    load : Workload
        All arrivals.  ``load.at_rate(k * rate)`` before k replicas compares fleets of different size at equal load.
    replicas : int
        How many.
    router : str or Router
        ``"round_robin"``, ``"random"``, ``"least_requests"``, ``"least_tokens"``, ``"power_of_two"``, ``"prefix"``, or
        an object with ``choose(request, reports)``; see :mod:`labcode.cluster.routers`.
    router_seed : int
        Of routers that draw lots.
    interleaved : bool
        Drive the readable loops even for an oblivious router (the reference).
    **options
        Of each replica, as for :func:`labcode.simulate` (its continuous engine); `memory` by name, `order` by name or
        as a key function.

    Returns
    -------
    ClusterRun

    Raises
    ------
    ValueError
        If an argument is not allowed, or the router names no replica.
    """
    replicas = integer("replicas", replicas)
    chosen = as_router(router, router_seed)
    unknown = [name for name in options if name not in OPTIONS]
    if unknown:
        raise ValueError(f"{unknown[0]} = {options[unknown[0]]!r}: a replica's options are {', '.join(OPTIONS)}")
    if not isinstance(options.get("memory", ""), str):
        raise ValueError(f"memory = {options['memory']!r}: by name, since every replica needs a pool of its own")
    order = options.get("order", "fcfs")
    if not isinstance(order, str) and (not callable(order) or hasattr(order, "push")):
        raise ValueError(f"order = {order!r}: by name or as a key function, since every replica has its own queue")
    if getattr(chosen, "oblivious", False) and not interleaved:
        return _apart(load, replicas, chosen, options)
    return drive(load, replicas, chosen, options)


def _choice(found: Any, replicas: int) -> int:
    """Return a router's choice if it is the number of a replica."""
    if isinstance(found, bool) or not isinstance(found, (int, np.integer)) or not 0 <= found < replicas:
        raise ValueError(f"router: chose {found!r}, the replicas are 0 to {replicas - 1}")
    return int(found)


def _apart(load: Workload, replicas: int, chosen: Router, options: dict[str, Any]) -> ClusterRun:
    """Choose first, then serve each replica's share on its own."""
    memory, order = options.get("memory", "max:8192"), options.get("order", "fcfs")
    seen = seen_by(load, memory, order, options.get("predictor", "exact"), options.get("seed", 0))
    blind = [Blind()] * replicas
    requests = requests_of(load, seen.columns.predicted, seen.columns.declared) if _asks(chosen) else [None] * len(load)
    replica = np.array([_choice(chosen.choose(r, blind), replicas) for r in requests], dtype=np.int64)  # type: ignore[arg-type]
    runs: list[Run | None] = []
    by_replica = np.argsort(replica, kind="stable")
    bounds = np.searchsorted(replica[by_replica], np.arange(replicas + 1))
    for number in range(replicas):
        rows = by_replica[bounds[number] : bounds[number + 1]]
        own = dict(options)
        if order != "fcfs" and seen.queue is None:
            own["order"] = _key(seen.columns.key[rows])
        own["predictor"] = _column(seen.columns.predicted[rows])
        runs.append(simulate(load.take(rows), **own) if len(rows) else None)
    return ClusterRun(load, replica, tuple(runs))


def _asks(chosen: Router) -> bool:
    """Whether an oblivious router is a reader's own and may look at the request."""
    return type(chosen).__module__ != Router.__module__


def _key(keys: NDArray[np.float64]) -> Callable[[Request], float]:
    return lambda request: float(keys[request.id])


def _column(values: NDArray[np.float64]) -> Callable[[Workload], NDArray[np.float64]]:
    return lambda load: values


class Blind:
    """The report of a replica to a router that calls itself oblivious: every question is an error."""

    def __getattr__(self, name: str) -> Any:
        raise ValueError(f"router: it calls itself oblivious and asks a replica for {name}")


class Clock:
    """The present, common to all reports."""

    now = 0.0


class Live:
    """The report of a replica, drawn up when it is asked for: until then its loop may lag behind."""

    def __init__(self, replica: Replica, clock: Clock) -> None:
        self._replica, self._clock = replica, clock

    @property
    def requests(self) -> int:
        """Requests that wait or run."""
        self._replica.advance(self._clock.now)
        return len(self._replica.present)

    @property
    def tokens(self) -> int:
        """Tokens of those requests: prompts and answers so far."""
        self._replica.advance(self._clock.now)
        return self._replica.positions(self._clock.now)

    def cached(self, request: Request) -> int:
        """Return how many of the request's first tokens are in the replica's cache."""
        self._replica.advance(self._clock.now)
        return self._replica.scheduler.memory.cached(request)


def drive(
    load: Workload,
    replicas: int,
    chosen: Router,
    options: dict[str, Any],
    adapt: Callable[[Memory], Memory] = lambda pool: pool,
) -> ClusterRun:
    """Drive all loops side by side, each as far as the router's questions need it.

    Parameters
    ----------
    adapt : callable
        What is put around each replica's memory.
    """
    model, gpu = as_model(options.get("model", "llama3-8b")), as_gpu(options.get("gpu", "h100"))
    pricing = as_cost(options.get("cost", "paper"), model, gpu)
    given = options.get("capacity")
    pool = kv_capacity(model, gpu) if given is None else integer("capacity", given, at_most=UNLIMITED)
    memory, order = options.get("memory", "max:8192"), options.get("order", "fcfs")
    seen = seen_by(load, memory, order, options.get("predictor", "exact"), options.get("seed", 0))
    budgets = options.get("budgets") or budgets_of(
        options.get("max_bs", 256), options.get("prefill", "mixed"), options.get("token_budget")
    )

    def engine() -> Replica:
        members: list[int] = []
        own = fair_queue(order, load)
        queue = KeyQueue(lambda request: float(seen.columns.key[members[request.id]])) if own is None else own
        scheduler = Scheduler(
            adapt(named_memory(memory, pool, options.get("watermark", 0.0))),
            queue,
            budgets,
            options.get("preemption"),
            (fits_context(model.max_context), *options.get("checks", ())),
            options.get("expire", "never"),
        )
        return Replica(scheduler, PaperClock([], pricing, options.get("link")), pool, members)

    fleet = [engine() for _ in range(replicas)]
    clock = Clock()
    reports = [Live(one, clock) for one in fleet]
    requests = requests_of(load, seen.columns.predicted, seen.columns.declared)
    away = np.full(len(load), np.nan) if load.cancel_at is None else load.cancel_at
    replica = np.empty(len(load), dtype=np.int64)
    for i, request in enumerate(requests):
        clock.now = request.arrival
        replica[i] = number = _choice(chosen.choose(request, reports), replicas)
        fleet[number].advance(request.arrival)
        fleet[number].submit(request, int(load.output[i]), float(away[i]))
    runs = tuple(Run(load.take(np.array(one.members)), one.finish(), pricing) if one.members else None for one in fleet)
    return ClusterRun(load, replica, runs)
