"""Answers to the exercises of chapter 7, computed."""

from __future__ import annotations

import numpy as np

from labcode import workload
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
def two_seats_continuous() -> float:
    """Iterations of the continuous engine with two seats."""
    return len(timeline(six_request_run("continuous", max_bs=2)))


@exercise("7.2b", 0)
def two_seats_static() -> float:
    """Iterations of the static engine with two seats."""
    return len(timeline(six_request_run("static", max_bs=2)))


@exercise("7.3", 1e-2)
def bubbles() -> float:
    """Share of bubbles of 2 micro-batches on 4 stages, in a long run."""
    return micro_batches([2000, 2000], 4, 2, 2, lambda sequences: 1.0).bubbles


@exercise("7.4", 0)
def safe_pool() -> float:
    """Smallest pool in which three requests of 4 + 9 tokens never stand still without reservation, in slots."""
    load = workload.from_arrays([0, 0, 0], 4, 9)
    return next(
        slots for slots in range(13, 100) if run_without_preemption(load, Paged(slots, 1), 3).standstill is None
    )
