"""Delayed batching: by hand, invariants, the lecture's busy shares, and what it does not do."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcode.clipper import LatencyProfile, serve_queue, simulate_delayed, unbatched_rate
from labcode.course.evidence.clipper import (
    CLEAN,
    HIGH_FIXED,
    LOW_FIXED,
    SLO,
    delayed_batching,
    delayed_run,
    late_requests,
    request_run,
)
from labcode.queueing import fcfs


class Gaps:
    """Stands in for a generator: hands out given interarrival times, and no noise."""

    def __init__(self, gaps):
        self.gaps = np.array(gaps, dtype=float)

    def exponential(self, scale, n):
        return self.gaps[:n]

    def standard_normal(self):
        return 0.0


def test_by_hand():
    # Arrivals at 1, 1.5, 4, 4.1, 4.2; batches of B take 1 + 0.1 B; wait at most 1, at most 2 in a batch.
    run = simulate_delayed(LatencyProfile(1, 0.1), 1.0, 5, 1.0, 2, rng=Gaps([1, 0.5, 2.5, 0.1, 0.1]))
    assert run.batch.tolist() == [2, 2, 1]
    assert run.percentile(50) == sorted(run.latency)[2] and run.percentile(99) == max(run.latency)  # the nearest rank
    # First batch is full at 1.5; the second at 4.1, done at 5.3; then the last waits a full second.
    assert run.latency == pytest.approx([1.7, 1.2, 1.3, 1.2, 5.3 + 1 + 1.1 - 4.2])
    assert run.busy_time == pytest.approx(1.2 + 1.2 + 1.1)
    assert run.span == pytest.approx(7.4)


@given(st.floats(0.1, 3), st.floats(0, 2), st.integers(1, 20), st.integers(0, 10_000))
@settings(max_examples=50, deadline=None)
def test_invariants(load, wait, max_batch, seed):
    profile = LatencyProfile(0.5, 0.5)
    run = simulate_delayed(profile, load, 200, wait, max_batch, rng=np.random.default_rng(seed))
    assert run.batch.sum() == 200
    assert run.batch.max() <= max_batch
    assert run.batch.min() >= 1
    assert np.all(run.latency >= profile.latency(1) - 1e-9)
    assert 0 < run.busy <= 1 + 1e-12
    assert run.busy_time == pytest.approx(0.5 * len(run.batch) + 0.5 * 200)


@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_batches_of_one_without_wait_are_a_plain_queue(seed):
    run = simulate_delayed(LatencyProfile(0.2, 0.5), 1.0, 300, 0.0, 1, rng=np.random.default_rng(seed))
    arrivals = np.cumsum(np.random.default_rng(seed).exponential(1.0, 300))
    assert run.latency == pytest.approx(fcfs(arrivals, np.full(300, 0.7)) - arrivals)


@pytest.mark.slow
def test_figures_of_the_lecture_over_20_seeds():
    figures = delayed_batching()
    assert figures["high 0 busy"].mean == pytest.approx(0.64, abs=0.05)
    assert figures["high 2 busy"].mean == pytest.approx(0.40, abs=0.05)
    # The low fixed cost gathers much larger batches for a few points, and pays many times the latency.
    assert figures["low 2 batch"].mean > 10 * figures["low 0 batch"].mean
    assert 0.02 < figures["low 0 busy"].mean - figures["low 2 busy"].mean < 0.10
    assert figures["low 2 latency"].mean > 5 * figures["low 0 latency"].mean
    assert figures["high 2 latency"].mean < 2 * figures["high 0 latency"].mean


def test_waiting_saves_work_not_throughput_in_an_open_loop():
    # Below capacity the throughput is the arrival rate, with and without delay.
    for profile in (HIGH_FIXED, LOW_FIXED):
        without, with_wait = (delayed_run(profile, wait, seed=1) for wait in (0.0, 0.002))
        assert with_wait.throughput == pytest.approx(without.throughput, rel=0.01)
        assert with_wait.busy < without.busy
    # Far above it the batches fill by themselves.
    rate = 3 / HIGH_FIXED.latency(1)
    busy = [simulate_delayed(HIGH_FIXED, rate, 5000, wait, 8, rng=np.random.default_rng(0)) for wait in (0.0, 0.002)]
    assert busy[1].throughput == pytest.approx(busy[0].throughput, rel=0.05)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rate": 0}, "rate = 0"),
        ({"n": 0}, "n = 0"),
        ({"max_wait": -1}, "max_wait = -1"),
        ({"max_batch": 0}, "max_batch = 0"),
    ],
)
def test_refusals_name_argument_and_value(changes, message):
    arguments = {"rate": 1.0, "n": 5, "max_wait": 0.0, "max_batch": 2} | changes
    with pytest.raises(ValueError, match=message):
        simulate_delayed(HIGH_FIXED, **arguments, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="load = 0"):
        unbatched_rate(HIGH_FIXED, 0)


def test_the_two_timers_by_hand():
    # Batches of B take 1 s, wait at most 1. The second request comes during the first batch (1 to 2) at 1.9.
    profile, arrivals = LatencyProfile(1.0, 1e-9), np.array([0.0, 1.9])
    free, oldest = (serve_queue(profile, arrivals, 1.0, 5, rng=Gaps([]), timer=timer) for timer in ("free", "oldest"))
    assert free.latency == pytest.approx([2.0, 2.1])  # free at 2, and a second more: 3 to 4
    assert oldest.latency == pytest.approx([2.0, 2.0])  # its second is over at 2.9
    late = serve_queue(profile, np.array([0.0, 1.1, 5.0]), 0.5, 5, rng=Gaps([]), timer="oldest")
    assert late.latency == pytest.approx([1.5, 1.5, 1.5])
    with pytest.raises(ValueError, match="timer"):
        serve_queue(profile, arrivals, 1.0, 5, rng=Gaps([]), timer="never")


def test_requests_are_late_although_no_batch_is():
    run = request_run(1360.0, 34, seed=0)
    assert CLEAN.latency(int(run.batch.max())) <= SLO
    assert 0.1 < run.late_share(SLO) < 0.25
    assert late_requests(1360.0, 34).mean == pytest.approx(0.16, abs=0.02)


def test_half_the_slo_holds_for_evenly_spaced_arrivals_and_no_more():
    half = CLEAN.max_batch(SLO / 2)
    rate = CLEAN.throughput(half)
    assert request_run(rate, half, None).latency.max() <= SLO
    assert request_run(rate * 1.05, half, None).late_share(SLO) > 0.5
    assert request_run(rate, 34, seed=0).late_share(SLO) > 0.1  # Poisson: the rule is no bound
