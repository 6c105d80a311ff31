"""Answers to the exercises of chapter 7, computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from labcode import workload
from labcode.course.code_tasks import Attempt, task
from labcode.course.evidence.serving import six_request_run
from labcode.course.exercises import exercise
from labcode.results.timeline import timeline
from labcode.scheduler.kv_cache import Paged
from labcode.simulation.deadlock import run_without_preemption
from labcode.simulation.pipeline import micro_batches


@exercise("7.1", 0)
def iterations_between_ends() -> float:
    """Iterations from r3's last token to r2's."""
    seen = timeline(six_request_run("continuous"))
    return int(np.flatnonzero(seen.letters[2] == "D").max() - np.flatnonzero(seen.letters[3] == "D").max())


@exercise("7.2a", 0)
def two_places_continuous() -> float:
    """Iterations of the continuous engine with two places."""
    return len(timeline(six_request_run("continuous", max_bs=2)))


@exercise("7.2b", 0)
def two_places_static() -> float:
    """Iterations of the static engine with two places."""
    return len(timeline(six_request_run("static", max_bs=2)))


@exercise("7.3", 1e-2, share=True)
def bubbles() -> float:
    """Share of bubbles of 2 micro-batches on 4 stages, in a long run."""
    return micro_batches([2000, 2000], 4, 2, 2, lambda sequences: 1.0).bubbles


@exercise("7.4", 0)
def safe_pool() -> float:
    """Smallest pool in which three requests of 4 + 9 tokens never stand still without reservation, in slots."""
    load = workload.from_arrays([0, 0, 0], 4, 9)
    return next(
        slots for slots in range(12, 100) if run_without_preemption(load, Paged(slots, 1), 3).standstill is None
    )


def select(pool: list[dict[str, Any]], n_rsrv: int, max_bs: int, n_slots: int) -> tuple[list[int], int]:
    """Return the batch of Algorithm 1's `Select`, lines 17 to 28, and the slots reserved with it."""
    batch: list[int] = []
    waiting = [request for request in pool if request["state"] != "RUNNING"]
    for request in sorted(waiting, key=lambda request: (request["arrival"], request["id"])):
        if len(batch) == max_bs:
            break
        if request["state"] == "INITIATION":
            if n_rsrv + request["max_tokens"] > n_slots:
                break
            n_rsrv += request["max_tokens"]
        batch.append(request["id"])
    return batch, n_rsrv


def pool_of(*requests: tuple[float, int, str]) -> list[dict[str, Any]]:
    """Return requests of (arrival, max_tokens, state) as the task hands them out."""
    keys = ("arrival", "max_tokens", "state")
    return [{"id": i, **dict(zip(keys, request, strict=True))} for i, request in enumerate(requests)]


@task("7.build", limit=10.0)
def build_select(attempt: Attempt) -> None:
    """select(pool, n_rsrv, max_bs, n_slots): the ids of the batch in order of arrival, and the new n_rsrv."""
    by_hand: tuple[tuple[Any, ...], ...] = (
        (([], 0), [], 0, 4, 100),
        (([0], 30), pool_of((0.0, 30, "INITIATION")), 0, 4, 30),  # fits exactly
        (([], 1), pool_of((0.0, 30, "INITIATION")), 1, 4, 30),
        (([1], 30), pool_of((0.0, 30, "RUNNING"), (1.0, 30, "INCREMENT")), 30, 4, 30),  # asks for nothing any more
        (([1, 0], 25), pool_of((2.0, 10, "INITIATION"), (1.0, 15, "INITIATION")), 0, 4, 100),  # order of arrival
        (([0], 20), pool_of((0.0, 10, "INITIATION"), (1.0, 95, "INITIATION"), (2.0, 5, "INITIATION")), 10, 4, 100),
        (([0, 1], 20), pool_of((0.0, 10, "INITIATION"), (1.0, 10, "INITIATION"), (2.0, 5, "INITIATION")), 0, 2, 100),
    )
    for wanted, *case in by_hand:
        attempt.returns(wanted, *case)
    rng = np.random.default_rng(7)
    for _ in range(200):
        states = rng.choice(["INITIATION", "RUNNING", "INCREMENT"], rng.integers(0, 9), p=[0.5, 0.2, 0.3])
        pool = pool_of(*((float(rng.integers(0, 6)), int(rng.integers(1, 40)), str(state)) for state in states))
        rng.shuffle(pool)
        taken = sum(request["max_tokens"] for request in pool if request["state"] != "INITIATION")
        max_bs, n_slots = int(rng.integers(1, 6)), taken + int(rng.integers(0, 90))
        given = [dict(request) for request in pool]
        attempt.returns(select(pool, taken, max_bs, n_slots), given, taken, max_bs, n_slots)
        attempt.require(given == pool, "pool was changed: it is the scheduler's, not the function's")
