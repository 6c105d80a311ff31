"""What happens without a reservation of KV slots when nobody is ever sent away: a standstill, found and
named.

Orca reserves all the slots that a request may need before its first iteration (Yu et al. 2022, Algorithm 1,
`Select`).  Here the same scheduler runs with any memory manager and the preemption action "wait": a request whose next
slot is refused *waits in its place, holding what it has*.  With a reservation nobody ever waits like that; with slots
handed out one by one all of them may, each for slots that another holds, and then nothing can ever change.  The action
"recompute" is the third way out: it preempts.

All four conditions of a deadlock (Coffman, Elphick and Shoshani 1971) are there: a slot has one owner, owners
hold while they wait, nothing is taken away, and the waiting is circular.  Reservation removes the second,
preemption the third.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labcode.checks import integer
from labcode.results.timeline import ABSENT, DECODE, PREFILL, WAITING
from labcode.scheduler import Budgets, Memory, Plan, Preemption, Results, Scheduler, State
from labcode.simulation.requests import requests_of
from labcode.workload import Workload

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


def run_without_preemption(
    load: Workload, memory: Memory, max_bs: int, compute: Callable[[list[int]], None] | None = None
) -> SlotRun:
    """Run `load` iteration by iteration (arrivals count iterations) and stop at the end, or at a standstill.

    Each iteration: every running request asks `memory` for one more slot, decodes if it gets it and else waits in its
    place; then requests come in first come, first served while `memory` takes them, and prefill.

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
    scheduler = Scheduler(memory, budgets=Budgets(max_bs), preemption=Preemption(action="wait"))
    coming = requests_of(load, load.output.astype(float))[::-1]
    columns: list[list[str]] = []
    used: list[int] = []
    finished = np.full(len(load), -1, dtype=np.int64)
    standstill, now = None, 0
    while (coming or scheduler.waiting or scheduler.running) and standstill is None:
        while coming and coming[-1].arrival <= now:
            request = coming.pop()
            refusal = scheduler.add(request, now)
            if refusal:
                raise ValueError(f"request {request.id}: {refusal}")
        plan = scheduler.schedule(now)
        column = [ABSENT] * len(load)
        for number, state in scheduler.requests.items():
            if state.state is State.WAITING:
                column[number] = WAITING
            elif state.running:
                column[number] = STUCK
        prefills, decodes = [work.request.id for work in plan.prefill], [state.id for state in plan.decode]
        for letter, numbers in ((PREFILL, prefills), (DECODE, decodes)):
            for number in numbers:
                column[number] = letter
        if compute is not None and plan:
            compute(sorted([*prefills, *decodes]))
        done = [i for i in [*prefills, *decodes] if scheduler.requests[i].generated + 1 == load.output[i]]
        scheduler.update(plan, Results(), now)
        columns.append(column)
        used.append(sum(state.computed for state in scheduler.running.values()))
        if scheduler.running and not plan:
            # Nobody moved, so nobody will leave and no slot comes free; an arrival could only take more.
            held = {number: state.computed for number, state in scheduler.running.items()}
            missing = {i: int(load.prompt[i] + load.output[i]) - 1 - slots for i, slots in held.items()}
            standstill = Standstill(now, held, missing)
        scheduler.update(Plan(), Results(done), now)
        finished[done] = now
        now += 1
    letters = np.array(columns).T if columns else np.empty((len(load), 0), dtype=np.str_)
    return SlotRun(letters, np.array(used), finished, standstill)
