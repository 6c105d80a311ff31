"""The engine: iteration-level scheduling, one plan after the other.

Each round the scheduler looks at who waits and who runs and writes a `Plan`: who gets how many new positions.
An executor carries the plan out and says how long it took.  Then the round is accounted for, and whoever has
its last token leaves at once.  The scheduler does not know whether it is simulated (`PaperClock`) or really
run (`labcode.model.executor`).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from labcode.cost import CostModel, SeqWork, StepShape
from labcode.cost.leap import SAME_INSTANT
from labcode.scheduler.memory import UNLIMITED, Memory
from labcode.scheduler.policies import Discipline
from labcode.scheduler.preemption import latest_arrival
from labcode.simulation.record import Record, Recorder
from labcode.workload import Request, Workload

FOREVER = float("inf")


@dataclass(slots=True)
class Sequence:
    """A request that holds a seat.

    `prefilled` of `target` prompt positions are in the cache (after a preemption the target includes the tokens
    already generated).  Once it decodes, it joined after decode step `joined` and leaves after step `leaves`.
    """

    request: Request
    target: int
    generated: int = 0
    prefilled: int = 0
    joined: int = -1
    leaves: int = -1
    started: float = 0.0

    def positions(self, decode_steps: int) -> int:
        """Return the positions in the cache when `decode_steps` decode steps have been made, in tokens."""
        return self.prefilled if self.joined < 0 else self.target + decode_steps - self.joined

    def tokens(self, decode_steps: int) -> int:
        """Return the tokens generated so far."""
        return self.generated if self.joined < 0 else self.generated + decode_steps - self.joined


@dataclass(frozen=True, slots=True)
class Plan:
    """One round's decision.

    Attributes
    ----------
    prefill : tuple of (Sequence, SeqWork)
        Who processes how many prompt positions on top of how many cached ones.
    decode : mapping of id to Sequence
        Who gets one more token.
    shape : StepShape
        The same as the cost model sees it.
    steps : int
        For how many steps the plan would stand if nobody arrived.
    """

    prefill: tuple[tuple[Sequence, SeqWork], ...]
    decode: Mapping[int, Sequence]
    shape: StepShape
    steps: int


class Executor(Protocol):
    """Carries plans out."""

    def execute(self, plan: Plan, start: float, until: float) -> tuple[int, float]:
        """Run up to ``plan.steps`` steps from `start`, none that begins at or after `until`; return (steps, end)."""


class PaperClock:
    """An executor that computes nothing but the time."""

    def __init__(self, cost: CostModel) -> None:
        self.cost = cost

    def execute(self, plan: Plan, start: float, until: float) -> tuple[int, float]:
        """Return how many steps were made and when the last one ended, in seconds."""
        if plan.steps == 1:
            return 1, start + self.cost.step_time(plan.shape)
        return self.cost.advance(plan.shape, start, plan.steps, until)


@dataclass(frozen=True)
class Limits:
    """What bounds a round: seats, how prefill joins, and a budget of new tokens (None: no limit)."""

    max_bs: int
    prefill: str = "mixed"
    token_budget: int | None = None


class ContinuousEngine:
    """Iteration-level scheduling (Orca, Yu et al. 2022) with exchangeable memory, order and prefill mode."""

    def __init__(
        self,
        load: Workload,
        memory: Memory,
        queue: Discipline,
        executor: Executor,
        limits: Limits,
        capacity: int,
        step_by_step: bool = False,
        stop_at: float = FOREVER,
    ) -> None:
        self.requests = load.requests()
        self.memory, self.queue, self.executor, self.limits = memory, queue, executor, limits
        self.step_by_step, self.stop_at = step_by_step, stop_at
        self.rec = Recorder(len(self.requests), capacity)
        self.now = 0.0
        self.next_arrival = 0
        self.decode_steps = 0
        self.prefilling: list[Sequence] = []
        self.decoding: dict[int, Sequence] = {}
        self.decode_kv = 0  # positions that the next decode step reads and writes
        self.leaving: list[tuple[int, int]] = []  # heap of (decode step, id)
        self.preempted: dict[int, Sequence] = {}
        self.fixed_need = hasattr(memory, "horizon") and memory.horizon([]) >= UNLIMITED and not hasattr(memory, "page")

    def run(self) -> Record:
        """Serve every request to its end, or until `stop_at`."""
        while self.now < self.stop_at:
            self.take_arrivals()
            self.admit()
            if not self.prefilling and not self.decoding:
                if not self.queue and self.next_arrival == len(self.requests):
                    break
                if not self.queue:
                    self.now = min(self.requests[self.next_arrival].arrival, self.stop_at)
                continue
            plan = self.plan()
            until = self.next_event()
            start = self.now
            steps, self.now = self.executor.execute(plan, start, until)
            self.account(plan, start, steps)
        self.close()
        return self.rec.record()

    def take_arrivals(self) -> None:
        """Let everyone who has arrived join the line; refuse who can never fit."""
        horizon = self.now + SAME_INSTANT
        while self.next_arrival < len(self.requests) and self.requests[self.next_arrival].arrival <= horizon:
            request = self.requests[self.next_arrival]
            self.next_arrival += 1
            reason = self.memory.refusal(request) if hasattr(self.memory, "refusal") else None
            if reason:
                self.rec.refuse(request.id, reason)
            else:
                self.queue.push(request, self.now)

    def admit(self) -> None:
        """Seat requests from the head of the line while there are seats and memory; never look past the head."""
        while self.queue and len(self.prefilling) + len(self.decoding) < self.limits.max_bs:
            request = self.queue.peek(self.now)
            sequence = self.preempted.get(request.id) or Sequence(request, request.prompt)
            if not self.memory.try_admit(request, sequence.target):
                if self.prefilling or self.decoding:
                    return
                # Nobody is left to wait for: what does not fit into an empty pool never will.
                self.rec.refuse(request.id, f"does not fit into the empty pool (prompt {request.prompt} tokens)")
                self.queue.pop(self.now)
                continue
            self.queue.pop(self.now)
            self.preempted.pop(request.id, None)
            self.rec.admit(request.id, self.now)
            self.prefilling.append(sequence)

    def plan(self) -> Plan:
        """Decide who gets how many new positions in the coming round."""
        prefill_only = self.limits.prefill == "prefill_first" and bool(self.prefilling)
        decode = {} if prefill_only else self.decoding
        preempted = bool(decode) and not self.fixed_need and self.make_room()
        budget = self.limits.token_budget
        left = UNLIMITED if budget is None else budget - len(decode)
        works = []
        for sequence in self.prefilling:
            new = min(sequence.target - sequence.prefilled, left)
            if new <= 0:
                break
            works.append((sequence, SeqWork(new, sequence.prefilled)))
            left -= new
        shape = StepShape.of([work for _, work in works], len(decode), self.decode_kv if decode else 0)
        # After a preemption there are a seat and memory that the next round may give to somebody who waits.
        one_step = bool(works) or preempted or self.step_by_step
        return Plan(tuple(works), decode, shape, 1 if one_step else self.horizon())

    def make_room(self) -> bool:
        """See that every decoding request can hold one more token; preempt the latest arrival until they can.

        Returns whether anybody was preempted.
        """
        preempted = False
        for sequence in sorted(self.decoding.values(), key=lambda s: s.request.arrival):
            if sequence.request.id not in self.decoding:
                continue
            while not self.memory.grow(sequence.request, sequence.positions(self.decode_steps) + 1):
                victim = latest_arrival([*self.decoding.values(), *self.prefilling])
                if victim is sequence and len(self.decoding) + len(self.prefilling) == 1:
                    raise RuntimeError(f"memory refuses to grow for request {victim.request.id}, which runs alone")
                self.preempt(victim)
                preempted = True
                if victim is sequence:
                    break
        return preempted

    def preempt(self, sequence: Sequence) -> None:
        """Take a request's seat and memory; it goes back to the line and recomputes its cache later."""
        request = sequence.request
        self.memory.free(request)
        if hasattr(self.executor, "drop"):
            self.executor.drop(request.id)
        self.rec.preemptions[request.id] += 1
        self.rec.recomputed[request.id] += sequence.positions(self.decode_steps)
        tokens = sequence.tokens(self.decode_steps)
        if sequence.joined >= 0:
            del self.decoding[request.id]
            self.decode_kv -= sequence.positions(self.decode_steps) + 1
            self.close_span(sequence)
        else:
            self.prefilling.remove(sequence)
        self.preempted[request.id] = Sequence(request, request.prompt + tokens, generated=tokens)
        self.queue.push(request, self.now)

    def horizon(self) -> int:
        """Return for how many decode steps the present plan would stand if nobody arrived."""
        while self.leaving[0][1] not in self.decoding or self.decoding[self.leaving[0][1]].leaves != self.leaving[0][0]:
            heapq.heappop(self.leaving)  # left behind by a preemption
        steps = self.leaving[0][0] - self.decode_steps
        if self.fixed_need:
            return steps
        if not hasattr(self.memory, "horizon"):
            return 1
        # make_room has already taken the first step's page, so every holder stands one position further.
        holders = [(s.request, s.positions(self.decode_steps) + 1) for s in self.decoding.values()]
        return min(steps, 1 + self.memory.horizon(holders))

    def next_event(self) -> float:
        """Return when the plan must be looked at again, whatever happens inside: an arrival that could be seated."""
        if self.next_arrival == len(self.requests):
            return self.stop_at
        if len(self.prefilling) + len(self.decoding) >= self.limits.max_bs:
            return self.stop_at
        return min(self.requests[self.next_arrival].arrival, self.stop_at)

    def account(self, plan: Plan, start: float, steps: int) -> None:
        """Write the round down, hand out its tokens, and let whoever is done leave."""
        now, batch = self.now, len(plan.decode)
        decode_kv = plan.shape.decode_kv
        if batch:
            self.decode_steps += steps
            self.decode_kv += batch * steps
        if steps > 1 and not self.fixed_need:
            for sequence in plan.decode.values():
                self.memory.grow(sequence.request, sequence.positions(self.decode_steps))
        prefill_tokens = plan.shape.new - batch
        for sequence, work in plan.prefill:
            sequence.prefilled += work.new
        waiting = len(self.queue)
        finished = self.finish_decodes() if batch else []
        for sequence, _ in plan.prefill:
            if sequence.prefilled == sequence.target:
                self.end_prefill(sequence, finished)
        used = self.decode_kv - len(self.decoding)
        if self.prefilling:
            used += sum(s.prefilled for s in self.prefilling)
        if finished:
            used += sum(s.positions(self.decode_steps) for s in finished)
        reserved = getattr(self.memory, "reserved", used)
        self.rec.rows.append(
            (start, now, steps, len(plan.prefill), prefill_tokens, batch, 0, decode_kv, used, reserved, waiting)
        )
        for sequence in finished:
            self.memory.free(sequence.request)
            self.rec.finish(sequence.request.id, now)

    def finish_decodes(self) -> list[Sequence]:
        """Take away the decoding sequences whose last token came with this round."""
        done = []
        while self.leaving and self.leaving[0][0] <= self.decode_steps:
            step, number = heapq.heappop(self.leaving)
            sequence = self.decoding.get(number)
            if sequence is None or sequence.leaves != step:
                continue
            del self.decoding[number]
            self.decode_kv -= sequence.positions(self.decode_steps) + 1
            self.close_span(sequence)
            done.append(sequence)
        return done

    def end_prefill(self, sequence: Sequence, finished: list[Sequence]) -> None:
        """Give a sequence the token that the end of its prefill produces, and let it decode from now on."""
        request = sequence.request
        self.prefilling.remove(sequence)
        sequence.generated += 1
        sequence.started = self.now
        self.rec.token(request.id, self.now)
        if sequence.generated == request.output:
            self.rec.spans.append((request.id, self.now, self.decode_steps, 0))
            finished.append(sequence)
            return
        sequence.joined = self.decode_steps
        sequence.leaves = self.decode_steps + request.output - sequence.generated
        self.decoding[request.id] = sequence
        self.decode_kv += sequence.target + 1
        heapq.heappush(self.leaving, (sequence.leaves, request.id))

    def close_span(self, sequence: Sequence) -> None:
        """Note which decode steps gave `sequence` its tokens since its last prefill."""
        count = self.decode_steps - sequence.joined
        self.rec.spans.append((sequence.request.id, sequence.started, sequence.joined, count))

    def close(self) -> None:
        """Write down what the requests had got that were still decoding when the run was cut off."""
        self.take_arrivals()  # a leap that nobody could join may have passed over some who must be refused
        for sequence in self.decoding.values():
            self.close_span(sequence)
