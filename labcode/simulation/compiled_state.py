"""The running batch as arrays: what the compiled loop knows of each request, and how that changes."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from labcode.jit import compiled
from labcode.results.outcomes import CANCELLED, FINISHED, TIMED_OUT

MIXED, PREFILL_FIRST, CHUNKED = range(3)
COMING, WAITING, PREFILLING, DECODING, GONE = range(5)


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
    """Where each request stands, who runs, and the counters.  Few arrays: each costs time in every call."""

    of: NDArray[np.int64]  # (7, n): `STATE` and so on of each request
    batch: NDArray[np.int64]  # (3, max_bs): `DECODERS`, `BEGUN`, `SHARE`
    phases: NDArray[np.int64]  # (block,): how many begin a block at decode steps with this remainder
    counts: NDArray[np.int64]  # (7,): `FREE` and so on


#: What is known of each request: tokens and positions up to its last prefill; the number of the first decode step after
#: that; decode steps made when it has its last token; its open span; where it stands among those who decode.
STATE, GENERATED, COMPUTED, JOINED, LEAVES, SPAN, PLACE = range(7)

#: Who decodes, in no order; who prefills, in the order in which they came in; new positions of each of these now.
DECODERS, BEGUN, SHARE = range(3)

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
    return work.of[COMPUTED, i] + work.counts[STEPS] - work.of[JOINED, i]


@compiled
def stop_decoding(load, rules, work, spans, i):  # type: ignore[no-untyped-def]
    """Take a decoding request out of the batch, give its blocks back and close its span; return its positions."""
    count, positions = work.counts, positions_of(work, i)
    count[VERSION] += 1
    count[FREE] += size(load, rules, i, positions)
    count[DECODE_KV] -= positions + 1
    count[DECODES] -= 1
    if rules.block > 0:
        work.phases[(work.of[JOINED, i] - work.of[COMPUTED, i]) % rules.block] -= 1
    last = work.batch[DECODERS, count[DECODES]]
    work.batch[DECODERS, work.of[PLACE, i]], work.of[PLACE, last] = last, work.of[PLACE, i]
    spans[2, work.of[SPAN, i]] = count[STEPS] - work.of[JOINED, i]
    work.of[GENERATED, i] += count[STEPS] - work.of[JOINED, i]
    return positions


@compiled
def stop_prefilling(load, rules, work, i):  # type: ignore[no-untyped-def]
    """Take a prefilling request out of the batch and give its blocks back; return its positions."""
    count = work.counts
    count[VERSION] += 1
    count[FREE] += size(load, rules, i, load.prompt[i] + work.of[GENERATED, i])
    count[PREFILLS] -= 1
    found = False
    for j in range(count[PREFILLS]):
        found = found or work.batch[BEGUN, j] == i
        if found:
            work.batch[BEGUN, j] = work.batch[BEGUN, j + 1]
    return work.of[COMPUTED, i]


@compiled
def leave_early(load, rules, work, out, spans, i, deadline):  # type: ignore[no-untyped-def]
    """Let a deadline or a cancellation end request `i`, if it still can."""
    state = work.of[STATE, i]
    if state == GONE or (deadline and not rules.deadlines_end_all and (state != WAITING or out.preemptions[i] > 0)):
        return
    out.outcome[i] = TIMED_OUT if deadline else CANCELLED
    if state == WAITING:
        work.counts[QUEUED] -= 1  # its entry in the queue is dropped when it comes up
    elif state == PREFILLING:
        stop_prefilling(load, rules, work, i)
    else:
        stop_decoding(load, rules, work, spans, i)
    work.of[STATE, i] = GONE


@compiled
def latest(work):  # type: ignore[no-untyped-def]
    """Return who came last of all that run."""
    last = -1
    for j in range(work.counts[DECODES]):
        last = max(last, work.batch[DECODERS, j])
    for j in range(work.counts[PREFILLS]):
        last = max(last, work.batch[BEGUN, j])
    return last


@compiled
def take_blocks(load, rules, work, out, spans, waiting):  # type: ignore[no-untyped-def]
    """Take a block for each who decodes and has filled its last; preempt if there are too few.  Return if so."""
    count = work.counts
    if rules.block == 0 or count[DECODES] == 0:
        return False
    wanted = work.phases[count[STEPS] % rules.block]
    if wanted <= count[FREE]:
        count[FREE] -= wanted
        return False
    for i in np.sort(work.batch[DECODERS, : count[DECODES]]):
        if work.of[STATE, i] != DECODING or positions_of(work, i) % rules.block != 0:
            continue
        while count[FREE] < 1 and work.of[STATE, i] == DECODING:
            victim = latest(work)
            if work.of[STATE, victim] == DECODING:
                out.recomputed[victim] += stop_decoding(load, rules, work, spans, victim)
            else:
                out.recomputed[victim] += stop_prefilling(load, rules, work, victim)
            out.preemptions[victim] += 1
            work.of[COMPUTED, victim], work.of[STATE, victim] = 0, WAITING
            heapq.heappush(waiting, (load.key[victim], victim))
            count[QUEUED] += 1
        if work.of[STATE, i] == DECODING:
            count[FREE] -= 1
    return True


@compiled
def further_steps(work, rules, most):  # type: ignore[no-untyped-def]
    """Return for how many decode steps after the coming one (at most `most`) the free blocks last, and their use."""
    block, phases, free, at = rules.block, work.phases, work.counts[FREE], work.counts[STEPS] + 1
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
    count, members, longest = work.counts, 0, 0
    for j in range(count[PREFILLS]):
        i = work.batch[BEGUN, j]
        new = min(load.prompt[i] + work.of[GENERATED, i] - work.of[COMPUTED, i], left)
        if new <= 0:
            break
        work.batch[SHARE, j] = new
        left -= new
        members += 1
    while count[QUEUED] > 0 and not preempted and count[DECODES] + count[PREFILLS] < rules.max_bs:
        i = waiting[0][1]
        if work.of[STATE, i] != WAITING:
            heapq.heappop(waiting)  # it left while it waited
            continue
        target = load.prompt[i] + work.of[GENERATED, i]
        # With rectangular batches a prompt may cost more than its own tokens.
        asked = (members + 1) * max(longest, target) - members * longest if rules.padded else target
        if rules.mode == CHUNKED:
            new = min(target, left)
        else:
            new = target if asked <= left or (members == 0 and work.of[GENERATED, i] > 0) else 0
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
        work.of[STATE, i] = PREFILLING
        work.batch[BEGUN, count[PREFILLS]], work.batch[SHARE, count[PREFILLS]] = i, new
        count[PREFILLS] += 1
        members += 1
        left -= asked if rules.padded else new
        longest = max(longest, new)
    return members


@compiled
def begin_decoding(load, rules, work, leaving, i):  # type: ignore[no-untyped-def]
    """Let a request whose prefill is done decode from the next step on."""
    count = work.counts
    work.of[STATE, i] = DECODING
    work.of[JOINED, i] = count[STEPS]
    work.of[LEAVES, i] = count[STEPS] + load.output[i] - work.of[GENERATED, i]
    heapq.heappush(leaving, (work.of[LEAVES, i], i))
    count[DECODE_KV] += work.of[COMPUTED, i] + 1
    work.batch[DECODERS, count[DECODES]], work.of[PLACE, i] = i, count[DECODES]
    count[DECODES] += 1
    if rules.block > 0:
        work.phases[(work.of[JOINED, i] - work.of[COMPUTED, i]) % rules.block] += 1


@compiled
def next_last_token(work, leaving):  # type: ignore[no-untyped-def]
    """Return after how many decode steps in all somebody has the last token."""
    while work.of[STATE, leaving[0][1]] != DECODING or work.of[LEAVES, leaving[0][1]] != leaving[0][0]:
        heapq.heappop(leaving)  # left behind by a preemption or a cancellation
    return leaving[0][0]


@compiled
def finish(work, out, i, now):  # type: ignore[no-untyped-def]
    """Note that a request is done."""
    work.of[STATE, i], out.finished[i], out.outcome[i] = GONE, now, FINISHED
