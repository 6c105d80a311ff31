"""Length buckets: request-level batches of prompts of similar length, with two triggers that send them off.

A request joins the bucket of its prompt length.  Whenever the engine is idle it looks for a bucket that is
*due*: it is full (`max_bs` requests), or its oldest request has waited `max_wait`.  Whichever comes first
sends the batch off; a batch never mixes buckets, and like every request-level batch it takes nobody in until
it ends.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass

import numpy as np

from labcode.checks import integer, non_negative
from labcode.cost import CostModel
from labcode.cost.leap import SAME_INSTANT
from labcode.scheduler.memory import Memory
from labcode.simulation.record import Record
from labcode.simulation.static import BatchRun, StaticRules, _refused
from labcode.workload import Request, Workload


@dataclass(frozen=True)
class BucketRules:
    """Which requests may share a batch, and when a batch leaves.

    Attributes
    ----------
    edges : tuple of int
        Upper edges of the buckets, in prompt tokens, ascending: bucket i holds prompts of ``edges[i-1] + 1``
        up to ``edges[i]`` tokens, and one more bucket holds what is longer than the last edge.  ``()`` is a
        single bucket.
    max_wait : float
        Seconds after which the oldest request of a bucket no longer waits for company.  It may still wait for
        the engine, which runs one batch at a time.
    max_bs : int
        Requests that make a bucket full.
    padded : bool
        Prefill every prompt of a batch at the length of its longest.
    keep_seats, early_return : bool
        As in :class:`labcode.simulation.static.StaticRules`.

    Raises
    ------
    ValueError
        If the edges do not ascend or a number is out of range.
    """

    edges: tuple[int, ...]
    max_wait: float
    max_bs: int
    padded: bool = True
    keep_seats: bool = True
    early_return: bool = True

    def __post_init__(self) -> None:
        edges = tuple(integer(f"edges[{i}]", edge) for i, edge in enumerate(self.edges))
        if any(b <= a for a, b in itertools.pairwise(edges)):
            raise ValueError(f"edges = {self.edges!r}: must ascend, each once")
        object.__setattr__(self, "edges", edges)
        object.__setattr__(self, "max_wait", non_negative("max_wait", self.max_wait))
        object.__setattr__(self, "max_bs", integer("max_bs", self.max_bs))

    def bucket(self, prompt: int) -> int:
        """Return the number of the bucket for a prompt of `prompt` tokens."""
        return bisect_left(self.edges, prompt)


class Buckets:
    """The waiting requests, a first-come line for each bucket."""

    def __init__(self, rules: BucketRules) -> None:
        self.rules = rules
        self.lines: list[deque[Request]] = [deque() for _ in range(len(rules.edges) + 1)]

    def __len__(self) -> int:
        return sum(len(line) for line in self.lines)

    def push(self, request: Request) -> None:
        """Let `request` join its bucket."""
        self.lines[self.rules.bucket(request.prompt)].append(request)

    def due(self, now: float) -> deque[Request] | None:
        """Return the line that may leave at `now`, the one whose head came first if there are several; else
        None."""
        rules = self.rules
        ready = [
            line
            for line in self.lines
            if line and (len(line) >= rules.max_bs or line[0].arrival + rules.max_wait <= now + SAME_INSTANT)
        ]
        return min(ready, key=lambda line: line[0].id, default=None)

    def next_deadline(self) -> float:
        """Return when the first bucket will have waited long enough, in seconds; infinity if nobody waits."""
        return min((line[0].arrival + self.rules.max_wait for line in self.lines if line), default=np.inf)


def run_bucketed(
    load: Workload,
    memory: Memory,
    cost: CostModel,
    rules: BucketRules,
    capacity: int,
    step_by_step: bool = False,
    stop_at: float = np.inf,
) -> Record:
    """Serve `load` in batches that each come from one bucket.

    A batch holds at most `max_bs` requests and no more than fit into the memory.  With one bucket and no wait
    this is :func:`labcode.simulation.static.run_static`.
    """
    engine = BatchRun(
        load,
        memory,
        cost,
        StaticRules(rules.max_bs, rules.padded, rules.keep_seats, rules.early_return),
        capacity,
        step_by_step,
    )
    coming = deque(request for request in load.requests() if not _refused(request, memory, engine.rec))
    buckets = Buckets(rules)
    now = 0.0
    while (coming or buckets) and now < stop_at:
        while coming and coming[0].arrival <= now + SAME_INSTANT:
            buckets.push(coming.popleft())
        line = buckets.due(now)
        if line is None:
            # Nothing changes before somebody arrives, who may fill a bucket, or a wait is over.
            now = max(now, min(coming[0].arrival if coming else np.inf, buckets.next_deadline()))
            continue
        batch: list[Request] = []
        while line and len(batch) < rules.max_bs and memory.try_admit(line[0], line[0].prompt):
            batch.append(line.popleft())
        if not batch:
            request = line.popleft()
            engine.rec.refuse(request.id, f"does not fit into the empty pool (prompt {request.prompt} tokens)")
            continue
        now = engine.run_batch(batch, now, len(buckets))
    return engine.rec.record()
