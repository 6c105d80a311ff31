"""The scheduler's rules once more, over plain arrays, so that they compile: for a million requests, or a slider.

It decides what :class:`labcode.scheduler.Scheduler` decides and leaves the record that :mod:`labcode.simulation.loop`
leaves; a property test holds all three ways of running to each other.  The rules, in the order of a round:

==============  ===================================================================================================
arrive, leave   arrivals up to now join the queue, or are refused; deadlines and cancellations take effect
decode          everybody who decodes gets a position; blocks run out: the latest arrival is preempted
prefill         prompts that are begun go on, in the order in which they came in
admit           the head of the queue, while places, tokens and memory last; never past it; not after a preemption
order           mixed, chunked: decode, prefill, admit.  prefill first: prefill, admit, and decode if there is neither
run             prefill: one step.  Decodes alone: until somebody finishes, an event, or a block that is not there
==============  ===================================================================================================

What the policies reduce to here: memory to the positions that each request reserves, or to a block size and a
watermark; the order to one key a request; the cost to its compiled form.  How requests come into the running batch and
leave it stands in :mod:`labcode.simulation.compiled_state`.
"""

from __future__ import annotations

import heapq

import numpy as np

from labcode.cost.compiled import compiled_advance, compiled_step_time, round_up
from labcode.cost.leap import SAME_INSTANT
from labcode.jit import compiled
from labcode.results.outcomes import REFUSED
from labcode.simulation.compiled_state import (
    BEGUN,
    COMPUTED,
    DECODE_KV,
    DECODERS,
    DECODES,
    DECODING,
    FREE,
    GENERATED,
    GONE,
    LEAVES,
    PREFILL_FIRST,
    PREFILLS,
    QUEUED,
    SHARE,
    SPAN,
    STATE,
    STEPS,
    VERSION,
    WAITING,
    begin_decoding,
    finish,
    further_steps,
    hand_out_prefill,
    leave_early,
    next_last_token,
    size,
    stop_decoding,
    take_blocks,
    twice,
)

NARROW = ("n_prefill", "n_decode", "waiting")
WIDE = ("steps", "prefill_tokens", "decode_kv", "kv_used", "kv_reserved")


@compiled
def serve(load, rules, form, work, out, times, narrow, wide, spans, span_times):  # type: ignore[no-untyped-def]
    """Serve a workload.

    Parameters
    ----------
    load, rules, work, out
        `Arrays`, `Rules`, `Working` (blank), `Outcomes` (blank); the last are filled.
    form : CompiledCost
    times : float64 (2, m), narrow : int32 (3, m), wide : int64 (5, m)
        Room for segments: start and end; `NARROW`; `WIDE`.  Grows as needed.
    spans : int64 (3, k), span_times : float64 (1, k)
        Room for spans: request, first decode step, count; the time of the first token.

    Returns
    -------
    m, times, narrow, wide, k, spans, span_times
        How many segments and spans there are, and the arrays that hold them.
    """
    waiting = [(0.0, 0)]  # heap of (key, request); the first entry tells the compiler the type
    waiting.pop()
    leaving = [(0, 0)]  # heap of (decode steps made at the last token, request)
    leaving.pop()
    # Out of the tuples once: inside a loop every access would count references.
    arrival, barred, key, event_time = load.arrival, load.barred, load.key, load.event_time
    of, batches, count, stop_at, max_bs = work.of, work.batch, work.counts, rules.stop_at, rules.max_bs
    n, events, paged = len(arrival), len(event_time), rules.block > 0
    now, coming, event, m, k, last_members = 0.0, 0, 0, 0, 0, -1
    while True:
        # Arrive, leave.
        while coming < n and arrival[coming] <= now + SAME_INSTANT:
            if barred[coming]:
                of[STATE, coming], out.outcome[coming] = GONE, REFUSED
            else:
                heapq.heappush(waiting, (key[coming], coming))
                of[STATE, coming] = WAITING
                count[QUEUED] += 1
            coming += 1
        while event < events and event_time[event] <= now + SAME_INSTANT:
            leave_early(load, rules, work, out, spans, load.event_request[event], load.event_deadline[event])
            event += 1
        if now >= stop_at:
            break

        # Plan.
        # (A call with all these tuples costs as much as all else in a round: none where it would do nothing.)
        preempted, decode_first, members = False, rules.mode != PREFILL_FIRST, 0
        if decode_first and paged:
            preempted = take_blocks(load, rules, work, out, spans, waiting)
        left = rules.token_budget - (count[DECODES] if decode_first else 0)
        if count[PREFILLS] + count[QUEUED] > 0:
            members = hand_out_prefill(load, rules, work, out, waiting, now, left, preempted)
        batch = count[DECODES]
        if not decode_first:
            if members > 0:
                batch = 0
            elif paged:
                preempted = take_blocks(load, rules, work, out, spans, waiting)
                batch = count[DECODES]
        if members == 0 and batch == 0:  # Nobody can do anything: to the next event.
            until = arrival[coming] if coming < n else np.inf
            if event < events:
                until = min(until, event_time[event])
            if np.isinf(until):
                break
            now = max(now, min(until, stop_at))
            continue

        # Run.
        start, first_kv, in_line, same = now, count[DECODE_KV] if batch > 0 else 0, count[QUEUED], -1
        tokens, pairs, squares, past, moved = 0, 0, 0, 0, 0
        if members > 0:
            steps = 1
            for j in range(members):
                new, before = batches[SHARE, j], of[COMPUTED, batches[BEGUN, j]]
                tokens += new
                pairs += new * before + new * (new + 1) // 2
                squares += new * new
                past += round_up(before, form.round_kv)
                moved += new + before
            now = start + compiled_step_time(
                form, tokens + batch, pairs + first_kv, moved + first_kv, members, squares, past, batch, first_kv
            )
        else:
            steps = next_last_token(work, leaving) - count[STEPS]
            if preempted or count[PREFILLS] > 0:
                steps = 1
            elif paged:
                steps = 1 + further_steps(work, rules, steps - 1)[0]
            if count[PREFILLS] == 0:
                same = count[VERSION]
            # An arrival changes the plan only if it can be taken in: not when all places are taken, nor when it
            # would stand behind somebody who does not fit.
            until = stop_at
            if coming < n and batch < max_bs and not (count[QUEUED] > 0 and rules.in_arrival_order):
                until = min(until, arrival[coming])
            if event < events:
                until = min(until, event_time[event])
            steps, now = compiled_advance(form, batch, first_kv, start, steps, until)
            if paged and steps > 1:
                count[FREE] -= further_steps(work, rules, steps - 1)[1]

        # Account.
        if batch > 0:
            count[STEPS] += steps
            count[DECODE_KV] += batch * steps
        used = count[DECODE_KV] - count[DECODES]
        for j in range(count[PREFILLS]):
            if j < members:
                of[COMPUTED, batches[BEGUN, j]] += batches[SHARE, j]
            used += of[COMPUTED, batches[BEGUN, j]]
        held = (rules.capacity - count[FREE]) * max(1, rules.block)
        if same >= 0 and same == last_members and times[1, m - 1] == start:
            times[1, m - 1] = now
            wide[0, m - 1] += steps
            wide[3, m - 1], wide[4, m - 1] = used, held
        else:
            if m == times.shape[1]:
                times, narrow, wide = twice(times), twice(narrow), twice(wide)
            times[0, m], times[1, m] = start, now
            narrow[0, m], narrow[1, m], narrow[2, m] = members, batch, in_line
            wide[0, m], wide[1, m], wide[2, m], wide[3, m], wide[4, m] = steps, tokens, first_kv, used, held
            m += 1
        last_members = same

        # Tokens come out, and whoever has the last one leaves.
        while batch > 0 and len(leaving) > 0 and leaving[0][0] <= count[STEPS]:
            step, i = heapq.heappop(leaving)
            if of[STATE, i] == DECODING and of[LEAVES, i] == step:
                stop_decoding(load, rules, work, spans, i)
                finish(work, out, i, now)
        kept = 0
        for j in range(count[PREFILLS]):
            i = batches[BEGUN, j]
            if of[COMPUTED, i] < load.prompt[i] + of[GENERATED, i]:
                batches[BEGUN, kept] = i
                kept += 1
                continue
            of[GENERATED, i] += 1
            count[VERSION] += 1
            if np.isnan(out.first_token[i]):
                out.first_token[i] = now
            if k == spans.shape[1]:
                spans, span_times = twice(spans), twice(span_times)
            spans[0, k], spans[1, k], spans[2, k], span_times[0, k] = i, count[STEPS], 0, now
            of[SPAN, i] = k
            k += 1
            if of[GENERATED, i] == load.output[i]:
                count[FREE] += size(load, rules, i, of[COMPUTED, i])
                finish(work, out, i, now)
            else:
                begin_decoding(load, rules, work, leaving, i)
        count[PREFILLS] = kept
    while count[DECODES] > 0:  # cut off: they keep what they got
        stop_decoding(load, rules, work, spans, batches[DECODERS, 0])
    return m, times, narrow, wide, k, spans, span_times
