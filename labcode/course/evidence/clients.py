"""Slow clients and retry storms of chapter 11: the settings that its text and its labs share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labcode.cost import StepShape, as_cost
from labcode.cost.catalogue import as_gpu, as_model
from labcode.scheduler import Budgets, Request, Scheduler, memory
from labcode.simulation.clock import PaperClock
from labcode.simulation.retries import QueueServer, RetryPolicy, RetryRun, poisson_arrivals, run_retries
from labcode.simulation.streams import Backpressure, StreamLoop

KIB = 1024
EVENT = 256  # bytes of a token on its way: a few bytes of text in their envelope
FAST = 1024.0 * KIB  # bytes/s of a client that keeps up
PLACES, CLIENTS, OUTPUT = 4, 10, 600

#: The retry experiments: a server of 20 requests/s, slow to a fifth from second 20 on, looked at for two minutes.
PACE, HORIZON, TRIGGER, SLOW_TO = 20.0, 120.0, 20.0, 0.2
TIMEOUT = 2.0


@dataclass(frozen=True)
class SteadyStep:
    """Every step takes the same time: 48 tokens a second to everybody, 12 KiB/s of events."""

    seconds: float = 1 / 48

    def step_time(self, shape: StepShape) -> float:
        """Return the time of a step, in seconds."""
        return self.seconds


def slow_clients(policy: Backpressure, read: float, slow: int = 1, clients: int = CLIENTS) -> StreamLoop:
    """Serve equal requests, all there at the start, of which the first `slow` are read at `read` bytes/s."""
    requests = [Request(i, 64, OUTPUT, 0.001 * i) for i in range(clients)]
    scheduler = Scheduler(memory("declared", 100_000), budgets=Budgets(PLACES))
    clock = PaperClock([OUTPUT] * clients, as_cost(SteadyStep(), as_model("llama3-8b"), as_gpu("h100")))
    paces: Sequence[float] = [read] * slow + [FAST] * (clients - slow)
    loop = StreamLoop(scheduler, requests, clock, paces, policy)
    loop.run()
    return loop


#: name -> (what the clients do, what the server does)
REMEDIES: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "none": ({}, {}),
    "back-off with jitter": ({"backoff": 1.0, "longest": 8.0, "jitter": True}, {}),
    "retry budget of 10 %": ({"budget": 0.1}, {}),
    "server drops the abandoned": ({}, {"drops_abandoned": True}),
    "queue of 20": ({}, {"queue": 20}),
}


def retry_storm(
    load: float, retries: int, slow_for: float, remedy: str = "none", seed: int = 0, horizon: float = HORIZON
) -> RetryRun:
    """Run clients that wait 2 s and try again after half a second, at `load` times the server's pace."""
    clients, server = REMEDIES[remedy]
    policy = RetryPolicy(**({"timeout": TIMEOUT, "retries": retries, "backoff": 0.5, "longest": 0.5} | clients))  # type: ignore[arg-type]
    site = QueueServer(PACE, slow_from=TRIGGER, slow_for=slow_for, slow_to=SLOW_TO, **server)  # type: ignore[arg-type]
    return run_retries(poisson_arrivals(load * PACE, horizon, seed), policy, site, horizon, seed + 1000)
