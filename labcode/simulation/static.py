"""Request-level engines: the batch, or the single request, is the unit of scheduling.

They keep no waiting line with policies: first come, first served, as the systems that they stand for did.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labcode.cost import CostModel, SeqWork, StepShape
from labcode.cost.leap import SAME_INSTANT
from labcode.scheduler.memory import Memory
from labcode.simulation.record import Record, Recorder
from labcode.workload import Request, Workload


@dataclass(frozen=True)
class StaticRules:
    """How a request-level engine treats its batch.

    Attributes
    ----------
    max_bs : int
        Seats.
    padded : bool
        Prefill every prompt at the length of the longest (a rectangular tensor), as engines without
        selective batching must.
    keep_seats : bool
        A finished sequence is computed along until the whole batch is done.
    early_return : bool
        A finished request's answer is returned at once, not with the batch.
    """

    max_bs: int
    padded: bool = False
    keep_seats: bool = True
    early_return: bool = True


class BatchRun:
    """Runs one batch after the other and records what happens; shared by the request-level engines."""

    def __init__(
        self, load: Workload, memory: Memory, cost: CostModel, rules: StaticRules, capacity: int, step_by_step: bool
    ) -> None:
        self.memory, self.cost, self.rules, self.step_by_step = memory, cost, rules, step_by_step
        self.rec = Recorder(len(load), capacity)
        self.decode_steps = 0

    def run_batch(self, batch: list[Request], now: float, waiting: int) -> float:
        """Run `batch`, whose memory is taken already, from `now` to its end; return when that is, in seconds."""
        rules, rec = self.rules, self.rec
        longest = max(request.prompt for request in batch)
        works = [SeqWork(longest if rules.padded else request.prompt) for request in batch]
        start, now = now, now + self.cost.step_time(StepShape.of(works))
        used = sum(request.prompt for request in batch)
        tokens = sum(work.new for work in works)
        rec.rows.append((start, now, 1, len(batch), tokens, 0, 0, 0, used, self.reserved(used), waiting))
        first_step = self.decode_steps
        for request in batch:
            rec.admit(request.id, start)
            rec.token(request.id, now)
            rec.spans.append((request.id, now, first_step, request.output - 1))
        # Shortest first: between two completions the same sequences decode.
        left = sorted(batch, key=lambda request: request.output)
        made, seats = 1, len(batch)
        decode_kv = tokens + seats
        last_end: dict[int, float] = {}
        while left:
            while left and left[0].output == made:
                request = left.pop(0)
                last_end[request.id] = now
                if not rules.keep_seats:
                    seats -= 1
                    decode_kv -= (longest if rules.padded else request.prompt) + made
            if not left:
                break
            steps = 1 if self.step_by_step else left[0].output - made
            start = now
            _, now = self.cost.advance(StepShape.of((), seats, decode_kv), start, steps)
            used += len(left) * steps
            rec.rows.append(
                (start, now, steps, 0, 0, len(left), seats - len(left), decode_kv, used, self.reserved(used), waiting)
            )
            decode_kv += seats * steps
            made += steps
            self.decode_steps += steps
        for request in batch:
            rec.last_token[request.id] = last_end[request.id]
            rec.finish(request.id, last_end[request.id] if rules.early_return else now)
            self.memory.free(request)
        return now

    def reserved(self, used: int) -> int:
        """Return the tokens taken in the pool."""
        return int(getattr(self.memory, "reserved", used))


def run_static(
    load: Workload,
    memory: Memory,
    cost: CostModel,
    rules: StaticRules,
    capacity: int,
    step_by_step: bool = False,
    stop_at: float = np.inf,
) -> Record:
    """Serve `load` in static batches: whoever waits when the engine is idle goes in, and nobody joins until it ends.

    A batch holds at most `max_bs` requests and no more than fit into the memory.
    """
    engine = BatchRun(load, memory, cost, rules, capacity, step_by_step)
    line = [request for request in load.requests() if not _refused(request, memory, engine.rec)]
    arrivals = np.array([request.arrival for request in line])
    now, head = 0.0, 0
    while head < len(line) and now < stop_at:
        if line[head].arrival > now + SAME_INSTANT:
            now = line[head].arrival
        batch: list[Request] = []
        while head < len(line) and len(batch) < rules.max_bs and line[head].arrival <= now + SAME_INSTANT:
            if not memory.try_admit(line[head], line[head].prompt):
                break
            batch.append(line[head])
            head += 1
        if not batch:
            engine.rec.refuse(line[head].id, f"does not fit into the empty pool (prompt {line[head].prompt} tokens)")
            head += 1
            continue
        waiting = int(np.searchsorted(arrivals, now + SAME_INSTANT, "right")) - head
        now = engine.run_batch(batch, now, waiting)
    return engine.rec.record()


def run_sequential(
    load: Workload, memory: Memory, cost: CostModel, capacity: int, step_by_step: bool = False, stop_at: float = np.inf
) -> Record:
    """Serve `load` one request after the other, first come, first served."""
    engine = BatchRun(load, memory, cost, StaticRules(1), capacity, step_by_step)
    now = 0.0
    for request in load.requests():
        if now >= stop_at:
            break
        if _refused(request, memory, engine.rec):
            continue
        now = max(now, request.arrival)
        if not memory.try_admit(request, request.prompt):
            engine.rec.refuse(request.id, f"does not fit into the empty pool (prompt {request.prompt} tokens)")
            continue
        waiting = int(np.searchsorted(load.arrival, now, "right")) - request.id - 1
        now = engine.run_batch([request], now, waiting)
    return engine.rec.record()


def _refused(request: Request, memory: Memory, rec: Recorder) -> bool:
    reason = memory.refusal(request) if hasattr(memory, "refusal") else None
    if reason:
        rec.refuse(request.id, reason)
    return bool(reason)
