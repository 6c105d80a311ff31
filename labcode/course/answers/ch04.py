"""Answers to the exercises of chapter 4, computed."""

from __future__ import annotations

import numpy as np

from labcode.clipper import AIMD, LatencyProfile, decode_limit, simulate_controller
from labcode.course.code_tasks import Attempt, task
from labcode.course.evidence.clipper import exercise_2
from labcode.course.exercises import exercise

SHARED, SLOWER = LatencyProfile(0.004, 0.0008), LatencyProfile(0.004, 0.0016)  # exercise 4.1
ONE, TWO = LatencyProfile(0.006, 0.0001), LatencyProfile(0.0005, 0.004)  # exercise 4.2
REQUESTS, PROMISE = LatencyProfile(0.002, 0.001), 0.024  # exercise 4.5


@exercise("4.1a", 0)
def largest_batch() -> float:
    """Largest batch of 4 + 0.8 B ms within 30 ms."""
    return SHARED.max_batch(0.030)


@exercise("4.1b", 2e-3)
def throughput() -> float:
    """Inputs/s of largest batches back to back."""
    return SHARED.throughput(SHARED.max_batch(0.030))


@exercise("4.1c", 0)
def slow_largest_batch() -> float:
    """The largest batch when each input costs double."""
    return SLOWER.max_batch(0.030)


@exercise("4.1d", 0)
def backs_off_to() -> float:
    """Batch size that AIMD retreats to after the next late batch."""
    controller = AIMD(0.030, start=SLOWER.max_batch(0.030))
    size = before = controller.next_batch()
    while size >= before:
        controller.observe(size, SLOWER.latency(size))
        before, size = size, controller.next_batch()
    return size


@exercise("4.1e", 2e-3)
def lecture_slow_batch() -> float:
    """Time of a batch of 34, in ms, when each input costs double."""
    return exercise_2()["slow_latency"] * 1e3


@exercise("4.1f", 0)
def lecture_slow_limit() -> float:
    """The largest batch then."""
    return exercise_2()["slow_max_batch"]


@exercise("4.1g", 0)
def lecture_backs_off_to() -> float:
    """Batch size that AIMD retreats to after the next late batch."""
    return exercise_2()["backs_off_to"]


@exercise("4.2a", 1e-3)
def gain_of_one() -> float:
    """The most that batching can gain for 6 + 0.1 B ms."""
    return 1 + ONE.half_batch()


@exercise("4.2b", 1e-3)
def gain_of_two() -> float:
    """The most that batching can gain for 0.5 + 4 B ms."""
    return 1 + TWO.half_batch()


@exercise("4.2c", 5e-3, share=True)
def share_of_ceiling() -> float:
    """Share of the ceiling that model one reaches at 20 ms."""
    return ONE.throughput(ONE.max_batch(0.020)) * ONE.per_input


@exercise("4.2d", 5e-3)
def gain_of_patience() -> float:
    """Factor in throughput when the target goes from 20 to 40 ms."""
    return ONE.throughput(ONE.max_batch(0.040)) / ONE.throughput(ONE.max_batch(0.020))


def late_share(limit: int, additive: int) -> float:
    """Share of late batches in AIMD's cycle without noise, for a model whose limit is `limit`."""
    flat = LatencyProfile(0.0, 1.0)  # a batch of B takes B seconds, so the target is the limit
    controller = AIMD(float(limit), additive, start=limit)
    run = simulate_controller(flat, controller, 3000, rng=np.random.default_rng(0))
    return run.late_share(limit, 600)


@exercise("4.3a", 2e-2, share=True)
def late_at_4() -> float:
    """Share late at limit 4, +1."""
    return late_share(4, 1)


@exercise("4.3b", 2e-2, share=True)
def late_at_24() -> float:
    """Share late at limit 24, +1."""
    return late_share(24, 1)


@exercise("4.3c", 5e-2, share=True)
def late_at_600() -> float:
    """Share late at limit 600, +1."""
    return late_share(600, 1)


@exercise("4.3d", 5e-2, share=True)
def late_at_600_bold() -> float:
    """Share late at limit 600, +10."""
    return late_share(600, 10)


@exercise("4.4a", 0)
def at_3000() -> float:
    """Largest decode batch within 20 ms at context 3,000."""
    return decode_limit("llama3-8b", "h100", 3000, 0.020)


@exercise("4.4b", 0)
def two_crowds() -> float:
    """Largest even batch within 20 ms, half at context 512, half at 8,192."""
    largest = decode_limit("llama3-8b", "h100", (512 + 8192) // 2, 0.020)
    return largest - largest % 2


@exercise("4.5a", 0)
def batch_within() -> float:
    """Largest batch of 2 + B ms within 24 ms."""
    return REQUESTS.max_batch(PROMISE)


@exercise("4.5b", 2e-2)
def worst_request() -> float:
    """Longest that a request takes with such batches back to back, ms."""
    return 2e3 * REQUESTS.latency(REQUESTS.max_batch(PROMISE))


@exercise("4.5c", 0)
def half_slo_batch() -> float:
    """Largest batch by the half-SLO rule."""
    return REQUESTS.max_batch(PROMISE / 2)


@exercise("4.5d", 5e-3)
def half_slo_rate() -> float:
    """Rate that the rule promises, requests/s."""
    return REQUESTS.throughput(REQUESTS.max_batch(PROMISE / 2))


@task("4.build", limit=5.0)
def build_aimd(attempt: Attempt) -> None:
    """aimd(limit, batch, took, target): the next limit, after a batch of `batch` inputs took `took` seconds."""
    for limit, batch, took, wanted in (
        (8, 8, 0.015, 9),  # full and in time: one more
        (8, 8, 0.020, 9),  # exactly the target is in time
        (8, 8, 0.021, 7),  # late: nine tenths, rounded down
        (100, 100, 0.5, 90),
        (9, 4, 0.030, 8),  # late although it was not full: still late
        (9, 4, 0.010, 9),  # in time, but not full: it says nothing about nine
        (1, 1, 0.5, 1),  # never below one
        (2, 2, 0.5, 1),
    ):
        attempt.returns(wanted, limit, batch, took, 0.020)
    attempt.returns(6, 5, 5, 1.0, 1.0)
    limit, sizes = 1, []
    for _ in range(200):
        took = 0.003 + 0.0005 * limit
        limit = attempt(limit, limit, took, 0.020)
        attempt.require(isinstance(limit, int), f"returned {limit!r}: a whole number is needed")
        sizes.append(limit)
    attempt.require(
        set(sizes[-100:]) == {31, 32, 33, 34, 35},
        f"on a model of 3 + 0.5 B ms the limits are {sorted(set(sizes[-100:]))}, not 31 to 35",
    )
