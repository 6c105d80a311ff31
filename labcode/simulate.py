"""The front door: one call runs a workload through a model on a GPU under a set of policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labcode import jit
from labcode.checks import integer, number, one_of
from labcode.cost import CostModel, as_cost
from labcode.cost.base import HasStepTime
from labcode.cost.catalogue import as_gpu, as_model
from labcode.cost.hardware import kv_capacity
from labcode.cost.specs import GPUSpec, ModelSpec
from labcode.results.outcomes import REFUSED, UNFINISHED
from labcode.results.record import Record
from labcode.results.run import Run
from labcode.scheduler.admission import Check, fits_context
from labcode.scheduler.budgets import PREFILL_MODES, Budgets
from labcode.scheduler.kv_cache import UNLIMITED, Memory, Reservation, Unlimited
from labcode.scheduler.managers import as_memory
from labcode.scheduler.managers import memory as named_memory
from labcode.scheduler.preemption import Link, Preemption
from labcode.scheduler.scheduler import EXPIRY, Scheduler
from labcode.scheduler.waiting import KeyQueue, OrderKey, WaitingQueue, as_queue
from labcode.simulation.batches import BatchRules, run_batches
from labcode.simulation.clock import FOREVER, Executor, PaperClock
from labcode.simulation.compiled_run import Columns, barred, compiled_run, compiles, needs, reasons
from labcode.simulation.loop import Loop
from labcode.simulation.requests import declared_limits, fair_queue, order_keys, requests_of
from labcode.workload import Workload
from labcode.workload.prediction import Predictor, predict

ENGINES = ("continuous", "static", "sequential", "bucketed")


def simulate(
    load: Workload,
    model: ModelSpec | str = "llama3-8b",
    gpu: GPUSpec | str = "h100",
    engine: str = "continuous",
    max_bs: int = 256,
    memory: str | Memory = "max:8192",
    order: str | OrderKey | WaitingQueue = "fcfs",
    prefill: str = "mixed",
    cost: str | HasStepTime = "paper",
    *,
    token_budget: int | str | None = None,
    capacity: int | None = None,
    watermark: float = 0.0,
    predictor: str | Predictor = "exact",
    seed: int = 0,
    preemption: Preemption | None = None,
    checks: Sequence[Check] = (),
    expire: str = "never",
    budgets: Budgets | None = None,
    batch: BatchRules | None = None,
    executor: Executor | None = None,
    link: Link | None = None,
    step_by_step: bool = False,
    stop_at: float | None = None,
) -> Run:
    """Run `load` through an engine and return what happened to every request and in every step.

    Parameters
    ----------
    load : Workload
        See :mod:`labcode.workload`.
    model, gpu : name or spec
        See :mod:`labcode.cost.hardware`.
    engine : {"continuous", "static", "sequential", "bucketed"}
        Iteration-level scheduling; whole batch in, whole batch out; one request after the other; whole batches of
        prompts of similar length.
    max_bs : int
        Places in the running batch: sequences in one step.
    memory : str or object
        ``"max:8192"`` (tokens), ``"declared"``, ``"predicted"``, ``"oracle"``, ``"pow2"``, ``"unlimited"``, ``"paged"``
        or ``"paged:16"``, ``"shared:16"``, or an object with ``try_admit``, ``grow`` and ``free``; see
        :func:`labcode.scheduler.memory`.
    order : str, function or object
        ``"fcfs"``, ``"sjf"``, ``"sjf:0.5"``, ``"deadline"``, ``"drr"``, ``"drr:512"`` (its quantum), ``"vtc"``, a key
        function of a `labcode.scheduler.Request`, or a waiting queue.
    prefill : {"mixed", "prefill_first", "chunked"}
        New prompts share a step with the decodes; or hold them up; or join in chunks within `token_budget`.
    cost : {"paper", "smooth", "measured"} or object
        How long a step takes; an object needs ``step_time(shape)``.  Measured kernels are at hand for Llama-3-8B on an
        A100 80 GB only; see :mod:`labcode.cost.measured`.
    token_budget : int or str, optional
        New tokens in one step, at least `max_bs`; 512 for ``"chunked"``, else no limit.  ``"padded:4096"`` counts the
        prefills of a step as number of prompts times the longest.
    capacity : int, optional
        Tokens of KV cache; by default what `gpu` has left beside the weights of `model`.
    watermark : float
        Share of the blocks that admission leaves free, with pages.
    predictor : str or callable
        Who says what ``memory="predicted"`` and ``"pow2"`` go by; see :mod:`labcode.workload.prediction`.
    seed : int
        Of the prediction errors.
    preemption : Preemption, optional
        Victim and action when the memory runs out.
    checks : sequence of callable
        Further admission checks; see :mod:`labcode.scheduler.admission`.
    expire : {"never", "waiting", "always"}
        Whether the workload's deadlines end nobody's request, that of who still waits, or everybody's.
    budgets : Budgets, optional
        Everything about a round at once, instead of `max_bs`, `prefill` and `token_budget`.
    batch : BatchRules, optional
        How a request-level engine forms and treats its batches (padding, places, early return, length buckets).
    executor : object, optional
        Carries out the plans instead of the paper clock: the mini model, for instance.
    link : Link, optional
        The way to the host, for preemption by swapping.
    step_by_step : bool
        The reference: one step at a time, no leaps, nothing compiled.
    stop_at : float, optional
        Cut the run off at this time in seconds; the others are "unfinished".

    Returns
    -------
    Run

    Raises
    ------
    ValueError
        If an argument is not allowed; nothing has been computed then.
    """
    if not isinstance(load, Workload):
        raise ValueError(
            f"load = {load!r}: a Workload is needed, as labcode.workload.chat(n=600, rate=16, seed=0) makes it"
        )
    model, gpu = as_model(model), as_gpu(gpu)
    one_of("engine", engine, ENGINES)
    one_of("expire", expire, EXPIRY)
    pool = kv_capacity(model, gpu) if capacity is None else integer("capacity", capacity, at_most=UNLIMITED)
    end = FOREVER if stop_at is None else number("stop_at", stop_at)
    if not end > 0:
        raise ValueError(f"stop_at = {stop_at!r}: must be above 0")
    pricing = as_cost(cost, model, gpu)
    seen = seen_by(load, memory, order, predictor, seed)
    if engine != "continuous":
        _only_in_order_of_arrival(engine, memory, order, prefill, executor, token_budget)
        round_ = Budgets(1 if engine == "sequential" else integer("max_bs", max_bs))
        scheduler = scheduler_for(load, model, memory, pool, 0.0, seen, round_)
        record = _in_batches(load, engine, scheduler, memory, seen, pricing, batch, model, pool, step_by_step, end)
        return Run(load, record, pricing, stop_at=end)
    if batch is not None:
        raise ValueError(f"batch: these rules belong to the request-level engines, engine is {engine!r}")
    round_ = budgets or budgets_of(max_bs, prefill, token_budget)
    scheduler = scheduler_for(
        load, model, memory, pool, watermark, seen, round_, preemption=preemption, checks=checks, expire=expire
    )
    custom = step_by_step or executor is not None or bool(checks) or preemption is not None or seen.queue is not None
    if jit.AVAILABLE and not custom and compiles(scheduler, memory, form := pricing.compiled_form()):
        assert isinstance(memory, str) and form is not None
        found = compiled_run(load, scheduler, memory, seen.columns, form, pool, model.max_context, end)
        if found is not None:
            return Run(load, found, pricing, stop_at=end)
    requests = requests_of(load, seen.columns.predicted, seen.columns.declared)
    clock = executor or PaperClock(load.output.tolist(), pricing, link)
    loop = Loop(scheduler, requests, clock, pool, _cancellations(load), step_by_step or executor is not None, end)
    return Run(load, loop.run(), pricing, stop_at=end)


@dataclass(frozen=True)
class Seen:
    """What the scheduler sees of a workload, and a stateful queue if there is one."""

    columns: Columns
    queue: WaitingQueue | None = None


def seen_by(load: Workload, memory: object, order: Any, predictor: str | Predictor, seed: int) -> Seen:
    """Return what a scheduler gets to see of `load` under these policies: limits, predictions, keys, or a queue."""
    declared = memory == "declared"
    predicted = predict(load, "exact" if memory == "oracle" else predictor, seed)
    limit = declared_limits(load, declared)
    fair = fair_queue(order, load)
    order = order if fair is None else fair
    if not isinstance(order, str) and (isinstance(order, WaitingQueue) or not callable(order)):
        return Seen(Columns(limit, predicted, np.zeros(len(load)), declared), as_queue(order))
    requests = requests_of(load, predicted, declared) if callable(order) else []
    return Seen(Columns(limit, predicted, order_keys(order, load, requests, seed), declared))


def scheduler_for(
    load: Workload,
    model: ModelSpec,
    memory: str | Memory,
    pool: int,
    watermark: float,
    seen: Seen,
    budgets: Budgets,
    checks: Sequence[Check] = (),
    **policies: Any,
) -> Scheduler:
    """Return a fresh scheduler with all of the policies."""
    manager = named_memory(memory, pool, watermark) if isinstance(memory, str) else as_memory(memory)
    keys = seen.columns.key
    queue = KeyQueue(lambda request: keys[request.id]) if seen.queue is None else seen.queue
    return Scheduler(manager, queue, budgets, checks=(fits_context(model.max_context), *checks), **policies)


def budgets_of(max_bs: int, prefill: str, token_budget: int | str | None) -> Budgets:
    """Return the budgets that the front door's options say."""
    one_of("prefill", prefill, PREFILL_MODES)
    max_bs = integer("max_bs", max_bs)
    padded = isinstance(token_budget, str) and token_budget.startswith("padded:")
    if isinstance(token_budget, str):
        tokens = token_budget.removeprefix("padded:")
        if not tokens.isdecimal() or (padded and prefill == "chunked"):
            raise ValueError(
                f"token_budget = {token_budget!r}: a number, or 'padded:NUMBER' with whole prompts, as in 'padded:4096'"
            )
        token_budget = int(tokens)
    if token_budget is None:
        if prefill != "chunked":
            return Budgets(max_bs, prefill)
        token_budget = 512
    name = "token_budget (which must hold a token for each of max_bs sequences)"
    return Budgets(max_bs, prefill, integer(name, token_budget, at_least=max_bs), padded)


def _cancellations(load: Workload) -> list[tuple[float, int]]:
    """Return when each client goes away, by time."""
    if load.cancel_at is None:
        return []
    there = [(float(time), i) for i, time in enumerate(load.cancel_at) if time == time]
    return sorted(there, key=lambda entry: entry[0])


def _only_in_order_of_arrival(
    engine: str, memory: object, order: object, prefill: str, executor: object, token_budget: object
) -> None:
    """Refuse policies that the request-level engines do not have."""
    if order != "fcfs" or prefill != "mixed" or executor is not None or token_budget is not None:
        raise ValueError(
            f"engine = {engine!r} takes requests first come, first served and prefills them together: "
            "order must be 'fcfs', prefill 'mixed', token_budget and executor None"
        )
    reserves = isinstance(memory, (Reservation, Unlimited))
    if not reserves and not (isinstance(memory, str) and not memory.startswith(("paged", "shared"))):
        raise ValueError(f"memory = {memory!r}: a request-level engine cannot preempt; take one that reserves, by name")


def _in_batches(
    load: Workload,
    engine: str,
    scheduler: Scheduler,
    memory: str | Memory,
    seen: Seen,
    cost: CostModel,
    rules: BatchRules | None,
    model: ModelSpec,
    pool: int,
    one_step: bool,
    end: float,
) -> Record:
    """Run a request-level engine; its scheduler only says who is refused."""
    if rules is None and engine == "bucketed":
        raise ValueError("batch = None: engine='bucketed' needs rules, as in BatchRules(edges=(512,), max_wait=0.1)")
    rules = rules or BatchRules()
    if engine != "bucketed" and (rules.edges or rules.max_wait):
        raise ValueError(f"batch: edges and max_wait belong to engine='bucketed', engine is {engine!r}")
    if engine == "sequential" and rules != BatchRules():
        raise ValueError("batch: engine='sequential' has batches of one, which need no rules")
    columns, manager = seen.columns, scheduler.memory
    if isinstance(memory, str):
        need = needs(memory, load, columns)
    else:
        requests = requests_of(load, columns.predicted, columns.declared)
        need = np.array([manager.need(r) if isinstance(manager, Reservation) else 0 for r in requests], np.int64)
    mask = barred(scheduler, load, columns, need, model.max_context)
    words = reasons(load, scheduler, columns, np.where(mask, REFUSED, UNFINISHED).astype(np.int8))
    capacity = UNLIMITED if isinstance(manager, Unlimited) else manager.capacity
    record = run_batches(load, need, words, cost, rules, scheduler.budgets.max_bs, capacity, one_step, end)
    record.capacity = pool
    return record
