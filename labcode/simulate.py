"""The front door: one call runs a workload through a model on a GPU under a set of policies."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from labcode.checks import integer, one_of
from labcode.cost import as_cost
from labcode.cost.base import HasStepTime
from labcode.cost.hardware import GPUSpec, ModelSpec, as_gpu, as_model, kv_capacity
from labcode.jit import AVAILABLE
from labcode.results.run import Run
from labcode.scheduler.memory import Memory
from labcode.scheduler.memory import make as make_memory
from labcode.scheduler.policies import Discipline, OrderKey, WaitingQueue, order_keys
from labcode.simulation import compiled_loop as kernel
from labcode.simulation.bucketed import BucketRules, run_bucketed
from labcode.simulation.engine import FOREVER, ContinuousEngine, Executor, Limits, PaperClock
from labcode.simulation.static import StaticRules, run_sequential, run_static
from labcode.workload import Workload

Rules = TypeVar("Rules", StaticRules, BucketRules)

ENGINES = ("continuous", "static", "sequential", "bucketed")
PREFILL_MODES = ("mixed", "prefill_first", "chunked")


def simulate(
    load: Workload,
    model: ModelSpec | str = "llama3-8b",
    gpu: GPUSpec | str = "h100",
    engine: str = "continuous",
    max_bs: int = 256,
    memory: str | Memory = "max:8192",
    order: str | OrderKey | Discipline = "fcfs",
    prefill: str = "mixed",
    cost: str | HasStepTime = "paper",
    *,
    token_budget: int | None = None,
    capacity: int | None = None,
    seed: int = 0,
    static: StaticRules | None = None,
    buckets: BucketRules | None = None,
    executor: Executor | None = None,
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
        Seats: sequences in one step.
    memory : str or object
        ``"max:8192"`` (tokens), ``"pow2"``, ``"oracle"``, ``"unlimited"``, ``"paged"`` or ``"paged:16"``, or an object
        with ``try_admit``, ``grow`` and ``free``.
    order : str, function or object
        ``"fcfs"``, ``"sjf"``, ``"sjf:0.5"``, ``"deadline"``, a key function of a Request, or a stateful discipline.
    prefill : {"mixed", "prefill_first", "chunked"}
        New prompts share a step with the decodes; or hold them up; or join in chunks within `token_budget`.
    cost : {"paper", "smooth", "measured"} or object
        How long a step takes; an object needs ``step_time(shape)``.  Measured kernels are at hand for Llama-3-8B on an
        A100 80 GB only; see :mod:`labcode.cost.measured`.
    token_budget : int, optional
        New tokens in one step, for ``prefill="chunked"``; at least `max_bs`.
    capacity : int, optional
        Tokens of KV cache; by default what `gpu` has left beside the weights of `model`.
    seed : int
        Of the prediction error of ``order="sjf:SIGMA"``.
    static : StaticRules, optional
        Details of the static engine (padding, seats, early return); its `max_bs` must be the same as `max_bs`.
    buckets : BucketRules
        Edges, longest wait and size of the batches of ``engine="bucketed"``, which needs them; likewise for `max_bs`.
    executor : object, optional
        Carries out the plans instead of the paper clock: the mini model, for instance.
    step_by_step : bool
        The readable reference: one step at a time, no leaps, nothing compiled.
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
    one_of("prefill", prefill, PREFILL_MODES)
    max_bs = integer("max_bs", max_bs)
    pool = integer("capacity", capacity) if capacity is not None else kv_capacity(model, gpu)
    end = FOREVER if stop_at is None else float(stop_at)
    if not end > 0:
        raise ValueError(f"stop_at = {stop_at!r}: must be above 0")
    budget = _token_budget(prefill, token_budget, max_bs)
    pricing = as_cost(cost, model, gpu)
    _rules_of_others(engine, static, buckets)
    if engine != "continuous":
        _only_in_order_of_arrival(engine, memory, order, prefill, executor)
        manager = make_memory(memory, pool)
        if engine == "sequential":
            record = run_sequential(load, manager, pricing, pool, step_by_step, end)
        elif engine == "bucketed":
            record = run_bucketed(
                load, manager, pricing, _same_seats("buckets", buckets, max_bs), pool, step_by_step, end
            )
        else:
            rules = StaticRules(max_bs) if static is None else _same_seats("static", static, max_bs)
            record = run_static(load, manager, pricing, rules, pool, step_by_step, end)
        return Run(load, record, pricing)
    stateful = isinstance(order, Discipline) and not isinstance(order, str)
    keys = np.empty(0) if stateful else order_keys(order, load, seed)  # type: ignore[arg-type]
    form = pricing.compiled_form() if _compiles(memory, stateful, prefill, executor, step_by_step) else None
    if form is not None:
        assert isinstance(memory, str)
        record = kernel.serve_workload(load, keys, memory, pool, max_bs, prefill == "prefill_first", form, end)
        return Run(load, record, pricing)
    manager = make_memory(memory, pool)
    queue = order if stateful else WaitingQueue(keys)
    run = ContinuousEngine(
        load, manager, queue, executor or PaperClock(pricing), Limits(max_bs, prefill, budget), pool,  # type: ignore[arg-type]
        step_by_step or executor is not None, end,
    )  # fmt: skip
    return Run(load, run.run(), pricing)


def _compiles(memory: object, stateful: bool, prefill: str, executor: object, step_by_step: bool) -> bool:
    """Whether the compiled loop knows all of these policies."""
    known_memory = isinstance(memory, str) and not memory.startswith("paged")
    known = known_memory and not stateful and prefill != "chunked" and executor is None
    return AVAILABLE and known and not step_by_step


def _token_budget(prefill: str, token_budget: int | None, max_bs: int) -> int | None:
    if prefill != "chunked":
        if token_budget is not None:
            raise ValueError(f"token_budget = {token_budget!r}: only prefill='chunked' has one")
        return None
    budget = 512 if token_budget is None else token_budget
    return integer("token_budget (which must hold a token for each of max_bs sequences)", budget, at_least=max_bs)


def _rules_of_others(engine: str, static: StaticRules | None, buckets: BucketRules | None) -> None:
    """Refuse rules that belong to another engine, which would silently do nothing."""
    for name, rules, owner in (("static", static, "static"), ("buckets", buckets, "bucketed")):
        if rules is not None and engine != owner:
            raise ValueError(f"{name}: these rules belong to engine={owner!r}, engine is {engine!r}")


def _only_in_order_of_arrival(engine: str, memory: object, order: object, prefill: str, executor: object) -> None:
    """Refuse policies that the request-level engines do not have."""
    if order != "fcfs" or prefill != "mixed" or executor is not None:
        raise ValueError(
            f"engine = {engine!r} takes requests first come, first served and prefills them together: "
            "order must be 'fcfs', prefill 'mixed', executor None"
        )
    if isinstance(memory, str) and memory.startswith("paged"):
        raise ValueError(f"memory = {memory!r}: a request-level engine cannot preempt; take one that reserves")


def _same_seats(name: str, rules: Rules | None, max_bs: int) -> Rules:
    """Return the rules of a request-level engine, if they have as many seats as `max_bs` says."""
    if rules is None:
        raise ValueError(f"{name} = None: this engine needs rules, as in BucketRules(edges, max_wait, max_bs)")
    if rules.max_bs != max_bs:
        raise ValueError(f"max_bs = {max_bs} and {name}.max_bs = {rules.max_bs} differ")
    return rules
