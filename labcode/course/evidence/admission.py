"""What chapter 11 measures: estimates at the door, refusing early against failing late, bursts, and a second GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from labcode import workload
from labcode.experiments.saturation import drain_rate, waiting_at
from labcode.results.run import Run
from labcode.scheduler.admission import Check, Estimate, Estimator, bounded_queue, drain_estimate, in_time
from labcode.scheduler.request import Refusal, Request
from labcode.scheduler.scheduler import Scheduler
from labcode.scheduler.waiting import OrderKey
from labcode.simulate import simulate
from labcode.workload import Workload
from labcode.workload.prediction import predict

#: The engine of the chapter: an A100, the one GPU for which measured kernels are at hand, with 32 places.
COSTS = ("paper", "smooth", "measured")
PLACES = 32
DEADLINE = 15.0  # s from arrival to the last token
PREDICTOR = "lognormal:0.3"
#: Lengths of a bounded queue that were tried, and the one that the chapter takes (see `goodput_by_bound`).
BOUNDS = (5, 10, 20, 30, 40, 60, 80, 120)
BOUND = 40


def engine(cost: str, places: int = PLACES) -> dict[str, object]:
    """Return the options of `simulate` for the chapter's engine."""
    return {"gpu": "a100-80", "max_bs": places, "memory": "unlimited", "cost": cost, "predictor": PREDICTOR}


def with_deadlines(load: Workload, after: float = DEADLINE) -> Workload:
    """Return `load` with a deadline `after` seconds behind each arrival."""
    return replace(load, deadline=load.arrival + after)


@cache
def pace(cost: str, places: int = PLACES, seeds: int = 4) -> float:
    """Return the drain rate of the chapter's engine on the chat load, requests/s, the mean of some seeds."""
    options = engine(cost, places)
    return float(np.mean([drain_rate(workload.chat(3000, 1.0, seed), **options) for seed in range(seeds)]))  # type: ignore[arg-type]


@cache
def service_times(cost: str, places: int = PLACES) -> tuple[float, float]:
    """Return seconds per prompt token and per output token of a full engine: a fit to who was served at full load.

    From one run at the drain rate (seed 99, which no experiment uses): the time from place to last token against the
    two lengths, by least squares without a constant.
    """
    run = simulate(workload.chat(2000, 1.2 * pace(cost, places), 99), **engine(cost, places))  # type: ignore[arg-type]
    table = run.requests
    lengths = np.column_stack([run.load.prompt, run.load.output]).astype(float)
    taken = (table["finished"] - table["admitted"]).to_numpy()
    prefill, decode = np.linalg.lstsq(lengths, taken, rcond=None)[0]
    return max(0.0, float(prefill)), float(decode)


def estimator(cost: str, places: int = PLACES) -> Estimator:
    """Return the estimator that the chapter uses for one cost model."""
    return drain_estimate(pace(cost, places), *service_times(cost, places))


@dataclass
class Witness:
    """A check that refuses nobody and writes down what `estimate` said of everybody."""

    estimate: Estimator

    def __post_init__(self) -> None:
        self.said: dict[int, Estimate] = {}

    def __call__(self, request: Request, scheduler: Scheduler, now: float) -> Refusal | None:
        """Write down."""
        self.said[request.id] = self.estimate(request, scheduler, now)
        return None


@dataclass(frozen=True)
class Errors:
    """Actual less predicted, in seconds, a value a request that was served: positive is too late."""

    wait: NDArray[np.float64]
    service: NDArray[np.float64]
    predicted_wait: NDArray[np.float64]

    @property
    def total(self) -> NDArray[np.float64]:
        """Error of the sum."""
        return self.wait + self.service


def estimate_errors(cost: str, load: Workload, estimate: Estimator | None = None) -> Errors:
    """Let everybody in and compare what was predicted at each arrival with what came."""
    witness = Witness(estimate or estimator(cost))
    run = simulate(load, checks=(witness,), **engine(cost))  # type: ignore[arg-type]
    table = run.requests
    served = np.flatnonzero(table["finished"].notna())
    said = [witness.said[int(i)] for i in served]
    wait, service = np.array([s.wait for s in said]), np.array([s.service for s in said])
    admitted, finished = table["admitted"].to_numpy()[served], table["finished"].to_numpy()[served]
    return Errors(admitted - load.arrival[served] - wait, finished - admitted - service, wait)


def rush(cost: str, seed: int, n: int = 1200, high: float = 1.4, low: float = 0.6) -> Workload:
    """Return a chat load that comes at `high` times the pace for its first half and at `low` for the second."""
    load, mu = workload.chat(n, 1.0, seed), pace(cost)
    gaps = np.diff(np.append(0.0, load.arrival)) / mu
    gaps[: n // 2] /= high
    gaps[n // 2 :] /= low
    return workload.from_arrays(np.cumsum(gaps), load.prompt, load.output, name="rush")


@dataclass(frozen=True)
class Served:
    """One run under deadlines.

    Attributes
    ----------
    goodput : float
        Requests/s that finished within their deadline, over the time in which requests came.
    in_time, refused : float
        Shares of the submitted.
    kept : float
        In time / let in.
    tokens : float
        Output tokens/s of the requests that finished in time.
    wasted : float
        Share of the computed tokens (prompt and output) that went to requests which did not finish in time.
    told_after : float
        Mean seconds until somebody who gets no answer in time knows it: 0 if refused, else when the scheduler ended the
        request, and for an answer that came too late the deadline, by the client's own clock.
    """

    goodput: float
    in_time: float
    refused: float
    kept: float
    tokens: float
    wasted: float
    told_after: float


POLICIES = ("no limit", "fail late", "drop in the queue", "bounded queue", "refuse early")


def no_after(run: Run, load: Workload, after: float = DEADLINE) -> NDArray[np.float64]:
    """Return the seconds from arrival to the moment when a sender knows that no answer comes in time, a value each.

    What the scheduler was told stands in `run.load`: who was dropped from the queue knows it at that deadline.
    """
    told = np.full(len(load), after)
    outcome = run.requests["outcome"].to_numpy()
    told[outcome == "refused"] = 0.0
    dropped = outcome == "timed_out"
    if run.load.deadline is not None:
        told[dropped] = (run.load.deadline - run.load.arrival)[dropped]
    return told


def judged(run: Run, load: Workload, after: float = DEADLINE) -> Served:
    """Judge a run by the senders' deadlines, whatever the scheduler was told."""
    table, record = run.requests, run.record
    finished = table["finished"].to_numpy()
    good = (table["outcome"] == "finished").to_numpy() & (finished <= load.arrival + after + 1e-9)
    refused = (table["outcome"] == "refused").to_numpy()
    tokens = np.where(np.isnan(record.admitted), 0, load.prompt + load.output)
    for i in np.flatnonzero(~np.isnan(record.admitted) & np.isnan(record.finished)):
        tokens[i] = load.prompt[i] + len(run.token_times(int(i)))
    span = float(load.arrival[-1] - load.arrival[0])
    bad_tokens = float(tokens[~good].sum()) / max(1.0, float(tokens.sum()))
    told = no_after(run, load, after)[~good]
    return Served(
        float(good.sum()) / span,
        float(good.mean()),
        float(refused.mean()),
        float(good.sum()) / max(1, int((~refused).sum())),
        float(load.output[good].sum()) / span,
        bad_tokens,
        float(told.mean()) if len(told) else 0.0,
    )


def serve(
    policy: str,
    cost: str,
    load: Workload,
    bound: int = BOUND,
    margin: float = 0.0,
    predictor: str = PREDICTOR,
    places: int = PLACES,
    order: str | OrderKey = "fcfs",
) -> Run:
    """Run `load`, which has deadlines, under one of `POLICIES`.

    "no limit" lets everybody in and lets everybody finish; "fail late" ends a request at its deadline wherever it
    stands; "drop in the queue" also drops who still waits, wherever in the queue, as soon as the predicted service no
    longer fits before the deadline; "bounded queue" refuses when `bound` wait; "refuse early" asks W + S + margin.  All
    three also end at the deadline whoever runs by then.
    """
    options = engine(cost, places) | {"predictor": predictor, "order": order}
    checks: tuple[Check, ...] = ()
    expire = "never" if policy == "no limit" else "always"
    if policy == "bounded queue":
        checks = (bounded_queue(bound),)
    elif policy == "refuse early":
        checks = (in_time(estimator(cost, places), margin),)
    elif policy == "drop in the queue":
        prefill, decode = service_times(cost, places)
        service = prefill * load.prompt + decode * predict(load, predictor) + margin
        assert load.deadline is not None
        latest = np.maximum(load.arrival, load.deadline - service)
        load, expire = replace(load, deadline=latest, cancel_at=load.deadline), "waiting"
    elif policy not in POLICIES:
        raise ValueError(f"policy = {policy!r}: known are {', '.join(POLICIES)}")
    return simulate(load, checks=checks, expire=expire, **options)  # type: ignore[arg-type]


#: Orders in which failing late can serve its queue, beside first come, first served.  SJF has the chapter's predictor.
ORDERS: dict[str, str | OrderKey] = {
    "random": lambda request: float(np.random.default_rng(request.id).random()),
    "shortest first": "sjf:0.3",
}


def overload(cost: str, factor: float, seed: int, n: int = 1500, places: int = PLACES) -> Workload:
    """Return a chat load at `factor` times the pace, with deadlines."""
    return with_deadlines(workload.chat(n, factor * pace(cost, places), seed))


def goodput_by_bound(
    cost: str, factor: float = 1.5, seeds: Sequence[int] = (50, 51), n: int = 1000
) -> dict[int, float]:
    """Return the goodput (requests/s) of a bounded queue for each of `BOUNDS`, on seeds of its own."""
    loads = [overload(cost, factor, seed, n) for seed in seeds]
    return {
        bound: float(np.mean([judged(serve("bounded queue", cost, load, bound), load).goodput for load in loads]))
        for bound in BOUNDS
    }


# Bursts and a second GPU ----------------------------------------------------------------------------------------------


def burst_backlog(cost: str, factor: float, length: float, seed: int, settled: float = 0.5) -> tuple[float, float]:
    """Return (backlog at the end of a burst, of the fluid; of the simulation), in requests beyond what waited before.

    The engine first runs at `settled` of its pace until it is in its usual state, then the burst comes at `factor`.
    """
    mu = pace(cost)
    before = 60.0
    n1, n2 = int(settled * mu * before), int(factor * mu * length)
    load = workload.chat(n1 + n2, 1.0, seed)
    gaps = np.diff(np.append(0.0, load.arrival))
    gaps[:n1] *= before / max(1e-9, float(gaps[:n1].sum()))
    gaps[n1:] *= length / max(1e-9, float(gaps[n1:].sum()))
    load = workload.from_arrays(np.cumsum(gaps), load.prompt, load.output, name="burst")
    run = simulate(load, **engine(cost))  # type: ignore[arg-type]
    start, end = waiting_at(run, [before, before + length])
    return max(0.0, factor - 1) * mu * length, float(end - start)


@dataclass(frozen=True)
class ScaleOut:
    """Two engines behind a split: TTFT of every request (s), and which engine it went to (0 or 1)."""

    load: Workload
    ttft: NDArray[np.float64]
    where: NDArray[np.int64]

    def late(self, limit: float) -> float:
        """Return the share of first tokens later than `limit` seconds."""
        return float((self.ttft > limit).mean())


def scale_out(cost: str, factor: float, delay: float, seed: int, counts: bool = False, n: int = 1200) -> ScaleOut:
    """Serve a load of `factor` times one engine's pace; a second engine is ordered at time 0 and ready after `delay` s.

    Two engines behind a trivial split: requests go to the first until the second is ready, then in turn.  With
    `counts` the loading engine counts as capacity at once: every other request is sent to it and waits until it is up.
    """
    load = workload.chat(n, factor * pace(cost), seed)
    turn = np.arange(n) % 2
    where = turn if counts else np.where(load.arrival < delay, 0, turn)
    ttft = np.empty(n)
    for machine in (0, 1):
        mine = np.flatnonzero(where == machine)
        if not len(mine):
            continue
        begins = load.arrival[mine] if machine == 0 else np.maximum(load.arrival[mine], delay)
        part = workload.from_arrays(begins, load.prompt[mine], load.output[mine])
        run = simulate(part, **engine(cost))  # type: ignore[arg-type]
        ttft[mine] = run.record.first_token - load.arrival[mine]
    return ScaleOut(load, ttft, where)
