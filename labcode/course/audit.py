"""A loop that believes a scheduler nothing: its own books of who has what, compared at every step.

It drives any `Scheduler` as :class:`labcode.simulation.loop.Loop` does.  What must hold, whatever the policy: a plan
asks for work that exists, of requests that hold a place; nobody's progress changes but by a plan; the blocks of those
who run are there and belong to them; who has ended stays so, and everybody does end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from labcode.results.record import Record
from labcode.scheduler.kv_cache import BlockPool
from labcode.scheduler.request import Plan, Request
from labcode.scheduler.scheduler import Scheduler
from labcode.scheduler.states import RUNNING, TERMINAL, State
from labcode.simulation.clock import FOREVER, PaperClock
from labcode.simulation.loop import Loop, Step

REMEMBERED = 8


class Broken(Exception):
    """An invariant that does not hold, in words, with the last steps before it."""


class AuditedLoop(Loop):
    """A loop with books of its own.

    Parameters
    ----------
    places : int
        Requests that may run at once, whatever the scheduler's budgets say.
    stop_at : float
        No step begins at or after this time (s); nobody need have ended by then.

    Attributes
    ----------
    decisions : list of (float, str)
        When each plan began (s), and what it was.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        requests: Sequence[Request],
        clock: PaperClock,
        capacity: int,
        places: int,
        stop_at: float = FOREVER,
    ) -> None:
        own = type(scheduler).schedule is not Scheduler.schedule
        super().__init__(scheduler, requests, clock, capacity, step_by_step=own, stop_at=stop_at)
        self.capacity, self.places = capacity, places
        self.books: dict[int, tuple[int, int]] = {}  # request -> (positions computed, tokens out) by our account
        self.ended: dict[int, State] = {}
        self.lately: deque[str] = deque(maxlen=REMEMBERED)
        self.decisions: list[tuple[float, str]] = []

    def begin(self, plan: Plan) -> Step:
        """Audit a plan, and let it be carried out."""
        decided = (
            f"prefill {[(w.request.id, w.new) for w in plan.prefill]}, decode "
            f"{[s.id for s in plan.decode]}, admitted {[s.id for s in plan.admitted]}, preempted "
            f"{[s.id for s in plan.preempted]}"
        )
        self.lately.append(f"{self.now:.4f} s: {decided}")
        self.decisions.append((self.now, decided))
        for state in (*plan.preempted, *plan.admitted):
            self.books[state.id] = (0, self.books.get(state.id, (0, 0))[1])
        self._audit_plan(plan)
        self._audit_states()
        return super().begin(plan)

    def settle(self, step: Step) -> None:
        """Account for a step in both books and compare them."""
        for state in step.plan.decode:
            computed, out = self.books[state.id]
            self.books[state.id] = (computed + step.results.steps, out + step.results.steps)
        for work in step.plan.prefill:
            computed, out = self.books[work.request.id]
            self.books[work.request.id] = (computed + work.new, out + int(work.yields))
        super().settle(step)
        self._audit_states()

    def close(self) -> Record:
        """Nobody may be left without an end, unless the run was cut off."""
        if self.stop_at < FOREVER:
            return super().close()
        for number, state in self.scheduler.requests.items():
            self._hold(state.state in TERMINAL, f"request {number} is left {state.state.value}: it was never ended")
        missing = len(self.requests) - len(self.scheduler.requests)
        self._hold(missing == 0, f"the scheduler has forgotten {missing} requests")
        return super().close()

    def _hold(self, holds: bool, otherwise: str) -> None:
        if not holds:
            raise Broken(f"{otherwise}.  The last steps:\n  " + "\n  ".join(self.lately or ["none yet"]))

    def _audit_plan(self, plan: Plan) -> None:
        """A plan is work that exists, of requests that hold a place, once each."""
        numbers = [state.id for state in plan.decode] + [work.request.id for work in plan.prefill]
        self._hold(len(numbers) == len(set(numbers)), f"the plan has a request twice: {sorted(numbers)}")
        running = self.scheduler.running
        for number in numbers:
            self._hold(number in running, f"the plan has work for request {number}, which holds no place")
        for state in plan.decode:
            behind = state.known - state.computed
            self._hold(behind == 1, f"request {state.id} is to decode with {behind} positions missing, not 1")
        for work in plan.prefill:
            state, missing = work.request, work.request.known - work.request.computed
            self._hold(
                1 <= work.new <= missing and work.past == state.computed,
                f"request {state.id} is to compute {work.new} positions behind {work.past}; it has {state.computed} "
                f"and misses {missing}",
            )
        written = sum(state.computed for state in running.values()) + plan.new_tokens
        self._hold(
            written <= self.capacity,
            f"after this step {written} positions would be written, the pool has {self.capacity}",
        )

    def _audit_states(self) -> None:
        """Everybody's progress is what the plans made of it; places, blocks and ends are in order."""
        scheduler = self.scheduler
        self._hold(
            len(scheduler.running) <= self.places,
            f"{len(scheduler.running)} requests run, there are {self.places} places",
        )
        for number, state in scheduler.running.items():
            self._hold(state.state in RUNNING, f"request {number} is {state.state.value} and still holds a place")
            computed, out = self.books.get(number, (0, 0))
            self._hold(
                (state.computed, state.generated) == (computed, out),
                f"request {number} says {state.computed} positions and {state.generated} tokens; the plans that were "
                f"carried out gave it {computed} and {out}",
            )
        for number, was in self.ended.items():
            now = scheduler.requests[number].state
            self._hold(now is was, f"request {number} had ended as {was.value} and is {now.value} now")
        self._audit_blocks(getattr(scheduler.memory, "pool", None))

    def _audit_blocks(self, pool: object) -> None:
        """Where there is a pool of blocks: everybody who runs holds enough of them, and nobody else holds any."""
        if not isinstance(pool, BlockPool):
            return
        running = self.scheduler.running
        held = sum(pool.held.values())
        self._hold(
            held + pool.free_blocks == pool.blocks,
            f"{held} blocks are held and {pool.free_blocks} free, the pool has {pool.blocks}",
        )
        for number in pool.held.keys() - running.keys():
            self._hold(False, f"request {number} holds {pool.held[number]} blocks and no place")
        for number, state in running.items():
            need, has = pool.blocks_for(state.computed), pool.held.get(number, 0)
            self._hold(has >= need, f"request {number} has {state.computed} positions written and {has} blocks")

    def note_ends(self) -> None:
        """Remember who has ended, and how."""
        self.ended.update((state.id, state.state) for state in self.scheduler.ended)
        super().note_ends()


def foreseen(first: Sequence[tuple[float, str]], other: Sequence[tuple[float, str]], until: float) -> str:
    """Compare the decisions of two runs that differ only in what comes after `until` (s); return what is wrong, or "".

    Both worlds look alike up to then: the same requests have come, the same tokens are out.  A scheduler without
    knowledge of the future decides the same in both, so the first difference is the work of one that has it (or of one
    that draws lots without a seed).
    """
    ours, theirs = ([step for step in run if step[0] < until] for run in (first, other))
    for (now, decided), (then, instead) in zip(ours, theirs, strict=False):
        if (now, decided) != (then, instead):
            return (
                f"it decides by what has not happened yet.  Up to {until:.2f} s nothing was different in a second run, "
                f"in which answers that end later have other lengths, and yet at {now:.4f} s it chose {decided}; in "
                f"the other run, at {then:.4f} s, {instead}"
            )
    return ""
