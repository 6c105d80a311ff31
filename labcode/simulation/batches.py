"""Request-level engines: the batch is the unit of scheduling.  One loop for all of them.

A batch is formed when the engine is idle, runs to its end, and takes nobody in until then.  *Static* batching takes
whoever waits; *sequential* service is a batch of one; *length buckets* let only prompts of similar length share a batch
and send a batch off when it is full or its oldest request has waited long enough.  First come, first served, as the
systems that these stand for did.

The loop is written over plain arrays so that it compiles.  For a cost model without a compiled form, the same source
runs as plain Python with that model's step times (`with_cost`).
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labcode.checks import integer, non_negative
from labcode.cost import CostModel, SeqWork, StepShape
from labcode.cost.compiled import compiled_advance, compiled_step_time
from labcode.cost.leap import SAME_INSTANT
from labcode.jit import compiled
from labcode.results.outcomes import FINISHED, REFUSED, UNFINISHED
from labcode.results.record import SEGMENT_COLUMNS, Record
from labcode.simulation.compiled_state import twice
from labcode.workload import Workload

NARROW = ("n_prefill", "n_decode", "n_idle", "waiting")
WIDE = ("steps", "prefill_tokens", "decode_kv", "kv_used", "kv_reserved")


@dataclass(frozen=True)
class BatchRules:
    """How a request-level engine forms and treats its batches.

    Attributes
    ----------
    padded : bool
        Prefill every prompt at the length of the batch's longest (a rectangular tensor), as engines without
        selective batching must.
    keep_places : bool
        A finished sequence is computed along until the whole batch is done.
    early_return : bool
        A finished request's answer is returned at once, not with the batch.
    edges : tuple of int
        Upper edges of the length buckets in prompt tokens, ascending: bucket i holds prompts of ``edges[i-1] + 1`` up
        to ``edges[i]`` tokens, and one more bucket holds what is longer than the last edge.  ``()`` is one bucket.
    max_wait : float
        Seconds after which the oldest request of a bucket no longer waits for company; 0 waits for nobody.

    Raises
    ------
    ValueError
        If the edges do not ascend or a number is out of range.
    """

    padded: bool = False
    keep_places: bool = True
    early_return: bool = True
    edges: tuple[int, ...] = ()
    max_wait: float = 0.0

    def __post_init__(self) -> None:
        edges = tuple(integer(f"edges[{i}]", edge) for i, edge in enumerate(self.edges))
        if any(b <= a for a, b in itertools.pairwise(edges)):
            raise ValueError(f"edges = {self.edges!r}: must ascend, each once")
        object.__setattr__(self, "edges", edges)
        object.__setattr__(self, "max_wait", non_negative("max_wait", self.max_wait))

    def bucket(self, prompt: int) -> int:
        """Return the number of the bucket for a prompt of `prompt` tokens."""
        return bisect_left(self.edges, prompt)


class Settings(NamedTuple):
    """The rules as numbers."""

    capacity: int
    max_bs: int
    max_wait: float
    padded: bool
    keep_places: bool
    early_return: bool
    one_step: bool
    stop_at: float


@compiled
def due_bucket(arrival, order, head, tail, max_bs, max_wait, now):  # type: ignore[no-untyped-def]
    """Return the bucket whose batch may leave at `now`: full, or its head has waited long enough; -1 if none.

    Of several the one whose head came first.

    Parameters
    ----------
    order : int64, shape (n,)
        Requests by bucket, and by arrival within it.
    head, tail : int64, shape (b,)
        Where each bucket's queue begins and ends in `order`.
    """
    best = -1
    for b in range(len(head)):
        if head[b] == tail[b]:
            continue
        first = order[head[b]]
        due = tail[b] - head[b] >= max_bs or arrival[first] + max_wait <= now + SAME_INSTANT
        if due and (best < 0 or first < order[head[best]]):
            best = b
    return best


@compiled
def prefill_time(form, lengths):  # type: ignore[no-untyped-def]
    """Return how long a step takes that prefills prompts of these lengths, in seconds."""
    tokens, pairs, squares = 0, 0, 0
    for new in lengths:
        tokens += new
        pairs += new * (new + 1) // 2
        squares += new * new
    return compiled_step_time(form, tokens, pairs, tokens, len(lengths), squares, 0, 0, 0)


decode_run = compiled_advance


@compiled
def serve_batches(  # type: ignore[no-untyped-def]
    arrival, prompt, output, need, barred, order, bucket, starts, rules, form,
    admitted, first_token, last_token, finished, outcome, span_first, span_count, times, narrow, wide,
):  # fmt: skip
    """Serve a workload in batches.

    Parameters
    ----------
    arrival, prompt, output, need, barred : shape (n,)
        The requests by arrival; what each reserves (tokens), and who is refused.
    order, bucket, starts
        See `due_bucket`; the bucket of each request, and where each bucket begins in `order`.
    rules : Settings
    form : CompiledCost, or what the cost functions in this module's name space take
    admitted ... span_count : shape (n,)
        Filled.
    times, narrow, wide
        Room for segments, as in :func:`labcode.simulation.compiled_loop.serve`.

    Returns
    -------
    m, times, narrow, wide
    """
    n, buckets, m = len(arrival), len(starts), 0
    head, tail = starts.copy(), starts.copy()
    now, coming, waiting, decode_steps = 0.0, 0, 0, 0
    members = np.empty(min(rules.max_bs, n), np.int64)
    while now < rules.stop_at:
        while coming < n and arrival[coming] <= now + SAME_INSTANT:
            if not barred[coming]:
                tail[bucket[coming]] += 1
                waiting += 1
            coming += 1
        b = due_bucket(arrival, order, head, tail, rules.max_bs, rules.max_wait, now)
        if b < 0:
            # Nothing changes before somebody arrives, who may fill a bucket, or a wait is over.
            until = arrival[coming] if coming < n else np.inf
            for i in range(buckets):
                if head[i] < tail[i]:
                    until = min(until, arrival[order[head[i]]] + rules.max_wait)
            if np.isinf(until):
                break
            now = max(now, until)
            continue

        # Form the batch: no more than fit into places and memory.
        size, reserved, longest, used = 0, 0, 0, 0
        while head[b] < tail[b] and size < rules.max_bs and reserved + need[order[head[b]]] <= rules.capacity:
            i = order[head[b]]
            head[b] += 1
            members[size] = i
            size += 1
            reserved += need[i]
            longest = max(longest, prompt[i])
            used += prompt[i]
        waiting -= size
        batch = members[:size]
        lengths = prompt[batch]
        if rules.padded:
            lengths[:] = longest
        tokens = lengths.sum()
        start = now
        now = start + prefill_time(form, lengths)
        if m + size + 2 > times.shape[1]:
            times, narrow, wide = twice(times), twice(narrow), twice(wide)
        times[0, m], times[1, m] = start, now
        narrow[0, m], narrow[1, m], narrow[2, m], narrow[3, m] = size, 0, 0, waiting
        wide[0, m], wide[1, m], wide[2, m], wide[3, m], wide[4, m] = 1, tokens, 0, used, reserved
        m += 1
        for i in batch:
            admitted[i], first_token[i] = start, now
            span_first[i] = decode_steps

        # Run it, shortest first: between two completions the same sequences decode.
        by_length = batch[np.argsort(output[batch], kind="mergesort")]
        made, done, places, decode_kv = 1, 0, size, tokens + size
        fresh = True
        while done < size and now < rules.stop_at:
            if output[by_length[done]] == made:
                i = by_length[done]
                last_token[i] = now
                done += 1
                fresh = True
                if not rules.keep_places:
                    places -= 1
                    decode_kv -= (longest if rules.padded else prompt[i]) + made
                continue
            limit = 1 if rules.one_step else output[by_length[done]] - made
            start = now
            steps, now = decode_run(form, places, decode_kv, start, limit, rules.stop_at)
            used += (size - done) * steps
            if fresh:
                times[0, m], wide[0, m], wide[1, m], wide[2, m] = start, 0, 0, decode_kv
                narrow[0, m], narrow[1, m], narrow[2, m], narrow[3, m] = 0, size - done, places - (size - done), waiting
                m += 1
                fresh = False
            times[1, m - 1] = now
            wide[0, m - 1] += steps
            wide[3, m - 1], wide[4, m - 1] = used, reserved
            decode_kv += places * steps
            made += steps
            decode_steps += steps
        while done < size and output[by_length[done]] == made:  # cut off just as it ended
            last_token[by_length[done]] = now
            done += 1
        for j in range(size):
            i = by_length[j]
            span_count[i] = min(output[i], made) - 1
            if j < done and (rules.early_return or done == size):
                finished[i] = last_token[i] if rules.early_return else now
                outcome[i] = FINISHED
    return m, times, narrow, wide


def with_cost(cost: CostModel) -> Callable[..., Any]:
    """Return `serve_batches` as plain Python, with the step times of a cost model that has no compiled form."""

    def prefill_time(form: object, lengths: NDArray[np.int64]) -> float:
        return cost.step_time(StepShape.of([SeqWork(int(length)) for length in lengths]))

    def decode_run(form: object, places: int, kv: int, start: float, limit: int, until: float) -> tuple[int, float]:
        return cost.advance(StepShape.of((), int(places), int(kv)), start, int(limit), until)

    source = getattr(serve_batches, "py_func", serve_batches)
    return FunctionType(source.__code__, {**globals(), "prefill_time": prefill_time, "decode_run": decode_run})


def run_batches(
    load: Workload,
    need: NDArray[np.int64],
    reasons: dict[int, str],
    cost: CostModel,
    rules: BatchRules,
    max_bs: int,
    capacity: int,
    one_step: bool = False,
    stop_at: float = np.inf,
) -> Record:
    """Serve `load` with a request-level engine.

    Parameters
    ----------
    need : int64, shape (n,)
        Positions that each request reserves, in tokens.
    reasons : dict of int to str
        Who is refused at the door, and why.
    capacity : int
        Positions of KV cache, in tokens.
    one_step : bool
        No leaps.
    stop_at : float
        No step begins at or after this time, in seconds.
    """
    n = len(load)
    barred = np.zeros(n, np.bool_)
    barred[list(reasons)] = True
    bucket = np.searchsorted(np.array(rules.edges, np.int64), load.prompt, "left").astype(np.int64)
    order = np.argsort(bucket, kind="stable").astype(np.int64)
    order = order[~barred[order]]
    starts = np.searchsorted(bucket[order], np.arange(len(rules.edges) + 1)).astype(np.int64)
    settings = Settings(
        int(capacity), max_bs, rules.max_wait, rules.padded, rules.keep_places, rules.early_return, one_step,
        float(stop_at),
    )  # fmt: skip
    admitted, first_token, last_token, finished = (np.full(n, np.nan) for _ in range(4))
    outcome = np.full(n, UNFINISHED, np.int8)
    outcome[barred] = REFUSED
    span_first, span_count = np.zeros(n, np.int64), np.zeros(n, np.int64)
    form = cost.compiled_form()
    serve, rows = serve_batches if form is not None else with_cost(cost), 3 * n + 8
    m, times, narrow, wide = serve(
        np.array(load.arrival), np.array(load.prompt), np.array(load.output), np.array(need, np.int64), barred,
        order, bucket, starts, settings, form,
        admitted, first_token, last_token, finished, outcome, span_first, span_count,
        np.empty((2, rows)), np.empty((4, rows), np.int32), np.empty((5, rows), np.int64),
    )  # fmt: skip
    columns = dict(zip(NARROW, narrow[:, :m], strict=True)) | dict(zip(WIDE, wide[:, :m], strict=True))
    columns |= {"start": times[0, :m], "end": times[1, :m]}
    served = np.flatnonzero(~np.isnan(first_token))
    return Record(
        admitted, first_token, last_token, finished, outcome, np.zeros(n, np.int32), np.zeros(n, np.int64),
        {name: columns[name] for name, _ in SEGMENT_COLUMNS},
        served, first_token[served], span_first[served], span_count[served], dict(reasons), capacity,
    )  # fmt: skip
