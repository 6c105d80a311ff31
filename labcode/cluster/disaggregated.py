"""Prefill and decode on engines of their own (Splitwise, DistServe), with the transfer of the cache priced.

A request is prefilled in one fleet, which gives it its first token; its cache then travels over a link, and it decodes
in the other.  Two simplifications favour the split: the first fleet never hears of the second (a cache that has left
takes no place there, and a full decode engine holds up no prefill engine), and transfers do not share the link.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.cluster.fleet import ClusterRun, drive, simulate_cluster
from labcode.cluster.routers import router as as_router
from labcode.results.metrics import SLO, Summary, summarise
from labcode.scheduler.kv_cache import Memory
from labcode.scheduler.managers import Adapted
from labcode.scheduler.preemption import Link
from labcode.scheduler.request import Request
from labcode.workload import Workload


class Received(Adapted):
    """A pool into which caches come complete from elsewhere: all of the prompt but the token that is new.

    Who is preempted loses what came, and computes it again.
    """

    def __init__(self, inner: Memory) -> None:
        super().__init__(inner)
        self.gone: set[int] = set()
        self.cached = lambda request: 0 if request.id in self.gone else request.prompt - 1  # type: ignore[method-assign]
        release = inner.free

        def free(request: Request) -> None:
            self.gone.add(request.id)
            release(request)

        self.free = free  # type: ignore[method-assign]


@dataclass(frozen=True)
class DisaggregatedRun:
    """What two fleets did with a workload.

    Attributes
    ----------
    load : Workload
        Everybody.
    prefill, decode : ClusterRun or None
        The fleets' own runs; None if nobody came so far.
    handed_over : int64, shape (k,)
        Who went on to the second fleet, in the order of its arrivals there.
    transfer : float64, shape (k,)
        How long each cache travelled, in seconds.
    """

    load: Workload
    prefill: ClusterRun
    decode: ClusterRun | None
    handed_over: NDArray[np.int64]
    transfer: NDArray[np.float64]

    @property
    def requests(self) -> pd.DataFrame:
        """A row a request, as in a `Run`, from its arrival at the first fleet to its last token at the second."""
        table = self.prefill.requests.drop(columns="replica")
        table["output_tokens"] = self.load.output
        alone = self.load.output == 1
        table["tpot"], table["itl_max"] = np.nan, np.nan
        table["outcome"] = table["outcome"].astype(str)
        table.loc[~alone, "finished"] = np.nan
        if self.decode is not None:
            rows, later = self.handed_over, self.decode.requests
            first = table["first_token"].to_numpy()[rows]
            finished = later["finished"].to_numpy()
            table.loc[rows, "finished"] = finished
            table.loc[rows, "outcome"] = later["outcome"].astype(str).to_numpy()
            table.loc[rows, "reason"] = later["reason"].to_numpy()
            for name in ("preemptions", "recomputed_tokens"):
                table.loc[rows, name] += later[name].to_numpy()
            table.loc[rows, "tpot"] = (finished - first) / (self.load.output[rows] - 1)
            gap = later["first_token"].to_numpy() - first
            table.loc[rows, "itl_max"] = np.fmax(gap, later["itl_max"].to_numpy())
        return table

    def summary(self, slo: SLO | None = None) -> Summary:
        """Return the summary over all requests; token-level latencies are left out ("no data")."""
        return summarise(self.requests, slo=slo)

    def attainment(self, slo: SLO) -> float:
        """Return the share of submitted requests that met the SLO."""
        return float(slo.met(self.requests).mean())


def simulate_disaggregated(
    load: Workload,
    prefill: int,
    decode: int,
    link: Link | None = None,
    router: str = "least_requests",
    *,
    router_seed: int = 0,
    **options: Any,
) -> DisaggregatedRun:
    """Run `load` through `prefill` engines that only prefill and `decode` engines that only decode.

    Parameters
    ----------
    load : Workload
    prefill, decode : int
        Engines of either kind.
    link : Link, optional
        The way between two engines; without one transfers take no time.
    router : str
        Of both fleets; see :mod:`labcode.cluster.routers`.
    router_seed : int
        Of routers that draw lots.
    **options
        Of every engine, as for `simulate_cluster`; how prefill and decode share a step is no question here.

    Returns
    -------
    DisaggregatedRun
    """
    first = simulate_cluster(_only_prefill(load), prefill, router, router_seed=router_seed, **options)
    table = first.requests
    prefilled = (table["outcome"] == "finished").to_numpy() & (load.output > 1)
    rows = np.flatnonzero(prefilled)
    if not len(rows):
        return DisaggregatedRun(load, first, None, rows, np.empty(0))
    travel = np.array([0.0 if link is None else link.seconds(int(prompt)) for prompt in load.prompt[rows]])
    arrival = table["first_token"].to_numpy()[rows] + travel
    order = np.argsort(arrival, kind="stable")
    rows, travel, arrival = rows[order], travel[order], arrival[order]
    limits = None if load.max_tokens is None else np.maximum(1, load.max_tokens[rows] - 1)
    part = replace(
        load,
        arrival=arrival,
        prompt=load.prompt[rows] + 1,
        output=load.output[rows] - 1,
        max_tokens=limits,
        tenant=None if load.tenant is None else load.tenant[rows],
        deadline=None if load.deadline is None else load.deadline[rows],
        cancel_at=None if load.cancel_at is None else load.cancel_at[rows],
        nominal_rate=None,
        unit_arrival=None,
        prefix=None,
    )
    second = drive(part, decode, as_router(router, router_seed + 1), options, Received)
    return DisaggregatedRun(load, first, second, rows, travel)


def _only_prefill(load: Workload) -> Workload:
    """Return the same requests, each ended by its first token."""
    ones = np.ones(len(load), dtype=np.int64)
    return replace(load, output=ones, max_tokens=None if load.max_tokens is None else ones)
