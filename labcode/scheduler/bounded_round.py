"""Algorithm 31.1 of the textbook chapter, *one bounded scheduling round*, as one function: all seven steps in a row.

The scheduler of this book does the same in the methods of `Scheduler`, `Budgets`, a memory manager and a queue, so
that each can be exchanged.  Here they stand in one place and in the order of the algorithm, to be read; a test holds
the two together where they make the same choices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from labcode.scheduler.budgets import StepTimeEstimate
from labcode.scheduler.fair import BY_TOKENS, Tariff
from labcode.scheduler.request import RequestState, Work
from labcode.scheduler.states import RUNNING, TERMINAL, State

#: ``execute(plan)`` -> whose answer ended.
Execute = Callable[[tuple[Work, ...]], set[int]]


@dataclass(frozen=True)
class Limits:
    """The budgets of a round.

    Attributes
    ----------
    tokens, sequences : int
        B and K: new positions, and requests in the running batch.
    pages, workspace, page : int
        Pages of the pool, those taken by the workspace, positions in a page (tokens).
    seconds, estimate : float, callable
        What a step should not exceed, by ``estimate([(new, past), ...])``.
    min_prefill, min_decode : int
        Tokens kept for either phase while it can use them.
    """

    tokens: int
    sequences: int
    pages: int
    workspace: int = 0
    page: int = 16
    seconds: float = math.inf
    estimate: StepTimeEstimate = lambda works: 0.0
    min_prefill: int = 0
    min_decode: int = 0


@dataclass
class Floor:
    """What a round works on: everybody's state, the pages, the accounts.

    Attributes
    ----------
    everybody : list of RequestState
        In the order in which they came.
    held : dict of int to int
        Pages by request.
    credit : dict of str to float
    gone : set of int
        Whose client went away since the last round.
    version : int
        Changes with every change of the pages.
    log : list of str
        What each round came to.
    """

    everybody: list[RequestState]
    weights: dict[str, float] = field(default_factory=dict)
    quantum: float = 512.0
    carry: float = 4096.0
    tariff: Tariff = BY_TOKENS
    held: dict[int, int] = field(default_factory=dict)
    credit: dict[str, float] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    version: int = 0
    log: list[str] = field(default_factory=list)

    def end(self, state: RequestState, to: State, reason: str = "") -> None:
        """Bring a request to its end and give its pages back, once."""
        state.move(to)
        state.reason = reason
        self.release(state)

    def release(self, state: RequestState) -> None:
        """Give back what a request holds, if anything."""
        if self.held.pop(state.id, None) is not None:
            self.version += 1

    def reserve(self, pages: dict[int, int], limits: Limits, version: int) -> bool:
        """Take pages for a whole plan, or for none of it: they must still be as they were when it was made."""
        if version != self.version or sum((self.held | pages).values()) > limits.pages - limits.workspace:
            return False
        self.held |= pages
        self.version += 1
        return True


def bounded_round(floor: Floor, limits: Limits, now: float, execute: Execute) -> str:
    """Run one round of Algorithm 31.1 and return what it came to; the step numbers are the algorithm's."""
    # 1  At a safe boundary: completions were taken in step 6 of the last round; now cancellations and deadlines.
    for state in floor.everybody:
        deadline = state.request.deadline
        if state.state in TERMINAL:
            continue  # an end is final: whatever comes later finds it here
        if state.id in floor.gone:
            floor.end(state, State.CANCELLED)
        elif deadline is not None and deadline <= now:
            floor.end(state, State.TIMED_OUT)
    floor.gone.clear()
    alive = [state for state in floor.everybody if state.state not in TERMINAL]
    if not alive:
        return _note(floor, "nobody is left")

    # 2  Credit for every tenant that has somebody here, up to a bound; never so little that credit alone idles us.
    tenants = {state.request.tenant for state in alive}
    grant = {t: floor.weights.get(t, 1.0) * floor.quantum for t in tenants}
    rounds = 1
    if not any(state.running for state in alive):
        rounds = max(1, min(math.floor(-floor.credit.get(t, 0.0) / grant[t]) + 1 for t in tenants))
    for t in tenants:
        floor.credit[t] = min(floor.credit.get(t, 0.0) + rounds * grant[t], floor.carry)

    # 3  Shares that are kept for the other phase, and the order: who decodes, who is in the middle of a prompt, who
    #    waits and has credit; by deadline, then by age.
    decoding = [state for state in alive if state.state is State.DECODING]
    prefilling = [state for state in alive if state.state is State.PREFILLING]
    waiting = [s for s in alive if s.state not in RUNNING and floor.credit[s.request.tenant] > 0]
    for group in (decoding, prefilling, waiting):
        group.sort(key=_urgency)
    kept = limits.min_prefill if prefilling or waiting else 0

    # 4  Positions for one after the other, within tokens, places, pages, workspace and time.  Who does not fit is
    #    passed over: no waiting for the head of the queue.
    plan: list[Work] = []
    for state in (*decoding, *prefilling, *waiting):
        phase_left = limits.tokens - sum(work.new for work in plan)
        phase_left -= kept if state in decoding else max(0, limits.min_decode - len(decoding))
        new = min(state.known - state.computed, phase_left)
        while new > 0 and not _fits([*plan, Work(state, new, state.computed)], floor, limits):
            new = 0 if state in decoding else new // 2
        if new > 0:
            plan.append(Work(state, new, state.computed))

    # 5  Pages for the whole plan under the version that it was made for, or for none of it; then choose again.
    version = floor.version
    while plan and not floor.reserve(_pages(plan, limits), limits, version):
        plan, version = plan[:-1], floor.version

    # 6  Run; commit positions and tokens; charge what was really done; keep who is not finished.
    if plan:
        finished = execute(tuple(plan))
        for work in plan:
            state, token = work.request, work.yields
            state.computed += work.new
            state.generated += token
            if not work.request.running:
                state.move(State.PREFILLING)
            if token and state.state is State.PREFILLING:
                state.move(State.DECODING)
            floor.credit[state.request.tenant] -= floor.tariff.work(work.new, work.past, int(token))
            if state.id in finished:
                floor.end(state, State.FINISHED)

    # 7  Write down what happened; and if nothing could be run, say why and do something about it: never spin.
    if plan:
        return _note(floor, "ran " + ", ".join(f"{work.request.id}+{work.new}" for work in plan))
    inside = [state for state in alive if state.running]
    if len(inside) > 1:
        victim = max(inside, key=lambda s: (s.request.arrival, s.id))
        victim.recomputed += victim.computed
        victim.preemptions, victim.computed = victim.preemptions + 1, 0
        victim.move(State.PREEMPTED)
        floor.release(victim)
        return _note(floor, f"preempted {victim.id}")
    stuck = [s for s in inside if s.state is not State.PAUSED] or ([] if inside else [min(waiting, key=_urgency)])
    if stuck:
        never = State.REFUSED if stuck[0].state is State.WAITING else State.FAILED
        floor.end(stuck[0], never, "does not fit into the limits of a round, even alone")
        return _note(floor, f"{never.value} {stuck[0].id}")
    return _note(floor, "waits for a client to read")


def _note(floor: Floor, what: str) -> str:
    floor.log.append(what)
    return what


def _urgency(state: RequestState) -> tuple[float, float, int]:
    """Deadline, then age, then number."""
    deadline = state.request.deadline
    return (math.inf if deadline is None else deadline, state.request.arrival, state.id)


def _pages(plan: list[Work], limits: Limits) -> dict[int, int]:
    """Return the pages that each request of a plan holds when it is done."""
    return {work.request.id: -(-(work.past + work.new) // limits.page) for work in plan}


def _fits(plan: list[Work], floor: Floor, limits: Limits) -> bool:
    """Whether a plan is within places, pages and time (tokens were counted when it was made)."""
    held = floor.held | _pages(plan, limits)
    return (
        len(held) <= limits.sequences
        and sum(held.values()) <= limits.pages - limits.workspace
        and limits.estimate([(work.new, work.past) for work in plan]) <= limits.seconds
    )
