"""Faults to be told apart by four curves, on the paper GPU: planted, watched every second, and diagnosed by rule."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from labcode.cost import as_cost
from labcode.cost.catalogue import as_gpu, as_model
from labcode.scheduler import Budgets, Plan, Request, Scheduler, memory
from labcode.scheduler.states import State
from labcode.simulation.clock import FOREVER, PaperClock
from labcode.simulation.streams import Backpressure, StreamLoop

HEALTHY, OVERLOAD, LONG, SLOW = "healthy", "lasting overload", "long prompts", "slow clients"
PLACES, RATE, SECONDS, POOL = 12, 4.0, 30, 200_000
PROMPT, OUTPUT = 200, 100
READS = 64.0 * 1024  # bytes/s of a client that keeps up


@dataclass(frozen=True)
class Case:
    """A planted fault.

    Attributes
    ----------
    fault : str
    rate : float
        Requests/s.
    long, every : int
        Tokens of a long prompt, and that each so-manieth request has one; 0: none.
    slow : int
        Clients of long answers, there from second 5 on, who read 256 bytes (one event) a second.
    seed : int
    """

    fault: str
    rate: float = RATE
    long: int = 0
    every: int = 0
    slow: int = 0
    seed: int = 0


#: Letters say nothing; severities differ within a fault.
CASES = {
    "A": Case(SLOW, slow=7, seed=1),
    "B": Case(OVERLOAD, rate=24.0, seed=2),
    "C": Case(LONG, long=7000, every=12, seed=3),
    "D": Case(HEALTHY, rate=5.0, seed=4),
    "E": Case(SLOW, rate=5.0, slow=11, seed=5),
    "F": Case(LONG, long=4000, every=20, seed=6),
    "G": Case(OVERLOAD, rate=22.0, seed=7),
}
REFERENCE = Case(HEALTHY, seed=0)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What four plots show, a number a second: requests waiting, age of the oldest (s), longest gap (s), paused.

    `memory` is the largest share of the KV pool that was ever taken.
    """

    waiting: tuple[float, ...]
    age: tuple[float, ...]
    gap: tuple[float, ...]
    paused: tuple[float, ...]
    memory: float


class Watched(StreamLoop):
    """A stream loop that writes down, second by second, what a metrics page would show."""

    def watch(self) -> None:
        """Begin."""
        self.curves = np.zeros((4, SECONDS))
        self.taken, self.second = 0.0, -1
        self.last: dict[int, float] = {}

    def step(self, plan: Plan) -> None:
        """Make a step, and look."""
        super().step(plan)
        yielded = [s.id for s in plan.decode] + [work.request.id for work in plan.prefill if work.yields]
        gaps = [
            self.now - self.last[i] for i in yielded if i in self.last and self.run_.streams[i].buffer.read >= READS
        ]
        self.last.update(dict.fromkeys(yielded, self.now))
        at = min(SECONDS - 1, int(self.now))
        self.curves[2, at] = max(self.curves[2, at], *gaps, 0.0)
        if at != self.second:
            self.second = at
            self.look(at)

    def look(self, at: int) -> None:
        """Write down the queue, the pauses and the memory, once a second."""
        states = self.scheduler.requests.values()
        waits = [self.now - state.request.arrival for state in states if state.state is State.WAITING]
        paused = sum(state.state is State.PAUSED for state in states)
        self.curves[[0, 1, 3], at] = len(waits), max(waits, default=0.0), paused
        self.taken = max(self.taken, (self.scheduler.memory.reserved or 0) / POOL)


def load_of(case: Case) -> tuple[list[Request], list[int], list[float]]:
    """Return the requests of a case, their outputs (tokens), and what their clients read (bytes/s)."""
    rng = np.random.default_rng(case.seed)
    arrivals = np.cumsum(rng.exponential(1 / case.rate, int(case.rate * SECONDS)))
    rows = []
    for i, at in enumerate(arrivals[arrivals < SECONDS].tolist()):
        long = case.every and i % case.every == case.every - 1
        rows.append((at, case.long if long else PROMPT, int(rng.integers(OUTPUT // 2, 3 * OUTPUT // 2)), READS))
    rows += [(5.0 + 0.5 * k, PROMPT, 2000, 256.0) for k in range(case.slow)]
    rows.sort()
    requests = [Request(i, prompt, output, at) for i, (at, prompt, output, _) in enumerate(rows)]
    return requests, [row[2] for row in rows], [row[3] for row in rows]


@lru_cache(maxsize=16)
def evidence(case: Case) -> Evidence:
    """Run a case for half a minute and return its four curves."""
    requests, outputs, reads = load_of(case)
    scheduler = Scheduler(memory("declared", POOL), budgets=Budgets(PLACES))
    clock = PaperClock(outputs, as_cost("paper", as_model("llama3-8b"), as_gpu("h100")))
    loop = Watched(scheduler, requests, clock, reads, Backpressure("pause", 16 * 1024, patience=FOREVER))
    loop.watch()
    while loop.now < SECONDS:
        loop.arrivals()
        loop.look_at_clients()
        plan = scheduler.schedule(loop.now)
        loop.note_ends()
        if plan:
            loop.step(plan)
        elif not loop.wait():
            break
    waiting, age, gap, paused = (tuple(curve.tolist()) for curve in loop.curves)
    return Evidence(waiting, age, gap, paused, loop.taken)


def diagnosed(seen: Evidence, normal: Evidence) -> tuple[str, str]:
    """Return the fault that four curves bear out, and the numbers that say so.

    The order matters: paused requests hold places, so slow clients make a queue as well.  Whoever begins with the
    queue takes them for an overload.
    """
    last = slice(2 * SECONDS // 3, SECONDS)
    paused = float(np.median(seen.paused[last]))
    if paused >= 1:
        return SLOW, f"{paused:.0f} of {PLACES} places are held by requests whose clients do not read"
    usual, longest = float(np.median(normal.gap)), float(np.max(seen.gap))
    age, before = float(np.mean(seen.age[last])), float(np.mean(seen.age[: SECONDS // 3]))
    if age > 2 * max(before, 0.5):
        return OVERLOAD, f"the oldest request waits {age:.1f} s on average at the end, {before:.1f} s at the beginning"
    if longest > 5 * usual:
        return LONG, f"single gaps between tokens reach {1000 * longest:.0f} ms, {longest / usual:.0f} times the usual"
    return HEALTHY, f"nothing is paused, no gap is over {1000 * longest:.0f} ms, the queue's age stays at {age:.1f} s"
