"""Controllers: AIMD step by step, the lecture's shares over 20 seeds, and one protocol for all."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labcode.clipper import (
    AIMD,
    MEDIUM,
    FixedBatch,
    LatencyProfile,
    QuantileRegression,
    SlowPhase,
    linear_model,
    run_controller,
    simulate_controller,
    timed,
)
from labcode.course.evidence.clipper import SLO, controllers, strategy_run


def test_aimd_step_by_step_without_noise():
    run = simulate_controller(LatencyProfile(0.003, 0.001), AIMD(0.020, start=16), 8, rng=np.random.default_rng(0))
    assert run.batch.tolist() == [16, 17, 18, 16, 17, 18, 16, 17]
    assert run.late_share(0.020) == 2 / 8


@given(st.floats(0.001, 1), st.integers(1, 10), st.floats(0.1, 0.95), st.lists(st.floats(0, 2), max_size=60))
def test_aimd_invariants(target, additive, backoff, latencies):
    controller = AIMD(target, additive, backoff, max_batch=50)
    for latency in latencies:
        before = controller.next_batch()
        assert 1 <= before <= 50
        controller.observe(before, latency)
        after = controller.next_batch()
        if latency <= target:
            assert after == min(before + additive, 50)
        else:
            assert after == max(1, int(before * backoff))
            assert after < before or before == 1


@pytest.mark.slow
def test_figures_of_the_lecture_over_20_seeds():
    figures = controllers()
    assert figures["aimd steady"].mean == pytest.approx(0.20, abs=0.06)
    assert figures["aimd slow"].mean == pytest.approx(0.35, abs=0.06)
    assert figures["headroom steady"].mean <= 0.02
    assert 0 < figures["headroom cost"].mean <= 0.04
    assert (figures["fixed slow"].mean, figures["fixed slow"].half) == (1.0, 0.0)
    assert figures["quantile steady"].mean <= 0.02
    assert figures["quantile slow"].mean < figures["aimd slow"].mean
    for name in ("aimd steady", "aimd slow", "headroom steady"):
        assert figures[name].high - figures[name].low < 0.02


def test_every_batch_of_the_fixed_size_is_late_in_the_slow_phase():
    for seed in range(20):
        run = strategy_run("fixed", seed)
        assert run.late_share(SLO, 300, 500) == 1.0
        assert set(run.batch) == {34}


def test_aimd_and_regression_come_back_after_the_slow_phase():
    for name in ("aimd", "quantile"):
        run = strategy_run(name, seed=0)
        before, during, after = run.batch[200:300].mean(), run.batch[400:500].mean(), run.batch[700:].mean()
        assert during < 0.7 * before
        assert after == pytest.approx(before, rel=0.1)


def test_equal_generators_meet_equal_noise():
    first = simulate_controller(MEDIUM, FixedBatch(10), 50, rng=np.random.default_rng(3))
    second = simulate_controller(MEDIUM, FixedBatch(20), 50, rng=np.random.default_rng(3))
    assert first.latency / MEDIUM.latency(10) == pytest.approx(second.latency / MEDIUM.latency(20))


def test_regression_finds_the_limit_without_noise():
    controller = QuantileRegression(0.020)
    simulate_controller(LatencyProfile(0.003, 0.0005), controller, 100, rng=np.random.default_rng(0))
    assert controller.limit == 34


def test_the_same_controllers_drive_a_real_model():
    rng = np.random.default_rng(0)
    run_batch = timed(linear_model(50, 3, rng=rng), rng.standard_normal((64, 50)))
    for controller in (AIMD(1.0, max_batch=64), FixedBatch(64)):
        run = run_controller(run_batch, controller, 30)
        assert np.all(run.latency > 0)
        assert run.batch.max() <= 64
    with pytest.raises(ValueError, match="batch = 65: inputs has 64 rows"):
        run_controller(run_batch, FixedBatch(65), 1)


def test_a_run_without_batches_in_range_has_no_share():
    run = simulate_controller(MEDIUM, FixedBatch(1), 5, rng=np.random.default_rng(0))
    assert np.isnan(run.late_share(0.02, 10, 20))
    assert np.isnan(run.throughput(10, 20))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AIMD(0), "target = 0"),
        (lambda: AIMD(0.02, additive=0), "additive = 0"),
        (lambda: AIMD(0.02, backoff=1), "backoff = 1"),
        (lambda: AIMD(0.02, start=11, max_batch=10), "start = 11"),
        (lambda: FixedBatch(0), "size = 0"),
        (lambda: QuantileRegression(0.02, quantile=1), "quantile = 1"),
        (lambda: QuantileRegression(0.02, window=5), "window = 5"),
        (lambda: SlowPhase(10, 5), "SlowPhase.end = 5"),
        (lambda: run_controller(lambda i, b: 1.0, FixedBatch(1), 0), "n_batches = 0"),
    ],
)
def test_refusals_name_argument_and_value(make, message):
    with pytest.raises(ValueError, match=message):
        make()
