"""The loop that owns the time: it lets requests arrive, drives the scheduler against an executor, and writes down.

A plan stands until something happens: an arrival that could take a place, a deadline, a cancellation, a full block, a
last token.  Until then many steps are taken at once (an exact leap); with `step_by_step` one at a time.  Both leave
the same record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labcode.results.outcomes import CANCELLED, FAILED, REFUSED, TIMED_OUT
from labcode.results.record import Record, Recorder
from labcode.scheduler.request import Plan, Request, Results
from labcode.scheduler.scheduler import SAME_INSTANT, Scheduler
from labcode.scheduler.states import State
from labcode.simulation.clock import FOREVER, Executor, PaperClock, step_shape

CODES = {
    State.REFUSED: REFUSED,
    State.CANCELLED: CANCELLED,
    State.TIMED_OUT: TIMED_OUT,
    State.FAILED: FAILED,
}

STANDSTILL = "standstill: everybody who runs waits for blocks that another holds"


@dataclass(frozen=True)
class Step:
    """A plan that is being carried out, once or many times, and what the record needs of the moment it began.

    Attributes
    ----------
    plan : Plan
    results : Results
        What will have come of it.
    start, end : float
        Seconds.
    limit : int
        How many times in a row it could have been carried out.
    members : object
        Who takes part, as `Recorder.segment` asks for it.
    decode_kv, waiting : int
        As in a segment.
    """

    plan: Plan
    results: Results
    start: float
    end: float
    limit: int
    members: object
    decode_kv: int
    waiting: int


class Loop:
    """One run of a scheduler.

    Parameters
    ----------
    scheduler : Scheduler
        Fresh.
    requests : sequence of Request
        By arrival; the id is the place in the sequence.
    executor : Executor
    capacity : int
        Positions in the pool, for the record (tokens).
    cancellations : sequence of (float, int)
        When a client goes away (s), and whose; in order.
    step_by_step : bool
        No leaps.
    stop_at : float
        No step begins at or after this time (s).
    """

    def __init__(
        self,
        scheduler: Scheduler,
        requests: Sequence[Request],
        executor: Executor,
        capacity: int,
        cancellations: Sequence[tuple[float, int]] = (),
        step_by_step: bool = False,
        stop_at: float = FOREVER,
    ) -> None:
        self.scheduler, self.requests, self.executor = scheduler, requests, executor
        self.cancellations, self.step_by_step, self.stop_at = cancellations, step_by_step, stop_at
        self.merges = isinstance(executor, PaperClock)  # a real clock's steps are all different
        self.rec = Recorder(len(requests), capacity)
        self.now = 0.0
        self.arrived = self.cancelled = 0
        self.decode_steps = 0
        self.spans: dict[int, tuple[float, int]] = {}  # request -> (time of the first token, next decode step)

    def run(self) -> Record:
        """Serve every request to its end, or until `stop_at`."""
        scheduler = self.scheduler
        while self.now < self.stop_at:
            self.take_events()
            plan = scheduler.schedule(self.now)
            for state in plan.preempted:
                self.close_span(state.id)
            if plan:
                self.settle(self.begin(plan))
            elif not self.wait():
                break
        # A leap that nobody could join may have passed over some who must be refused, or have expired.
        self.take_events()
        return self.close()

    def close(self) -> Record:
        """Write down what is left to say and return the record."""
        scheduler = self.scheduler
        scheduler.reap(self.now)
        self.note_ends()
        for number in list(self.spans):
            self.close_span(number)
        for number, state in scheduler.requests.items():
            self.rec.preemptions[number], self.rec.recomputed[number] = state.preemptions, state.recomputed
        return self.rec.record()

    def take_events(self) -> None:
        """Let arrivals and cancellations up to now happen, each at its own time and in their order."""
        horizon, scheduler = self.now + SAME_INSTANT, self.scheduler
        while True:
            arrival, cancellation = self.next_arrival(), self.next_cancellation()
            if min(arrival, cancellation) > horizon:
                return
            if arrival <= cancellation:
                scheduler.add(self.requests[self.arrived], arrival)
                self.arrived += 1
            else:
                scheduler.cancel(self.cancellations[self.cancelled][1], cancellation)
                self.cancelled += 1

    def next_arrival(self) -> float:
        """Return when the next request comes, in seconds."""
        return self.requests[self.arrived].arrival if self.arrived < len(self.requests) else FOREVER

    def next_cancellation(self) -> float:
        """Return when the next client goes away, in seconds."""
        return self.cancellations[self.cancelled][0] if self.cancelled < len(self.cancellations) else FOREVER

    def next_event(self) -> float:
        """Return when the plan must be looked at again, whatever happens inside it."""
        arrival = self.next_arrival() if self.scheduler.open else FOREVER
        return min(arrival, self.next_cancellation(), self.scheduler.wake_at(), self.stop_at)

    def wait(self) -> bool:
        """Nobody can do anything: go to the next event.  Return False if there is none, which ends the run."""
        self.note_ends()
        until = min(self.next_arrival(), self.next_cancellation(), self.scheduler.wake_at())
        if until < FOREVER:
            self.now = max(self.now, min(until, self.stop_at))
            return True
        for number in list(self.scheduler.running) + [n for n, s in self.scheduler.requests.items() if not s.running]:
            self.scheduler.update(Plan(), Results(failed={number: STANDSTILL}), self.now)
        self.note_ends()
        return False

    def begin(self, plan: Plan) -> Step:
        """Let the executor carry `plan` out, once or many times."""
        scheduler, start = self.scheduler, self.now
        for state in plan.admitted:
            self.rec.admit(state.id, start)
        limit = 1 if self.step_by_step else scheduler.stands_for(plan)
        alone = not plan.prefill and len(plan.decode) == len(scheduler.running)
        members = scheduler.version if alone and self.merges else None
        decode_kv, waiting = step_shape(plan).decode_kv, scheduler.waiting
        results, end = self.executor.execute(plan, start, limit, self.next_event())
        return Step(plan, results, start, end, limit, members, decode_kv, waiting)

    def settle(self, step: Step) -> None:
        """Account for a step, or a leap of several, that has ended."""
        scheduler, plan, results = self.scheduler, step.plan, step.results
        self.now = step.end
        self.count_tokens(plan, results.steps)
        prefill_tokens = sum(work.new for work in plan.prefill)
        # What is written and reserved at the end of the step, before anybody who finishes gives it back.
        scheduler.update(plan, Results(failed={}, steps=results.steps), self.now)
        used = sum(state.computed for state in scheduler.running.values()) - scheduler.memory.saved
        reserved = used if scheduler.memory.reserved is None else scheduler.memory.reserved
        sizes = (len(plan.prefill), prefill_tokens, len(plan.decode), 0, step.decode_kv)
        self.rec.segment(
            (step.start, self.now, results.steps, *sizes, used, reserved, step.waiting),
            step.members,
        )
        scheduler.update(Plan(), Results(results.finished, results.failed), self.now)
        self.note_ends()

    def count_tokens(self, plan: Plan, steps: int) -> None:
        """Note the times at which tokens come out: spans over numbered decode steps."""
        if plan.decode:
            left_out = self.spans.keys() - {state.id for state in plan.decode}
            for number in left_out:
                self.close_span(number)
            first = self.decode_steps
            self.decode_steps += steps
            for state in plan.decode:
                if state.id not in self.spans:  # it was left out of a step, or comes back from the host
                    self.rec.token(state.id, self.now)
                    self.spans[state.id] = (self.now, first + 1)
        for work in plan.prefill:
            if work.yields:
                self.rec.token(work.request.id, self.now)
                self.spans[work.request.id] = (self.now, self.decode_steps)

    def close_span(self, number: int) -> None:
        """Note which decode steps gave a request its tokens since the last prefill or pause."""
        if number in self.spans:
            time, first = self.spans.pop(number)
            self.rec.spans.append((number, time, first, self.decode_steps - first))

    def note_ends(self) -> None:
        """Write down who has reached a terminal state."""
        for state in self.scheduler.ended:
            self.close_span(state.id)
            if state.state is State.FINISHED:
                self.rec.finish(state.id, self.now)
            else:
                self.rec.end(state.id, CODES[state.state], state.reason)
        self.scheduler.ended.clear()
