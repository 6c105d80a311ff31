"""The engine's loop for the built-in policies, written over plain arrays so that it compiles.

It makes the same decisions as :class:`labcode.simulation.engine.ContinuousEngine`, in the same order, and a
property test holds both to the same time stamps.  What the policies reduce to here: memory to the tokens that
each request reserves, the order to one key a request, and the cost to its compiled form.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from labcode.cost.compiled import CompiledCost, compiled_advance, compiled_step_time
from labcode.cost.leap import SAME_INSTANT
from labcode.jit import compiled
from labcode.scheduler.memory import UNLIMITED, needs, refusal, reservation_rule
from labcode.simulation.record import FINISHED, REFUSED, SEGMENT_COLUMNS, UNFINISHED, Record
from labcode.workload import Workload

NARROW = ("n_prefill", "n_decode", "waiting")
WIDE = ("steps", "prefill_tokens", "decode_kv", "kv_used", "kv_reserved")


@compiled
def serve(  # type: ignore[no-untyped-def]
    arrival, prompt, output, key, need, capacity, max_bs, prefill_first, in_arrival_order, form, stop_at,
    admitted, first_token, finished, outcome, span_first, span_count, times, narrow, wide,
):  # fmt: skip
    """Serve a workload; fill the output arrays and return the number of segments.

    The columns of the segments go into the rows of three arrays: `times` (start, end), `narrow` (n_prefill, n_decode,
    waiting) and `wide` (steps, prefill_tokens, decode_kv, kv_used, kv_reserved).
    """
    n = len(arrival)
    waiting = [(0.0, 0)]  # heap of (key, request); the first entry tells the compiler the type
    waiting.pop()
    leaving = [(0, 0)]  # heap of (decode step of the last token, request)
    leaving.pop()
    new = np.empty(max_bs, dtype=np.int64)
    now, coming, decode_steps, decoding, decode_kv, reserved, m = 0.0, 0, 0, 0, 0, 0, 0
    while now < stop_at:
        while coming < n and arrival[coming] <= now + SAME_INSTANT:
            if need[coming] > capacity:
                outcome[coming] = REFUSED
            else:
                heapq.heappush(waiting, (key[coming], coming))
            coming += 1

        # Admit from the head of the line, never past it.
        count, new_tokens, new_pairs, new_squares = 0, 0, 0.0, 0.0
        blocked = False
        while len(waiting) > 0 and decoding + count < max_bs:
            i = waiting[0][1]
            if reserved + need[i] > capacity:
                blocked = True
                break
            heapq.heappop(waiting)
            reserved += need[i]
            admitted[i] = now
            new[count] = i
            count += 1
            new_tokens += prompt[i]
            new_pairs += prompt[i] * (prompt[i] + 1) / 2.0
            new_squares += float(prompt[i]) * prompt[i]
        if count == 0 and decoding == 0:
            if coming == n:
                break
            now = min(arrival[coming], stop_at)
            continue

        start, first_kv, in_line = now, 0, len(waiting)
        if count > 0:
            batch = 0 if prefill_first else decoding
            first_kv = 0 if prefill_first else decode_kv
            tokens, moved = new_tokens + batch, new_tokens + first_kv
            steps, pairs = 1, new_pairs + first_kv
            now = start + compiled_step_time(form, tokens, pairs, moved, count, new_squares, 0, batch, first_kv)
        else:
            batch, first_kv = decoding, decode_kv
            # An arrival changes the plan only if it can be seated: not when all seats are taken, nor when it
            # would stand behind somebody who does not fit.
            until = stop_at
            if coming < n and decoding < max_bs and not (blocked and in_arrival_order):
                until = min(arrival[coming], stop_at)
            steps, now = compiled_advance(form, batch, first_kv, start, leaving[0][0] - decode_steps, until)

        if batch > 0:
            decode_steps += steps
            decode_kv += batch * steps
        used = decode_kv - decoding + new_tokens
        held = reserved
        if batch > 0:
            while len(leaving) > 0 and leaving[0][0] <= decode_steps:
                i = heapq.heappop(leaving)[1]
                decoding -= 1
                decode_kv -= prompt[i] + output[i]
                reserved -= need[i]
                finished[i] = now
                outcome[i] = FINISHED
        for j in range(count):
            i = new[j]
            first_token[i] = now
            span_first[i] = decode_steps
            span_count[i] = output[i] - 1
            if output[i] == 1:
                reserved -= need[i]
                finished[i] = now
                outcome[i] = FINISHED
            else:
                decoding += 1
                decode_kv += prompt[i] + 1
                heapq.heappush(leaving, (decode_steps + output[i] - 1, i))
        times[0, m], times[1, m] = start, now
        narrow[0, m], narrow[1, m], narrow[2, m] = count, batch, in_line
        wide[0, m], wide[1, m], wide[2, m], wide[3, m], wide[4, m] = steps, new_tokens, first_kv, used, held
        m += 1
    # Cut off: who has come meanwhile and can never fit is refused all the same, and the others keep what they got.
    while coming < n and arrival[coming] <= now + SAME_INSTANT:
        if need[coming] > capacity:
            outcome[coming] = REFUSED
        coming += 1
    for entry in leaving:
        i = entry[1]
        span_count[i] = decode_steps - span_first[i]
    return m


def serve_workload(
    load: Workload,
    keys: NDArray[np.float64],
    policy: str,
    pool: int,
    max_bs: int,
    prefill_first: bool,
    cost: CompiledCost,
    stop_at: float,
) -> Record:
    """Serve `load` with the compiled loop.

    Parameters
    ----------
    keys : float64, shape (n,)
        Order of the waiting line, smaller first.
    policy : str
        A reservation policy by name.
    pool : int
        Tokens of KV cache.
    """
    need, (_, longest) = needs(policy, load.prompt, load.output), reservation_rule(policy)
    capacity = UNLIMITED if policy == "unlimited" else pool
    n = len(load)
    nan = np.full(n, np.nan)
    admitted, first_token, finished = nan.copy(), nan.copy(), nan
    outcome = np.full(n, UNFINISHED, dtype=np.int8)
    span_first, span_count = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    # A segment ends with an arrival, a completion or a prefill: each request causes at most one of each.
    # What is not used of these costs nothing: memory that nobody touches is never handed out.
    rows = 3 * n + 8
    times, narrow, wide = np.empty((2, rows)), np.empty((3, rows), np.int32), np.empty((5, rows), np.int64)
    barred = np.where(load.prompt + load.output > longest, capacity + 1, need) if longest else need
    m = serve(
        # Fresh copies, so that the compiler meets the same array types whatever the order is.
        load.arrival, load.prompt, load.output, np.array(keys, dtype=float), barred, capacity, min(max_bs, n),
        prefill_first, bool(np.all(np.diff(keys) >= 0)),
        cost, stop_at, admitted, first_token, finished, outcome, span_first, span_count, times, narrow, wide,
    )  # fmt: skip
    columns = dict(zip(NARROW, narrow[:, :m], strict=True)) | dict(zip(WIDE, wide[:, :m], strict=True))
    nobody = np.broadcast_to(np.int32(0), m)  # a finished sequence never keeps its seat here
    columns |= {"start": times[0, :m], "end": times[1, :m], "n_idle": nobody}
    segments = {name: columns[name] for name, _ in SEGMENT_COLUMNS}
    served = np.flatnonzero(~np.isnan(first_token))
    reasons = {
        int(i): str(refusal(int(load.prompt[i]), int(load.output[i]), int(need[i]), capacity, longest))
        for i in np.flatnonzero(outcome == REFUSED)
    }
    return Record(
        admitted,
        first_token,
        finished,
        finished,
        outcome,
        np.zeros(n, dtype=np.int32),
        np.zeros(n, dtype=np.int64),
        segments,
        served,
        first_token[served],
        span_first[served],
        span_count[served],
        reasons,
        pool,
    )
