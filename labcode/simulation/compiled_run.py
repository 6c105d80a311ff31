"""From a workload and named policies to the compiled loop's arrays, and from these back to a record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labcode.cost.compiled import CompiledCost
from labcode.results.outcomes import CANCELLED, FINISHED, REFUSED, UNFINISHED
from labcode.results.record import SEGMENT_COLUMNS, Record
from labcode.scheduler.budgets import NO_LIMIT, PREFILL_MODES
from labcode.scheduler.kv_cache import UNLIMITED, Paged, Reservation, Unlimited
from labcode.scheduler.scheduler import WENT_AWAY, Scheduler, deadline_passed
from labcode.simulation.compiled_loop import NARROW, WIDE, serve
from labcode.simulation.compiled_state import FREE, PLACE, SHARE, VERSION, Arrays, Outcomes, Rules, Working
from labcode.simulation.requests import request_of
from labcode.workload import Workload


@dataclass(frozen=True)
class Columns:
    """What the scheduler's requests say, as arrays: limits and predictions (tokens), keys of the order.

    Attributes
    ----------
    limit : int64, shape (n,)
    predicted, key : float64, shape (n,)
    declared : bool
        Whether the limits are the senders' own.
    """

    limit: NDArray[np.int64]
    predicted: NDArray[np.float64]
    key: NDArray[np.float64]
    declared: bool = False


def needs(policy: str, load: Workload, columns: Columns) -> NDArray[np.int64]:
    """Return what a reservation policy takes for each request, in tokens; `labcode.scheduler.memory` as arrays."""
    name, _, argument = policy.partition(":")
    if name == "max":
        return np.full(len(load), int(argument), np.int64)
    if policy == "unlimited":
        return np.zeros(len(load), np.int64)
    if policy == "declared":
        output = columns.limit
    elif policy == "pow2":
        output = np.exp2(np.ceil(np.log2(np.maximum(1.0, np.ceil(columns.predicted))))).astype(np.int64)
    else:
        output = np.maximum(1, columns.predicted.astype(np.int64))
    return np.maximum(load.prompt + output - 1, load.prompt)


def barred(scheduler: Scheduler, load: Workload, columns: Columns, need: NDArray, longest: int) -> NDArray[np.bool_]:
    """Return who is refused at the door: `labcode.scheduler.admission` as arrays, shape (n,)."""
    memory, budgets, total = scheduler.memory, scheduler.budgets, load.prompt + columns.limit
    mask = total > longest
    if not isinstance(memory, Unlimited):
        mask |= np.maximum(need, total - 1) > memory.capacity
    if isinstance(memory, Reservation) and memory.longest is not None:
        mask |= total > memory.longest
    if budgets.token_budget is not None and budgets.whole_prompts:
        mask |= load.prompt > budgets.token_budget
    return mask


def compiles(scheduler: Scheduler, policy: object, form: CompiledCost | None) -> bool:
    """Return whether the compiled loop knows all of a scheduler's policies."""
    budgets, memory = scheduler.budgets, scheduler.memory
    plain = not budgets.min_prefill and not budgets.min_decode and budgets.step_time is None
    shares = isinstance(memory, Paged) and memory.share
    return form is not None and isinstance(policy, str) and plain and not shares


def events_of(load: Workload, expire: str) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_]]:
    """Return deadlines that end somebody, and cancellations, by time: times (s), requests, whether it is a deadline."""
    times, who, deadline = [], [], []
    for column, is_deadline in ((load.deadline if expire != "never" else None, True), (load.cancel_at, False)):
        if column is not None:
            there = np.flatnonzero(~np.isnan(column))
            # A client cannot go away before it came: such a word is never heard.
            there = there if is_deadline else there[column[there] >= load.arrival[there]]
            times.append(np.maximum(column[there], load.arrival[there]))
            who.append(there)
            deadline.append(np.full(len(there), is_deadline))
    if not times:
        return np.empty(0), np.empty(0, np.int64), np.empty(0, np.bool_)
    joined = np.concatenate(times)
    order = np.argsort(joined, kind="stable")  # deadlines first where both come at once
    return joined[order], np.concatenate(who)[order].astype(np.int64), np.concatenate(deadline)[order]


def compiled_run(
    load: Workload,
    scheduler: Scheduler,
    policy: str,
    columns: Columns,
    form: CompiledCost,
    pool: int,
    longest: int,
    stop_at: float,
) -> Record | None:
    """Serve `load` with the compiled loop; None if a request could outgrow its reservation, which it does not know.

    Parameters
    ----------
    scheduler : Scheduler
        Fresh; it says what the policies are, and words the refusals.
    policy : str
        The memory's name.
    pool : int
        Positions of KV cache, for the record (tokens).
    longest : int
        The model's context, in tokens.
    """
    n, memory, budgets = len(load), scheduler.memory, scheduler.budgets
    paged = isinstance(memory, Paged)
    need = np.zeros(n, np.int64) if paged else needs(policy, load, columns)
    mask = barred(scheduler, load, columns, need, longest)
    if not paged and not isinstance(memory, Unlimited) and ((need < load.prompt + load.output - 1) & ~mask).any():
        return None
    arrays = Arrays(
        # Fresh copies, so that the compiler meets the same array types whatever the workload is.
        np.array(load.arrival, np.float64),
        np.array(load.prompt, np.int64),
        np.array(load.output, np.int64),
        np.array(columns.key, np.float64),
        need,
        mask,
        *events_of(load, scheduler.expire),
    )
    rules = Rules(
        capacity=memory.pool.blocks if isinstance(memory, (Paged, Reservation)) else UNLIMITED,
        block=memory.block if isinstance(memory, Paged) else 0,
        spare=memory.spare if isinstance(memory, Paged) else 0,
        max_bs=min(budgets.max_bs, n),
        mode=PREFILL_MODES.index(budgets.prefill),
        token_budget=NO_LIMIT if budgets.token_budget is None else budgets.token_budget,
        padded=budgets.padded,
        deadlines_end_all=scheduler.expire == "always",
        in_arrival_order=bool(np.all(np.diff(columns.key) >= 0)),
        stop_at=float(stop_at),
    )
    out, rows = blank_outcomes(n), 3 * n + 8
    # What is not used of these costs nothing: memory that nobody touches is never handed out.
    m, times, narrow, wide, k, spans, span_times = serve(
        arrays, rules, form, blank_working(n, rules), out,
        np.empty((2, rows)), np.empty((3, rows), np.int32), np.empty((5, rows), np.int64),
        np.empty((3, n + 1), np.int64), np.empty((1, n + 1)),
    )  # fmt: skip
    columns_of = dict(zip(NARROW, narrow[:, :m], strict=True)) | dict(zip(WIDE, wide[:, :m], strict=True))
    if isinstance(memory, Unlimited):
        columns_of["kv_reserved"] = np.broadcast_to(np.int64(0), m)
    nobody = np.broadcast_to(np.int32(0), m)  # a finished sequence never keeps its place here
    columns_of |= {"start": times[0, :m], "end": times[1, :m], "n_idle": nobody}
    return Record(
        out.admitted, out.first_token, out.finished, out.finished, out.outcome, out.preemptions, out.recomputed,
        {name: columns_of[name] for name, _ in SEGMENT_COLUMNS},
        spans[0, :k], span_times[0, :k], spans[1, :k], spans[2, :k],
        reasons(load, scheduler, columns, out.outcome), pool,
    )  # fmt: skip


def reasons(load: Workload, scheduler: Scheduler, columns: Columns, outcome: NDArray[np.int8]) -> dict[int, str]:
    """Return why each request ended that did not finish, in the scheduler's own words."""
    who = np.flatnonzero((outcome != FINISHED) & (outcome != UNFINISHED))
    words: dict[int, str] = {}
    for i in who.tolist():
        if outcome[i] == REFUSED:
            request = request_of(load, i, columns.predicted, columns.declared)
            words[i] = str(next(found for check in scheduler.checks if (found := check(request, scheduler, 0.0))))
        else:
            words[i] = WENT_AWAY if outcome[i] == CANCELLED else deadline_passed(float(load.deadline[i]))  # type: ignore[index]
    return words


def blank_outcomes(n: int) -> Outcomes:
    """Return the outcomes of requests to which nothing has happened yet."""
    nan = np.full(n, np.nan)
    return Outcomes(
        nan.copy(), nan.copy(), nan, np.full(n, UNFINISHED, np.int8), np.zeros(n, np.int32), np.zeros(n, np.int64)
    )


def blank_working(n: int, rules: Rules) -> Working:
    """Return the working arrays before anybody has come."""
    counts = np.zeros(VERSION + 1, np.int64)
    counts[FREE] = rules.capacity
    phases = np.zeros(max(1, rules.block), np.int64)
    return Working(np.zeros((PLACE + 1, n), np.int64), np.zeros((SHARE + 1, rules.max_bs), np.int64), phases, counts)
