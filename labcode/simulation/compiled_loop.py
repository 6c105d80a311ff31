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
watermark; the order to one key a request; the cost to its compiled form.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from labcode.cost.compiled import compiled_advance, compiled_step_time, round_up
from labcode.cost.leap import SAME_INSTANT
from labcode.jit import compiled
from labcode.simulation.record import CANCELLED, FINISHED, REFUSED, TIMED_OUT, UNFINISHED

MIXED, PREFILL_FIRST, CHUNKED = range(3)
COMING, WAITING, PREFILLING, DECODING, GONE = range(5)

NARROW = ("n_prefill", "n_decode", "waiting")
WIDE = ("steps", "prefill_tokens", "decode_kv", "kv_used", "kv_reserved")


class Arrays(NamedTuple):
    """The requests, by arrival: arrays of length n, and the events of theirs, by time: arrays of length e."""

    arrival: NDArray[np.float64]
    prompt: NDArray[np.int64]
    output: NDArray[np.int64]
    key: NDArray[np.float64]  # order of the queue, smaller first
    need: NDArray[np.int64]  # positions that each reserves when it comes in
    barred: NDArray[np.bool_]  # can never be taken in
    event_time: NDArray[np.float64]  # never before the arrival
    event_request: NDArray[np.int64]
    event_deadline: NDArray[np.bool_]  # a deadline, else a cancellation


class Rules(NamedTuple):
    """The policies as numbers."""

    capacity: int  # positions, or blocks
    block: int  # positions in a block; 0: reservation
    spare: int  # blocks that admission leaves free
    max_bs: int
    mode: int
    token_budget: int
    padded: bool
    deadlines_end_all: bool  # or only those who still wait
    in_arrival_order: bool
    stop_at: float


class Working(NamedTuple):
    """Where each request stands (arrays of length n), who runs, and the counters (see `FREE` and so on)."""

    state: NDArray[np.int8]
    generated: NDArray[np.int64]  # tokens, up to the last prefill
    computed: NDArray[np.int64]  # positions, up to the last prefill
    joined: NDArray[np.int64]  # number of the first decode step after that
    leaves: NDArray[np.int64]  # decode steps made when it has its last token
    span: NDArray[np.int64]  # its open span
    place: NDArray[np.int64]  # where it stands in `decoders`
    decoders: NDArray[np.int64]  # who decodes, in no order
    begun: NDArray[np.int64]  # who prefills, in the order in which they came in
    share: NDArray[np.int64]  # new positions of each of these in this step
    phases: NDArray[np.int64]  # how many begin a block at decode steps with this remainder
    count: NDArray[np.int64]


#: What is counted: free positions or blocks, who waits, prefills, decodes, positions of the next decode step, decode
#: steps made, and a number that changes with the membership of the running batch.
FREE, QUEUED, PREFILLS, DECODES, DECODE_KV, STEPS, VERSION = range(7)


class Outcomes(NamedTuple):
    """What happens to each request: arrays of length n, filled by `serve`."""

    admitted: NDArray[np.float64]
    first_token: NDArray[np.float64]
    finished: NDArray[np.float64]
    outcome: NDArray[np.int8]
    preemptions: NDArray[np.int32]
    recomputed: NDArray[np.int64]


def blank_outcomes(n: int) -> Outcomes:
    """Return the outcomes of requests to which nothing has happened yet."""
    nan = np.full(n, np.nan)
    return Outcomes(
        nan.copy(), nan.copy(), nan, np.full(n, UNFINISHED, np.int8), np.zeros(n, np.int32), np.zeros(n, np.int64)
    )


@compiled
def twice(columns):  # type: ignore[no-untyped-def]
    """Return the rows of `columns`, shape (c, m), with room for twice as many: shape (c, 2m)."""
    wider = np.empty((columns.shape[0], 2 * columns.shape[1]), columns.dtype)
    wider[:, : columns.shape[1]] = columns
    return wider


@compiled
def size(load, rules, i, positions):  # type: ignore[no-untyped-def]
    """Return what request `i` takes of the pool with so many positions: blocks, or its reservation."""
    return -(-positions // rules.block) if rules.block > 0 else load.need[i]


@compiled
def positions_of(work, i):  # type: ignore[no-untyped-def]
    """Return the positions that a decoding request has in the cache."""
    return work.computed[i] + work.count[STEPS] - work.joined[i]


@compiled
def stop_decoding(load, rules, work, spans, i):  # type: ignore[no-untyped-def]
    """Take a decoding request out of the batch, give its blocks back and close its span; return its positions."""
    count, positions = work.count, positions_of(work, i)
    count[VERSION] += 1
    count[FREE] += size(load, rules, i, positions)
    count[DECODE_KV] -= positions + 1
    count[DECODES] -= 1
    if rules.block > 0:
        work.phases[(work.joined[i] - work.computed[i]) % rules.block] -= 1
    last = work.decoders[count[DECODES]]
    work.decoders[work.place[i]], work.place[last] = last, work.place[i]
    spans[2, work.span[i]] = count[STEPS] - work.joined[i]
    work.generated[i] += count[STEPS] - work.joined[i]
    return positions


@compiled
def stop_prefilling(load, rules, work, i):  # type: ignore[no-untyped-def]
    """Take a prefilling request out of the batch and give its blocks back; return its positions."""
    count = work.count
    count[VERSION] += 1
    count[FREE] += size(load, rules, i, load.prompt[i] + work.generated[i])
    j = 0
    while work.begun[j] != i:
        j += 1
    for j in range(j, count[PREFILLS] - 1):
        work.begun[j] = work.begun[j + 1]
    count[PREFILLS] -= 1
    return work.computed[i]


@compiled
def leave_early(load, rules, work, out, spans, i, deadline):  # type: ignore[no-untyped-def]
    """Let a deadline or a cancellation end request `i`, if it still can."""
    state = work.state[i]
    if state == GONE or (deadline and not rules.deadlines_end_all and (state != WAITING or out.preemptions[i] > 0)):
        return
    out.outcome[i] = TIMED_OUT if deadline else CANCELLED
    if state == WAITING:
        work.count[QUEUED] -= 1  # its entry in the queue is dropped when it comes up
    elif state == PREFILLING:
        stop_prefilling(load, rules, work, i)
    else:
        stop_decoding(load, rules, work, spans, i)
    work.state[i] = GONE


@compiled
def latest(work):  # type: ignore[no-untyped-def]
    """Return who came last of all that run."""
    last = -1
    for j in range(work.count[DECODES]):
        last = max(last, work.decoders[j])
    for j in range(work.count[PREFILLS]):
        last = max(last, work.begun[j])
    return last


@compiled
def take_blocks(load, rules, work, out, spans, waiting):  # type: ignore[no-untyped-def]
    """Take a block for each who decodes and has filled its last; preempt if there are too few.  Return if so."""
    count = work.count
    if rules.block == 0 or count[DECODES] == 0:
        return False
    wanted = work.phases[count[STEPS] % rules.block]
    if wanted <= count[FREE]:
        count[FREE] -= wanted
        return False
    for i in np.sort(work.decoders[: count[DECODES]]):
        if work.state[i] != DECODING or positions_of(work, i) % rules.block != 0:
            continue
        while count[FREE] < 1 and work.state[i] == DECODING:
            victim = latest(work)
            if work.state[victim] == DECODING:
                out.recomputed[victim] += stop_decoding(load, rules, work, spans, victim)
            else:
                out.recomputed[victim] += stop_prefilling(load, rules, work, victim)
            out.preemptions[victim] += 1
            work.computed[victim], work.state[victim] = 0, WAITING
            heapq.heappush(waiting, (load.key[victim], victim))
            count[QUEUED] += 1
        if work.state[i] == DECODING:
            count[FREE] -= 1
    return True


@compiled
def further_steps(work, rules, most):  # type: ignore[no-untyped-def]
    """Return for how many decode steps after the coming one (at most `most`) the free blocks last, and their use."""
    block, phases, free, at = rules.block, work.phases, work.count[FREE], work.count[STEPS] + 1
    each = phases.sum()
    rounds = min(free // each, most // block)
    steps, taken = rounds * block, rounds * each
    while steps < most and taken + phases[(at + steps) % block] <= free:
        taken += phases[(at + steps) % block]
        steps += 1
    return steps, taken


@compiled
def hand_out_prefill(load, rules, work, out, waiting, now, left, preempted):  # type: ignore[no-untyped-def]
    """Go on with prompts that are begun, then admit; return how many requests prefill in this step.

    Parameters
    ----------
    left : int
        Tokens of the budget.
    """
    count, members, longest = work.count, 0, 0
    for j in range(count[PREFILLS]):
        i = work.begun[j]
        new = min(load.prompt[i] + work.generated[i] - work.computed[i], left)
        if new <= 0:
            break
        work.share[j] = new
        left -= new
        members += 1
    while count[QUEUED] > 0 and not preempted and count[DECODES] + count[PREFILLS] < rules.max_bs:
        i = waiting[0][1]
        if work.state[i] != WAITING:
            heapq.heappop(waiting)  # it left while it waited
            continue
        target = load.prompt[i] + work.generated[i]
        # With rectangular batches a prompt may cost more than its own tokens.
        asked = (members + 1) * max(longest, target) - members * longest if rules.padded else target
        if rules.mode == CHUNKED:
            new = min(target, left)
        else:
            new = target if asked <= left or (members == 0 and work.generated[i] > 0) else 0
        spare = rules.spare if count[DECODES] + count[PREFILLS] > 0 else 0
        taken = size(load, rules, i, target)
        if new <= 0 or taken > count[FREE] - spare:
            break
        heapq.heappop(waiting)
        count[QUEUED] -= 1
        count[FREE] -= taken
        count[VERSION] += 1
        if np.isnan(out.admitted[i]):
            out.admitted[i] = now
        work.state[i] = PREFILLING
        work.begun[count[PREFILLS]], work.share[count[PREFILLS]] = i, new
        count[PREFILLS] += 1
        members += 1
        left -= asked if rules.padded else new
        longest = max(longest, new)
    return members


@compiled
def begin_decoding(load, rules, work, leaving, i):  # type: ignore[no-untyped-def]
    """Let a request whose prefill is done decode from the next step on."""
    count = work.count
    work.state[i] = DECODING
    work.joined[i] = count[STEPS]
    work.leaves[i] = count[STEPS] + load.output[i] - work.generated[i]
    heapq.heappush(leaving, (work.leaves[i], i))
    count[DECODE_KV] += work.computed[i] + 1
    work.decoders[count[DECODES]], work.place[i] = i, count[DECODES]
    count[DECODES] += 1
    if rules.block > 0:
        work.phases[(work.joined[i] - work.computed[i]) % rules.block] += 1


@compiled
def next_last_token(work, leaving):  # type: ignore[no-untyped-def]
    """Return after how many decode steps in all somebody has the last token."""
    while work.state[leaving[0][1]] != DECODING or work.leaves[leaving[0][1]] != leaving[0][0]:
        heapq.heappop(leaving)  # left behind by a preemption or a cancellation
    return leaving[0][0]


@compiled
def finish(work, out, i, now):  # type: ignore[no-untyped-def]
    """Note that a request is done."""
    work.state[i], out.finished[i], out.outcome[i] = GONE, now, FINISHED


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
    n, events, count = len(load.arrival), len(load.event_time), work.count
    now, coming, event, m, k, last_members = 0.0, 0, 0, 0, 0, -1
    while True:
        # Arrive, leave.
        while coming < n and load.arrival[coming] <= now + SAME_INSTANT:
            if load.barred[coming]:
                work.state[coming], out.outcome[coming] = GONE, REFUSED
            else:
                heapq.heappush(waiting, (load.key[coming], coming))
                work.state[coming] = WAITING
                count[QUEUED] += 1
            coming += 1
        while event < events and load.event_time[event] <= now + SAME_INSTANT:
            leave_early(load, rules, work, out, spans, load.event_request[event], load.event_deadline[event])
            event += 1
        if now >= rules.stop_at:
            break

        # Plan.
        preempted, decode_first = False, rules.mode != PREFILL_FIRST
        if decode_first:
            preempted = take_blocks(load, rules, work, out, spans, waiting)
        left = rules.token_budget - (count[DECODES] if decode_first else 0)
        members = hand_out_prefill(load, rules, work, out, waiting, now, left, preempted)
        batch = count[DECODES]
        if not decode_first:
            if members > 0:
                batch = 0
            else:
                preempted = take_blocks(load, rules, work, out, spans, waiting)
                batch = count[DECODES]
        if members == 0 and batch == 0:  # Nobody can do anything: to the next event.
            until = load.arrival[coming] if coming < n else np.inf
            if event < events:
                until = min(until, load.event_time[event])
            if np.isinf(until):
                break
            now = max(now, min(until, rules.stop_at))
            continue

        # Run.
        start, first_kv, in_line, same = now, count[DECODE_KV] if batch > 0 else 0, count[QUEUED], -1
        tokens, pairs, squares, past, moved = 0, 0, 0, 0, 0
        if members > 0:
            steps = 1
            for j in range(members):
                new, before = work.share[j], work.computed[work.begun[j]]
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
            elif rules.block > 0:
                steps = 1 + further_steps(work, rules, steps - 1)[0]
            if count[PREFILLS] == 0:
                same = count[VERSION]
            # An arrival changes the plan only if it can be taken in: not when all places are taken, nor when it
            # would stand behind somebody who does not fit.
            until = rules.stop_at
            if coming < n and batch < rules.max_bs and not (count[QUEUED] > 0 and rules.in_arrival_order):
                until = min(until, load.arrival[coming])
            if event < events:
                until = min(until, load.event_time[event])
            steps, now = compiled_advance(form, batch, first_kv, start, steps, until)
            if rules.block > 0 and steps > 1:
                count[FREE] -= further_steps(work, rules, steps - 1)[1]

        # Account.
        if batch > 0:
            count[STEPS] += steps
            count[DECODE_KV] += batch * steps
        used = count[DECODE_KV] - count[DECODES]
        for j in range(count[PREFILLS]):
            if j < members:
                work.computed[work.begun[j]] += work.share[j]
            used += work.computed[work.begun[j]]
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
            if work.state[i] == DECODING and work.leaves[i] == step:
                stop_decoding(load, rules, work, spans, i)
                finish(work, out, i, now)
        kept = 0
        for j in range(count[PREFILLS]):
            i = work.begun[j]
            if work.computed[i] < load.prompt[i] + work.generated[i]:
                work.begun[kept] = i
                kept += 1
                continue
            work.generated[i] += 1
            count[VERSION] += 1
            if np.isnan(out.first_token[i]):
                out.first_token[i] = now
            if k == spans.shape[1]:
                spans, span_times = twice(spans), twice(span_times)
            spans[0, k], spans[1, k], spans[2, k], span_times[0, k] = i, count[STEPS], 0, now
            work.span[i] = k
            k += 1
            if work.generated[i] == load.output[i]:
                count[FREE] += size(load, rules, i, work.computed[i])
                finish(work, out, i, now)
            else:
                begin_decoding(load, rules, work, leaving, i)
        count[PREFILLS] = kept
    while count[DECODES] > 0:  # cut off: they keep what they got
        stop_decoding(load, rules, work, spans, work.decoders[0])
    return m, times, narrow, wide, k, spans, span_times
