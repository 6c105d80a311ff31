"""The batch-service queue against its special cases and against a simulation of its own."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcode.clipper import simulate_delayed
from labcode.clipper.profiles import LatencyProfile
from labcode.queueing import MD1, batch_capacity, batch_queue


@given(st.floats(0.05, 0.9), st.floats(0.1, 3))
@settings(max_examples=25, deadline=None)
def test_batches_of_one_are_md1(rho, service):
    ours, theory = batch_queue(rho / service, 0.0, service, 1), MD1(rho / service, service)
    assert pytest.approx(theory.W, rel=1e-6) == ours.W
    assert ours.busy == pytest.approx(rho, rel=1e-6)
    assert ours.mean_batch == pytest.approx(1)


@given(st.floats(0.05, 0.9), st.integers(1, 12), st.floats(0.1, 5))
@settings(max_examples=25, deadline=None)
def test_work_balances(load, max_batch, fixed):
    rate = load * batch_capacity(fixed, 0.5, max_batch)
    result = batch_queue(rate, fixed, 0.5, max_batch)
    assert result.batch_shares.sum() == pytest.approx(1)
    # Requests leave as fast as they come: batches a second times the mean batch.
    batches_per_second = result.busy / (fixed + 0.5 * result.mean_batch)
    assert batches_per_second * result.mean_batch == pytest.approx(rate, rel=1e-6)
    assert pytest.approx(rate * result.W) == result.L
    assert result.batch_seen >= result.mean_batch - 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.3, 0.8, 0.95])
def test_against_simulation(load):
    profile = LatencyProfile(0.003, 0.0005)
    rate = load * batch_capacity(0.003, 0.0005, 16)
    theory = batch_queue(rate, 0.003, 0.0005, 16)
    runs = [
        simulate_delayed(profile, rate, 60_000, max_wait=0.0, max_batch=16, rng=np.random.default_rng(seed))
        for seed in range(12)
    ]
    for name, stated in (
        ("mean_latency", theory.W),
        ("busy", theory.busy),
        ("mean_batch", theory.mean_batch),
    ):
        values = np.array([getattr(run, name) for run in runs])
        error = 3.1 * values.std(ddof=1) / np.sqrt(len(runs))  # 99 % by Student's t with 11 degrees
        assert abs(values.mean() - stated) <= error
        assert error < 0.06 * stated


def test_larger_batches_never_hurt_the_mean_at_high_load():
    waits = [batch_queue(1500, 0.003, 0.0005, b).W for b in (24, 32, 64)]
    assert waits == sorted(waits, reverse=True)


def test_refusals():
    with pytest.raises(ValueError, match=r"arrival_rate = 2000: must be below the capacity"):
        batch_queue(2000, 0.003, 0.0005, 34)
    with pytest.raises(ValueError, match="max_batch = 0"):
        batch_queue(1, 0.003, 0.0005, 0)
    with pytest.raises(ValueError, match="per_input = 0"):
        batch_queue(1, 0.003, 0, 4)
    with pytest.raises(ValueError, match="too close to the capacity"):
        batch_queue(0.9999, 0.0, 1.0, 1)
