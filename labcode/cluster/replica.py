"""One engine of several: the readable loop, driven from outside to a point in time and asked what it has to do.

A replica is exactly as far as its clock says.  A step or a leap that reaches beyond the present is under way: what
comes of it is not known yet, and whoever asks is told what the scheduler knew when it began.
"""

from __future__ import annotations

import bisect
from dataclasses import replace

from labcode.results.record import Record
from labcode.scheduler.request import Request, RequestState
from labcode.scheduler.scheduler import SAME_INSTANT, Scheduler
from labcode.simulation.clock import PaperClock
from labcode.simulation.loop import Loop, Step


class Replica(Loop):
    """A loop that is given its requests one by one, at their times.

    Parameters
    ----------
    scheduler : Scheduler
        Fresh.
    clock : PaperClock
        One of its own: `submit` adds to the true lengths that it goes by.
    capacity : int
        Positions in the pool, for the record (tokens).
    members : list of int
        Empty; filled with the fleet's number of each request, by this replica's own number.
    """

    def __init__(self, scheduler: Scheduler, clock: PaperClock, capacity: int, members: list[int]) -> None:
        self.going_away: list[tuple[float, int]] = []
        super().__init__(scheduler, [], clock, capacity, self.going_away)
        self.output: list[int] = []
        clock.output = self.output
        self.members = members
        self.present: dict[int, RequestState] = {}
        self.under_way: Step | None = None

    def submit(self, request: Request, output: int, cancel_at: float = float("nan")) -> None:
        """Let `request` arrive now: the replica has been advanced to ``request.arrival``.

        Parameters
        ----------
        request : Request
            With the fleet's number.
        output : int
            True length of the answer, for the clock alone (tokens).
        cancel_at : float
            When its client goes away, in seconds; NaN for never.
        """
        number, time = len(self.members), request.arrival
        if self.scheduler.open:
            self.cut(time)
        if number >= len(self.rec.outcome):
            self.rec.resize(2 * number + 8)
        self.members.append(request.id)
        self.output.append(output)
        if cancel_at >= time:
            bisect.insort(self.going_away, (cancel_at, number))
        refusal = self.scheduler.add(replace(request, id=number), time)
        if refusal is None:
            self.present[number] = self.scheduler.requests[number]

    def advance(self, time: float) -> None:
        """Begin every step that begins before `time` (s), and account for all that have ended by then."""
        while True:
            if self.under_way is not None:
                if self.under_way.end > time:
                    return
                self.settle(self.under_way)
                self.under_way = None
            if self.now >= time - SAME_INSTANT:
                return
            self.take_events()
            plan = self.scheduler.schedule(self.now)
            for state in plan.preempted:
                self.close_span(state.id)
            if plan:
                self.under_way = self.begin(plan)
                continue
            self.note_ends()
            self.now = max(self.now, min(time, self.next_cancellation(), self.scheduler.wake_at()))

    def cut(self, time: float) -> None:
        """Let a leap that is under way end with the step that is under way at `time` (s)."""
        step = self.under_way
        if step is not None and step.results.steps > 1:
            results, end = self.executor.execute(step.plan, step.start, step.limit, min(self.next_event(), time))
            self.under_way = replace(step, results=results, end=end)

    def finish(self) -> Record:
        """Serve everybody to the end; return the record, its rows in the order of arrival here."""
        if self.under_way is not None:
            self.settle(self.under_way)
            self.under_way = None
        self.rec.resize(len(self.members))
        return self.run()

    def note_ends(self) -> None:
        """Write down who has ended; they are present no more."""
        for state in self.scheduler.ended:
            self.present.pop(state.id, None)
        super().note_ends()

    # What a router may ask, all of it as of the time to which the replica has been advanced ---------------------

    def positions(self, time: float) -> int:
        """Return the tokens of everybody who waits or runs at `time` (s): prompts and answers so far."""
        self.cut(time)
        coming = 0 if self.under_way is None else (self.under_way.results.steps - 1) * len(self.under_way.plan.decode)
        return sum(state.known for state in self.present.values()) + coming
