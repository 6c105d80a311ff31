"""The scheduler: who runs next.  It has no clock, sees no future, and does not know whether it is simulated.

Whoever drives it says what time it is, carries out the plans and reports who is finished: a simulator, the mini
model, an HTTP server.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from labcode.checks import one_of
from labcode.scheduler.admission import Check, fits_budget, fits_pool
from labcode.scheduler.budgets import Budgets, Round
from labcode.scheduler.kv_cache import Memory
from labcode.scheduler.managers import as_memory
from labcode.scheduler.preemption import Preemption
from labcode.scheduler.request import Plan, Refusal, Request, RequestState, Results, Work
from labcode.scheduler.states import QUEUED, RUNNING, TERMINAL, State
from labcode.scheduler.waiting import WaitingQueue, as_queue, first_come

#: Two times closer than this (seconds) are the same instant.
SAME_INSTANT = 1e-9

EXPIRY = ("never", "waiting", "always")

WENT_AWAY = "its client went away"


def deadline_passed(deadline: float) -> str:
    """Return the reason of a time-out; `deadline` in seconds."""
    return f"its deadline, {deadline:.6g} s, has passed"


class Scheduler:
    """Iteration-level scheduling with exchangeable order, memory, budgets, admission and preemption.

    Parameters
    ----------
    memory : Memory
        Or a reader's object with `try_admit`, `grow` and `free`.
    queue : WaitingQueue or callable
        The order of the waiting queue; a function of a request is a key, smaller first.
    budgets : Budgets
        Places, tokens, time, and the order in which prefill and decode get them.
    preemption : Preemption
        Victim and action when the memory runs out.
    checks : sequence of callable
        Further admission checks, asked in order; see :mod:`labcode.scheduler.admission`.
    expire : {"never", "waiting", "always"}
        Whether a deadline that has passed ends nobody's request, that of who still waits, or everybody's.

    Attributes
    ----------
    requests : dict of int to RequestState
        Everybody who was added and not forgotten.
    running : dict of int to RequestState
        Who holds a place and blocks, in the order in which they came in.
    waiting : int
        How many stand in the queue.
    ended : list of RequestState
        Who reached a terminal state since the list was last cleared, in order.
    version : int
        Changes whenever somebody takes or leaves a place, or begins or stops to decode.
    """

    def __init__(
        self,
        memory: Memory,
        queue: WaitingQueue | object = first_come,
        budgets: Budgets | None = None,
        preemption: Preemption | None = None,
        checks: Sequence[Check] = (),
        expire: str = "never",
    ) -> None:
        self.memory, self.queue = as_memory(memory), as_queue(queue)
        self.budgets, self.preemption = budgets or Budgets(), preemption or Preemption()
        self.checks: tuple[Check, ...] = (fits_pool, fits_budget, *checks)
        self.expire = str(one_of("expire", expire, EXPIRY))
        self.requests: dict[int, RequestState] = {}
        self.running: dict[int, RequestState] = {}
        self.ended: list[RequestState] = []
        self.waiting = 0
        self.version = 0
        self._hears = "served" in vars(self.queue) or type(self.queue).served is not WaitingQueue.served
        self._deadlines: list[tuple[float, int]] = []
        self._turn: dict[int, int] = {}  # round in which a request last decoded, where not all could
        self._rounds = 0

    # What comes from outside ----------------------------------------------------------------------------------

    def add(self, request: Request, now: float) -> Refusal | None:
        """Let a request join the queue; return None, or why it was refused.

        Raises
        ------
        ValueError
            If the id is known already.
        """
        if request.id in self.requests:
            raise ValueError(f"id = {request.id}: this scheduler knows a request of that id already")
        self.reap(now)
        state = self.requests[request.id] = RequestState(request)
        for check in self.checks:
            refusal = check(request, self, now)
            if refusal is not None:
                self._leave(state, State.REFUSED, refusal.reason)
                return refusal
        if request.deadline is not None and self.expire != "never":
            heapq.heappush(self._deadlines, (request.deadline, request.id))
        self._enqueue(state, now)
        return None

    def cancel(self, number: int, now: float) -> bool:
        """End a request because its client went away; return whether that changed anything (False if it had ended)."""
        self.reap(now)
        state = self.requests.get(number)
        if state is None or state.state in TERMINAL:
            return False
        self._abandon(state, State.CANCELLED, WENT_AWAY)
        return True

    def time_out(self, number: int, now: float, reason: str) -> bool:
        """End a request that its driver no longer waits for, whose client does not read, say; return as `cancel`."""
        self.reap(now)
        state = self.requests.get(number)
        if state is None or state.state in TERMINAL:
            return False
        self._abandon(state, State.TIMED_OUT, reason)
        return True

    def pause(self, number: int) -> None:
        """Give a decoding request no more tokens until `resume`: its client does not read."""
        self.requests[number].move(State.PAUSED)
        self.version += 1

    def resume(self, number: int) -> None:
        """Let a paused request decode again."""
        self.requests[number].move(State.DECODING)
        self.version += 1

    def forget(self, number: int) -> None:
        """Drop the record of a request that has ended (a server's memory is finite).

        Raises
        ------
        ValueError
            If it has not ended.
        """
        if self.requests[number].state not in TERMINAL:
            raise ValueError(
                f"request {number} is {self.requests[number].state.value}: only who has ended is forgotten"
            )
        del self.requests[number]

    def wake_at(self) -> float:
        """Return when to ask again if nothing happens (s): the next deadline that ends somebody, or infinity."""
        while self._deadlines and not self._expires(self.requests.get(self._deadlines[0][1])):
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else float("inf")

    # The round ------------------------------------------------------------------------------------------------

    def schedule(self, now: float) -> Plan:
        """Decide who computes what in the next step.

        Reap who has expired; hand out the budget, in the order that the prefill mode says, to those who decode, to
        prompts that are begun, to those who wait.  The plan is empty only if nobody can do anything now.
        """
        self.reap(now)
        self._rounds += 1
        budgets, plan = self.budgets, Round(self.budgets, self.budgets.max_bs - len(self.running))
        if budgets.prefill == "prefill_first":
            self._continue_prefills(plan, budgets.min_decode)
            self._admit(plan, now, budgets.min_decode)
            if not plan.prefill or budgets.min_decode:
                self._decode(plan, now)
        else:
            kept = budgets.min_prefill if self._prefill_waits() else 0
            self._decode(plan, now, kept)
            self._continue_prefills(plan)
            if not plan.preempted:
                self._admit(plan, now)
            if kept:  # what prefill had no use for (no place is free, no prompt is left) goes to those who decode
                self._decode(plan, now)
        return plan.plan()

    def update(self, plan: Plan, results: Results, now: float) -> None:
        """Account for a plan that was carried out: positions computed, tokens out, who is finished leaves.

        A request that was cancelled or preempted meanwhile gets nothing: its step came too late.
        """
        steps = results.steps
        for state in plan.decode:
            if state.state in RUNNING:
                if self._hears:
                    self.queue.served(state.request, steps, steps, state.computed)
                state.computed += steps
                state.generated += steps
                if steps > 1:
                    self.memory.grow(state.request, state.computed)
        for work in plan.prefill:
            state = work.request
            if state.state not in RUNNING:
                continue
            token = work.yields
            if self._hears:
                self.queue.served(state.request, work.new, int(token), work.past)
            state.computed += work.new
            if work.past < state.request.prompt <= state.computed:
                self.memory.publish(state.request)
            if token:
                state.generated += 1
                if state.state is State.PREFILLING:
                    state.move(State.DECODING)
                    self.version += 1
        for number, reason in results.failed.items():
            self._end(number, State.FAILED, reason)
        for number in results.finished:
            self._end(number, State.FINISHED)

    def stands_for(self, plan: Plan) -> int:
        """Return for how many steps in a row `plan` would be decided again if nobody came, left or finished.

        More than one only for a plan in which everybody decodes: each step then asks for one position more of each.
        """
        if plan.prefill or plan.preempted or plan.swapped_in or plan.swapped_out:
            return 1
        if len(plan.decode) < len(self.running):
            return 1
        if self._hears and self.waiting and len(self.running) < self.budgets.max_bs:
            return 1  # each step's account may put somebody else at the head, who fits
        # The first step's position is taken already, so every holder stands one further.
        return 1 + self.memory.horizon([(state.request, state.computed + 1) for state in plan.decode])

    @property
    def open(self) -> bool:
        """Whether somebody who came now could change a plan: there is a place, or the queue keeps accounts."""
        return self._hears or len(self.running) < self.budgets.max_bs

    # How it is done -------------------------------------------------------------------------------------------

    def _decode(self, plan: Round, now: float, kept: int = 0) -> None:
        """Give a position to each who decodes, first come first; make room for it, if need be by preempting."""
        served = {state.id for state in plan.decode}
        ready = [s for s in self.running.values() if s.state is State.DECODING and s.id not in served]
        room = plan.tokens_left(kept)
        if room < len(ready):  # not all can: those who have waited longest for their turn go first
            ready.sort(key=lambda state: (self._turn.get(state.id, 0), state.request.arrival, state.id))
            ready = ready[: max(0, room)]
            self._turn.update((state.id, self._rounds) for state in ready)
        ready.sort(key=lambda state: (state.request.arrival, state.id))
        for state in ready:
            if state.state is State.DECODING and self._make_room(state, state.computed + 1, plan, now):
                plan.decode.append(state)

    def _continue_prefills(self, plan: Round, kept: int = 0) -> None:
        """Go on with prompts that are begun, first come first."""
        for state in list(self.running.values()):
            if state.state is State.PREFILLING:
                new = plan.share(state, kept)
                if new:
                    plan.add_prefill(state, new)

    def _admit(self, plan: Round, now: float, kept: int = 0) -> None:
        """Let requests in from the head of the queue while places, budget and memory last; never past the head."""
        while plan.places > 0 and (state := self._head(now)) is not None:
            begun = state.computed  # only a cache that comes back from the host holds anything
            if state.state is not State.SWAPPED_OUT:
                state.computed = self.memory.cached(state.request)
            decodes = state.known - state.computed == 1 and state.generated > 0
            new = 1 if decodes and plan.tokens_left(kept) > 0 else plan.share(state, kept)
            if not new or not self.memory.try_admit(state.request, state.known):
                if new and not self.running and not plan.admitted:
                    # Nobody is left to wait for: what does not fit into an empty pool never will.
                    self.queue.pop(now)
                    self.waiting -= 1
                    why = f"does not fit into the empty pool (prompt {state.request.prompt} tokens)"
                    self._leave(state, State.REFUSED if state.state is State.WAITING else State.FAILED, why)
                    continue
                state.computed = begun
                return
            self.queue.pop(now)
            self.waiting -= 1
            plan.places -= 1
            plan.admitted.append(state)
            self.running[state.id] = state
            self.version += 1
            if state.state is State.SWAPPED_OUT:
                plan.swapped_in.append(Work(state, 0, state.computed))
            state.move(State.DECODING if decodes and state.state is State.SWAPPED_OUT else State.PREFILLING)
            if state.state is State.DECODING:
                plan.decode.append(state)
            else:
                plan.add_prefill(state, new)

    def _make_room(self, state: RequestState, positions: int, plan: Round, now: float) -> bool:
        """See that `state` can hold `positions`; preempt until it can.  Return whether it keeps its place and moves."""
        while not self.memory.grow(state.request, positions):
            holders = list(self.running.values())
            victim = self.preemption.victim(holders)
            action = self.preemption.choose(victim)
            if action == "wait":
                return False
            if victim is state and len(holders) == 1:
                self._leave(state, State.FAILED, f"the memory refuses {positions} positions to it alone")
                return False
            self._preempt(victim, action, plan, now)
            if victim is state:
                return False
        return True

    def _preempt(self, state: RequestState, action: str, plan: Round, now: float) -> None:
        """Take a request's place and blocks; it goes back to the queue."""
        plan.drop(state)
        plan.places += 1
        state.preemptions += 1
        if action == "swap" and state.computed:
            plan.swapped_out.append(Work(state, 0, state.computed))
            self._release(state, State.SWAPPED_OUT)
        else:
            state.recomputed += state.computed
            state.computed = 0
            self._release(state, State.PREEMPTED)
        self._enqueue(state, now)

    def _enqueue(self, state: RequestState, now: float) -> None:
        self.queue.push(state.request, now)
        self.waiting += 1

    def _head(self, now: float) -> RequestState | None:
        """Return who comes next; entries of those who have left meanwhile are dropped on the way."""
        while len(self.queue):
            request = self.queue.peek(now)
            state = self.requests.get(request.id)
            if state is not None and state.request is request and state.state in QUEUED:
                return state
            self.queue.pop(now)
        return None

    def _prefill_waits(self) -> bool:
        return self.waiting > 0 or any(state.state is State.PREFILLING for state in self.running.values())

    def reap(self, now: float) -> None:
        """End those whose deadline has passed."""
        while self._deadlines and self._deadlines[0][0] <= now + SAME_INSTANT:
            deadline, number = heapq.heappop(self._deadlines)
            state = self.requests.get(number)
            if state is not None and self._expires(state):
                self._abandon(state, State.TIMED_OUT, deadline_passed(deadline))

    def _expires(self, state: RequestState | None) -> bool:
        if state is None or state.state in TERMINAL:
            return False
        return self.expire == "always" or state.state is State.WAITING

    def _end(self, number: int, to: State, reason: str = "") -> None:
        """End a request on the executor's word; a word that comes after its end is not heard."""
        state = self.requests.get(number)
        if state is not None and state.state not in TERMINAL:
            self._abandon(state, to, reason)

    def _abandon(self, state: RequestState, to: State, reason: str) -> None:
        """End a request wherever it stands; its entry in the queue, if it has one, is dropped when it comes up."""
        if state.state in QUEUED:
            self.waiting -= 1
        self._leave(state, to, reason)

    def _leave(self, state: RequestState, to: State, reason: str = "") -> None:
        """Bring a request to its terminal state."""
        state.reason = reason
        self._release(state, to)
        self._turn.pop(state.id, None)
        self.queue.ended(state.request)
        self.ended.append(state)

    def _release(self, state: RequestState, to: State) -> None:
        """Change the state; give back place and blocks if it held them: the one place where that happens."""
        held = state.state in RUNNING
        state.move(to)
        if held:
            self.version += 1
            del self.running[state.id]
            self.memory.free(state.request)
