"""A request's states and the ways between them, in one table.

Everything that a state entitles to (a place in the running batch, blocks of the KV cache) is listed here as well, so
that "given back exactly once" can be read off: a request gives back what it holds when it moves to a state that no
longer holds it, and nowhere else.
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """Where a request stands."""

    WAITING = "waiting"  # has come in, holds nothing
    PREFILLING = "prefilling"  # in the running batch; its prompt is not all in the cache yet
    DECODING = "decoding"  # in the running batch; one token a step
    PAUSED = "paused"  # keeps its place and its blocks, but gets no token: its client does not read
    PREEMPTED = "preempted"  # waits again, without its cache
    SWAPPED_OUT = "swapped_out"  # waits again, with its cache on the host
    FINISHED = "finished"
    REFUSED = "refused"  # was never promised anything
    CANCELLED = "cancelled"  # its client went away
    TIMED_OUT = "timed_out"  # its deadline passed
    FAILED = "failed"  # was promised something that could not be kept


S = State

#: From each state to which others a request may go.  Terminal states lead nowhere.
TRANSITIONS: dict[State, frozenset[State]] = {
    S.WAITING: frozenset({S.PREFILLING, S.REFUSED, S.CANCELLED, S.TIMED_OUT, S.FAILED}),
    S.PREFILLING: frozenset(
        {S.DECODING, S.FINISHED, S.PREEMPTED, S.SWAPPED_OUT, S.CANCELLED, S.TIMED_OUT, S.FAILED},
    ),
    S.DECODING: frozenset(
        {S.PAUSED, S.FINISHED, S.PREEMPTED, S.SWAPPED_OUT, S.CANCELLED, S.TIMED_OUT, S.FAILED},
    ),
    S.PAUSED: frozenset({S.DECODING, S.FINISHED, S.PREEMPTED, S.SWAPPED_OUT, S.CANCELLED, S.TIMED_OUT, S.FAILED}),
    S.PREEMPTED: frozenset({S.PREFILLING, S.CANCELLED, S.TIMED_OUT, S.FAILED}),
    S.SWAPPED_OUT: frozenset({S.PREFILLING, S.DECODING, S.CANCELLED, S.TIMED_OUT, S.FAILED}),
    S.FINISHED: frozenset(),
    S.REFUSED: frozenset(),
    S.CANCELLED: frozenset(),
    S.TIMED_OUT: frozenset(),
    S.FAILED: frozenset(),
}

#: States that hold a place in the running batch and blocks of the KV cache.
RUNNING = frozenset({S.PREFILLING, S.DECODING, S.PAUSED})

#: States that stand in the waiting queue.
QUEUED = frozenset({S.WAITING, S.PREEMPTED, S.SWAPPED_OUT})

#: States that are final.
TERMINAL = frozenset(state for state, ways in TRANSITIONS.items() if not ways)
