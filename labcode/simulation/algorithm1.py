"""Orca's scheduler, line by line: Algorithm 1 of Yu et al. (2022), with several batches in flight.

The numbers in the margin are the paper's line numbers.  The engine of :mod:`labcode.scheduler.scheduler` makes the
same decisions for one worker, faster; a test holds both to the same time stamps.  Three things the paper
leaves to "concurrent threads" are written out here: requests arrive, answers leave, and with nothing to
select the scheduler waits.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labcode.checks import integer
from labcode.cost import CostModel, StepShape
from labcode.cost.hardware import SeqWork
from labcode.cost.leap import SAME_INSTANT
from labcode.simulation.pipeline import Pipeline
from labcode.workload import Workload

FOREVER = float("inf")
INITIATION, RUNNING, INCREMENT = range(3)  # the paper's words; today one says prefill and decode


@dataclass(frozen=True)
class Served:
    """What happened to n requests: admission, first token, last token (s), each float64 of shape (n,)."""

    admitted: NDArray[np.float64]
    first_token: NDArray[np.float64]
    finished: NDArray[np.float64]
    iterations: int


class OrcaScheduler:
    """Algorithm 1 over a pipeline of workers.

    Parameters
    ----------
    load : Workload
        ``max_tokens`` of a request is its prompt and its declared cap; without declared caps, prompt and
        output.
    cost : CostModel
        Time of one iteration if one worker held all layers; each of `n_workers` equal workers needs its
        share.
    max_bs : int
        Requests in one batch.
    n_slots : int
        Slots of the K/V manager, in tokens.
    n_workers : int
        Inter-layer partitions, and so batches in flight.

    Raises
    ------
    ValueError
        If a request's `max_tokens` exceeds `n_slots`: it could never be selected, nor anybody behind it.
    """

    def __init__(self, load: Workload, cost: CostModel, max_bs: int, n_slots: int, n_workers: int = 1) -> None:
        self.load, self.cost = load, cost
        self.max_bs, self.n_slots = integer("max_bs", max_bs), integer("n_slots", n_slots)
        self.n_workers = integer("n_workers", n_workers)
        cap = load.output if load.max_tokens is None else load.max_tokens
        self.max_tokens = (load.prompt + cap).tolist()
        if max(self.max_tokens) > self.n_slots:
            row = int(np.argmax(self.max_tokens))
            raise ValueError(f"max_tokens = {self.max_tokens[row]} of request {row}: n_slots is {self.n_slots}")
        self.state = [INITIATION] * len(load)
        self.prompt, self.output = load.prompt.tolist(), load.output.tolist()
        self.generated = [0] * len(load)
        self.pool: list[int] = []  # arrived and not running, in order of arrival
        self.pipe = Pipeline(self.n_workers, lambda sequences: 0.0)
        self.flying: list[tuple[float, int, list[int]]] = []  # heap of (return, number, batch)
        nan = np.full(len(load), np.nan)
        self.admitted, self.first_token, self.finished = nan, nan.copy(), nan.copy()

    # fmt: off
    def serve(self) -> Served:
        """Run until every request has its last token."""
        arrival, coming, now, sent = self.load.arrival.tolist(), 0, 0.0, 0
        n_scheduled, n_rsrv = 0, 0                                              # 1, 2
        while True:                                                             # 3
            while coming < len(arrival) and arrival[coming] <= now + SAME_INSTANT:
                self.pool.append(coming)
                coming += 1
            batch, n_rsrv = self.select(n_rsrv)                                 # 4
            if batch:
                self.schedule(batch, now, sent)                                 # 5-7
                n_scheduled, sent = n_scheduled + 1, sent + 1                   # 8
                if n_scheduled < self.n_workers:                                # 9
                    continue
            else:
                next_arrival = arrival[coming] if coming < len(arrival) else FOREVER
                next_return = self.flying[0][0] if self.flying else FOREVER
                if next_arrival == next_return == FOREVER:
                    return Served(self.admitted, self.first_token, self.finished, sent)
                if next_arrival < next_return - SAME_INSTANT:
                    now = next_arrival
                    continue
            now, _, returned = heapq.heappop(self.flying)                       # 10
            for i in returned:                                                  # 11
                self.state[i] = INCREMENT                                       # 12
                self.generated[i] += 1
                if self.generated[i] == 1:
                    self.first_token[i] = now
                if self.generated[i] == self.output[i]:                         # 13
                    self.finished[i] = now
                    n_rsrv -= self.max_tokens[i]                                # 14
            going_on = [i for i in returned if self.generated[i] < self.output[i]]
            self.pool = list(heapq.merge(self.pool, going_on))                  # 20
            n_scheduled -= 1                                                    # 15

    def select(self, n_rsrv: int) -> tuple[list[int], int]:                     # 17
        """Return the batch of the next iteration, and the slots reserved with it."""
        batch: list[int] = []                                                   # 18
        for i in self.pool:  # not running, in order of arrival                   19-21
            if len(batch) == self.max_bs:                                       # 22
                break
            if self.state[i] == INITIATION:                                     # 23
                if n_rsrv + self.max_tokens[i] > self.n_slots:                  # 24, 25
                    break
                n_rsrv += self.max_tokens[i]                                    # 26
            batch.append(i)                                                     # 27
        return batch, n_rsrv                                                    # 28
    # fmt: on

    def schedule(self, batch: list[int], now: float, number: int) -> None:
        """Send one iteration of `batch` into the pipeline."""
        new = [i for i in batch if self.state[i] == INITIATION]
        past = [self.prompt[i] + self.generated[i] for i in batch if self.state[i] == INCREMENT]
        shape = StepShape.of([SeqWork(self.prompt[i]) for i in new], len(past), sum(past))
        self.admitted[new] = now
        end = self.pipe.send(number, len(batch), now, self.cost.step_time(shape) / self.n_workers)
        heapq.heappush(self.flying, (end, number, batch))
        for i in batch:
            self.state[i] = RUNNING
        del self.pool[: len(batch)]  # `select` takes from the front of the pool and never skips
