"""What happens without a reservation of KV slots when nobody is ever sent away: a standstill, found and
named.

Orca reserves all the slots that a request may need before its first iteration (Yu et al. 2022, Algorithm 1,
`Select`). This engine can run the same scheduler with any memory manager, and a request whose next slot is
refused *waits in its seat, holding what it has*.  With :class:`labcode.scheduler.memory.ReservationMemory`
nobody ever waits like that; with slots handed out one by one all of them may, each for slots that another
holds, and then nothing can ever change.  The continuous engine of :mod:`labcode.simulation.engine` takes the
third way out: it preempts.

All four conditions of a deadlock (Coffman, Elphick and Shoshani 1971) are there: a slot has one owner, owners
hold while they wait, nothing is taken away, and the waiting is circular.  Reservation removes the second,
preemption the third.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labcode.checks import integer
from labcode.results.timeline import ABSENT, DECODE, PREFILL, WAITING
from labcode.scheduler.memory import Memory
from labcode.workload import Request, Workload

STUCK = "x"  # has a seat, and waits for a slot
LONGEST = 100_000  # iterations


@dataclass(frozen=True)
class Standstill:
    """A proof of deadlock: everyone who has a seat needs one more slot, and none is free.

    Attributes
    ----------
    iteration : int
        The iteration in which nobody could move.
    held : dict of int to int
        Slots (tokens) that each seated request holds, all of them written.
    missing : dict of int to int
        Slots that each still needs to run to its end.
    """

    iteration: int
    held: dict[int, int]
    missing: dict[int, int]

    def __str__(self) -> str:
        parts = [f"r{i} holds {held} and lacks {self.missing[i]}" for i, held in self.held.items()]
        return f"standstill in iteration {self.iteration}: " + "; ".join(parts)


@dataclass(frozen=True)
class SlotRun:
    """What happened: letters as in a timeline (with ``x`` for waiting in one's seat), and the slots beneath.

    Attributes
    ----------
    letters : str, shape (n, m)
    used : int64, shape (m,)
        Slots written at the end of each iteration.
    finished : int64, shape (n,)
        The iteration of each request's last token; -1 if it never came.
    standstill : Standstill or None
    """

    letters: NDArray[np.str_]
    used: NDArray[np.int64]
    finished: NDArray[np.int64]
    standstill: Standstill | None

    def text(self) -> str:
        """Return the diagram, a line a request."""
        rows = [f"r{i}  " + "".join(row).rstrip() for i, row in enumerate(self.letters)]
        return "\n".join(["    " + "".join(str(k % 10) for k in range(self.letters.shape[1])), *rows])


@dataclass
class _Seat:
    request: Request
    written: int = 0
    tokens: int = 0


def run_without_preemption(
    load: Workload, memory: Memory, max_bs: int, compute: Callable[[list[int]], None] | None = None
) -> SlotRun:
    """Run `load` iteration by iteration (arrivals count iterations) and stop at the end, or at a standstill.

    Each iteration: seat requests first come, first served while `memory` takes them in; whoever is new
    prefills; every other seated request asks `memory` for one more slot, decodes if it gets it and else waits
    in its seat.

    Parameters
    ----------
    load : Workload
        Arrivals up to `LONGEST` iterations.
    memory : Memory
    max_bs : int
        Seats.
    compute : callable, optional
        Is given in each iteration the requests that move, as a list of ids: to let a real model make their tokens.

    Raises
    ------
    ValueError
        If a request can never run to its end even alone (``memory.refusal``), arrives after `LONGEST`, or `max_bs` is
        not at least 1.
    """
    max_bs = integer("max_bs", max_bs)
    if load.arrival[-1] > LONGEST:
        raise ValueError(f"arrival = {load.arrival[-1]}: iterations are counted one by one, at most {LONGEST} of them")
    for request in load.requests():
        reason = memory.refusal(request) if hasattr(memory, "refusal") else None
        if reason:
            raise ValueError(f"request {request.id}: {reason}")
    coming, line, seats = deque(load.requests()), deque[Request](), list[_Seat]()
    columns: list[list[str]] = []
    used: list[int] = []
    finished = np.full(len(load), -1, dtype=np.int64)
    standstill, now = None, 0
    while (coming or line or seats) and standstill is None:
        while coming and coming[0].arrival <= now:
            line.append(coming.popleft())
        while line and len(seats) < max_bs and memory.try_admit(line[0], line[0].prompt):
            seats.append(_Seat(line.popleft()))
        if line and not seats:
            raise ValueError(f"request {line[0].id}: does not fit into the empty pool")
        column = [ABSENT] * len(load)
        for request in line:
            column[request.id] = WAITING
        for seat in seats:
            column[seat.request.id] = _advance(seat, memory)
        moving = [seat.request.id for seat in seats if column[seat.request.id] != STUCK]
        if compute is not None and moving:
            compute(moving)
        columns.append(column)
        used.append(sum(seat.written for seat in seats))
        if seats and not moving:
            # Nobody moved, so nobody will leave and no slot comes free; an arrival could only take more.
            standstill = Standstill(
                now,
                {s.request.id: s.written for s in seats},
                {s.request.id: s.request.prompt + s.request.output - 1 - s.written for s in seats},
            )
        for seat in [seat for seat in seats if seat.tokens == seat.request.output]:
            finished[seat.request.id] = now
            memory.free(seat.request)
            seats.remove(seat)
        now += 1
    letters = np.array(columns).T if columns else np.empty((len(load), 0), dtype=np.str_)
    return SlotRun(letters, np.array(used), finished, standstill)


def _advance(seat: _Seat, memory: Memory) -> str:
    """Give a seated request its prefill or its next token if there is a slot; return its letter."""
    if seat.written == 0:
        seat.written, seat.tokens = seat.request.prompt, 1
        return PREFILL
    if not memory.grow(seat.request, seat.written + 1):
        return STUCK
    seat.written += 1
    seat.tokens += 1
    return DECODE
