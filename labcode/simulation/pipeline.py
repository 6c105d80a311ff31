"""A model in stages on several workers: full batches in flight (Orca), or one batch cut into micro-batches.

With inter-layer parallelism (pipeline parallelism) stage s holds a share of the layers, and an iteration of a
batch passes through all stages one after the other.  The next iteration of the *same* batch cannot start
before the last stage has returned its tokens.  A single batch therefore keeps one stage busy at a time;
something else must fill the others:

- **Orca** (Yu et al. 2022, Algorithm 1): the scheduler does not wait for the batch, but sends further batches
of other
  requests, until `n_workers` are in flight; each runs one iteration, and each is filled again when it
  returns.
- **Micro-batches** (FasterTransformer): one batch is cut into m parts that follow each other, for all of
their iterations.
  Whole batch in, whole batch out: nothing is filled again, and the pipeline runs dry at the end of every
  batch.

Decode iterations only; a stage's time depends on how many sequences pass through it.  Stages are equal, and
handing over between them is free.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labcode.checks import integer
from labcode.cost import StepShape, as_cost
from labcode.cost.base import HasStepTime
from labcode.cost.hardware import GPUSpec, ModelSpec

#: Sequences -> seconds that one stage takes for one iteration of them.
StageTime = Callable[[int], float]


def stage_time(
    model: ModelSpec | str, gpu: GPUSpec | str, stages: int, context: int, cost: HasStepTime | None = None
) -> StageTime:
    """Return how long a stage takes for a decode iteration of b sequences with `context` cached tokens each,
    in seconds.

    One worker would need the whole step time; each of `stages` equal workers holds a share of the layers, so
    it reads that share of the weights and of the KV cache and needs that share of the time.
    """
    stages, context = integer("stages", stages), integer("context", context)
    price = as_cost("paper" if cost is None else cost, model, gpu)
    return lambda b: price.step_time(StepShape.of((), b, b * context)) / stages


@dataclass(frozen=True)
class Visit:
    """A stage's work on one iteration of one lane (a batch in flight, or a micro-batch): from `start` to
    `end`, in s."""

    stage: int
    lane: int
    iteration: int
    sequences: int
    start: float
    end: float


@dataclass(frozen=True)
class PipelineRun:
    """What the stages did.

    Attributes
    ----------
    stages : int
    visits : tuple of Visit
    finished : float64, shape (n,)
        When each request's answer was returned, s.
    tokens : int
        Tokens generated.
    """

    stages: int
    visits: tuple[Visit, ...]
    finished: NDArray[np.float64]
    tokens: int

    @property
    def duration(self) -> float:
        """From 0 to the last stage's last end, in s."""
        return max(visit.end for visit in self.visits)

    @property
    def bubbles(self) -> float:
        """Share of the stages' time in which they had nothing to do."""
        return 1 - sum(visit.end - visit.start for visit in self.visits) / (self.stages * self.duration)

    @property
    def tokens_per_second(self) -> float:
        """Tokens generated over the duration."""
        return self.tokens / self.duration


class Pipeline:
    """Stages that serve whoever comes, first come, first served; each lane is in one place at a time."""

    def __init__(self, stages: int, time: StageTime) -> None:
        self.stages, self.time = integer("stages", stages), time
        self.free = [0.0] * self.stages
        self.visits: list[Visit] = []
        self._iterations: dict[int, int] = {}

    def send(self, lane: int, sequences: int, now: float, length: float | None = None) -> float:
        """Send one iteration of `lane` through all stages, ready at `now`; return when the last stage ends,
        in s.

        A stage takes `length` seconds, by default ``time(sequences)``.
        Stages are equal for one lane, but a large batch ahead may hold up a small one behind it.  Lanes must
        be sent in order of readiness; they never overtake.
        """
        iteration = self._iterations.get(lane, 0)
        self._iterations[lane] = iteration + 1
        length = self.time(sequences) if length is None else length
        for stage in range(self.stages):
            start = max(now, self.free[stage])
            now = self.free[stage] = start + length
            self.visits.append(Visit(stage, lane, iteration, sequences, start, now))
        return now


def in_flight(
    outputs: Sequence[int], stages: int, max_bs: int, time: StageTime, n_workers: int | None = None
) -> PipelineRun:
    """Run requests that are all there at time 0 as Orca does: up to `n_workers` batches of `max_bs` in
    flight.

    Parameters
    ----------
    outputs : sequence of int
        Tokens (iterations) that each request needs.
    stages, max_bs : int
    time : StageTime
    n_workers : int, optional
        Batches in flight; by default as many as there are stages, Orca's choice.

    Notes
    -----
    Each round is Algorithm 1: select up to `max_bs` requests that are not running, in order of arrival; send
    them; when `n_scheduled` has reached `n_workers`, wait for the earliest batch to return.
    """
    left = _outputs(outputs)
    max_bs, stages = integer("max_bs", max_bs), integer("stages", stages)
    n_workers = integer("n_workers", stages if n_workers is None else n_workers)
    pipe, finished = Pipeline(stages, time), np.full(len(left), np.nan)
    pool = list(range(len(left)))  # requests that are not running, in order of arrival
    flying: list[tuple[float, int, list[int]]] = []  # heap of (return time, lane, requests)
    lanes = deque(range(n_workers))
    now = 0.0
    while pool or flying:
        if pool and lanes:
            batch, pool = pool[:max_bs], pool[max_bs:]
            lane = lanes.popleft()
            heapq.heappush(flying, (pipe.send(lane, len(batch), now), lane, batch))
            continue
        now, lane, batch = heapq.heappop(flying)
        lanes.append(lane)
        for i in batch:
            left[i] -= 1
            if left[i] == 0:
                finished[i] = now
        pool = sorted(pool + [i for i in batch if left[i] > 0])
    return PipelineRun(pipe.stages, tuple(pipe.visits), finished, int(np.sum(outputs)))


def micro_batches(
    outputs: Sequence[int], stages: int, batch_size: int, parts: int, time: StageTime, keep_seats: bool = True
) -> PipelineRun:
    """Run the same requests in whole batches of `batch_size`, each cut into `parts` micro-batches.

    Parameters
    ----------
    keep_seats : bool
        A finished sequence is computed along until its batch ends, as in FasterTransformer; otherwise
        micro-batches shrink.

    Notes
    -----
    The next batch enters when the last micro-batch has left: request-level scheduling.
    """
    left = _outputs(outputs)
    batch_size, parts = integer("batch_size", batch_size), integer("parts", parts)
    if parts > batch_size:
        raise ValueError(
            f"parts = {parts}: a batch of {batch_size} cannot be cut into more parts than it has sequences"
        )
    pipe, finished = Pipeline(stages, time), np.full(len(left), np.nan)
    now = 0.0
    for first in range(0, len(left), batch_size):
        members = np.array_split(np.arange(first, min(first + batch_size, len(left))), parts)
        longest = max(left[i] for part in members for i in part)
        ready = [(now, lane) for lane, part in enumerate(members) if len(part)]
        heapq.heapify(ready)
        done = dict.fromkeys(range(parts), 0)
        while ready:
            start, lane = heapq.heappop(ready)
            alive = [i for i in members[lane] if left[i] > done[lane]]
            end = pipe.send(lane, len(members[lane]) if keep_seats else len(alive), start)
            done[lane] += 1
            now = max(now, end)
            if done[lane] < (longest if keep_seats else max(left[i] for i in members[lane])):
                heapq.heappush(ready, (end, lane))
        finished[first : first + batch_size] = now  # the engine returns the whole batch at once
    return PipelineRun(pipe.stages, tuple(pipe.visits), finished, int(np.sum(outputs)))


def _outputs(outputs: Sequence[int]) -> list[int]:
    left = [integer(f"outputs[{i}]", value) for i, value in enumerate(outputs)]
    if not left:
        raise ValueError("outputs = []: at least one request is needed")
    return left
