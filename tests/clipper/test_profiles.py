"""Latency profiles: the lecture's arithmetic, fits that recover a line, decode limits, real measurements."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcode.clipper import (
    KERNEL,
    LINEAR,
    MEDIUM,
    TOYS,
    ControllerRun,
    LatencyProfile,
    behind_a_call,
    decode_latency,
    decode_limit,
    decode_profile,
    fit_profile,
    kernel_machine,
    linear_model,
    measure_profile,
)
from labcode.cost.hardware import SeqWork, step_cost
from labcode.course.evidence.clipper import decode_limits, exercise_2, toy_profiles


def test_exercise_2():
    assert exercise_2() == {
        "max_batch": 34,
        "qps": pytest.approx(1700),
        "slow_latency": pytest.approx(0.037),
        "slow_late_share": 1.0,
        "slow_max_batch": 17,
        "batches_until_late": 1,
        "times_out_at": 18,
        "backs_off_to": 16,
    }


@given(st.floats(0, 0.1), st.floats(1e-6, 0.1), st.floats(1e-3, 1))
def test_max_batch_is_the_largest_that_fits(fixed, per_input, slo):
    profile = LatencyProfile(fixed, per_input)
    batch = profile.max_batch(slo)
    if batch:
        assert profile.latency(batch) <= slo * (1 + 1e-6)
    assert profile.latency(batch + 1) > slo * (1 - 1e-6)


@given(st.integers(1, 500), st.integers(0, 40), st.integers(1, 50))
def test_a_whole_number_of_inputs_is_not_lost_to_rounding(batch, fixed, per_input):
    profile = LatencyProfile(fixed / 1000, per_input / 10_000)
    slo = (fixed * 10 + per_input * batch) / 10_000
    assert profile.max_batch(slo) == batch


@given(st.floats(0, 0.1), st.floats(1e-5, 0.1), st.integers(1, 1000))
def test_throughput_rises_towards_its_limit(fixed, per_input, batch):
    profile = LatencyProfile(fixed, per_input)
    assert profile.throughput(batch) <= profile.throughput(batch + 1) * (1 + 1e-12)
    assert profile.throughput(batch) <= 1 / per_input * (1 + 1e-12)


def test_throughput_is_half_its_limit_at_the_half_batch():
    profile = LatencyProfile(0.004, 0.0005)
    assert profile.half_batch() == 8
    assert profile.throughput(8) == pytest.approx(0.5 / 0.0005)


def test_toys_differ_as_the_papers_models_do():
    linear, medium, kernel = toy_profiles()
    assert linear["max_batch"] > 100 * kernel["max_batch"]
    assert (medium["max_batch"], medium["qps"]) == (34, pytest.approx(1700))
    assert linear["gain"] > 10 > medium["gain"] > 2 > kernel["gain"]
    assert linear["qps"] == pytest.approx(30_000)
    assert kernel["qps"] == pytest.approx(200)
    assert (LINEAR, MEDIUM, KERNEL) == TOYS


@given(st.floats(1e-5, 0.1), st.floats(1e-6, 0.01), st.integers(2, 40))
@settings(max_examples=30, deadline=None)
def test_fit_recovers_an_exact_line(fixed, per_input, largest):
    batches = np.arange(1, largest + 1)
    fitted = fit_profile(batches, fixed + per_input * batches)
    assert fitted.latency(1) == pytest.approx(fixed + per_input, rel=1e-5)
    assert fitted.latency(largest) == pytest.approx(fixed + per_input * largest, rel=1e-5)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9, 0.99])
def test_a_fitted_quantile_leaves_its_share_above(level):
    rng = np.random.default_rng(1)
    batches = np.tile(np.arange(1, 41), 10)
    latencies = np.array([MEDIUM.sample(int(b), rng) for b in batches])
    line = fit_profile(batches, latencies, level)
    above = np.mean(latencies > (line.fixed + line.per_input * batches) * (1 + 1e-9))
    assert above == pytest.approx(1 - level, abs=0.01)


def test_the_median_line_shrugs_off_hiccups():
    rng = np.random.default_rng(2)
    batches = np.tile(np.arange(1, 31), 10)
    latencies = np.array([MEDIUM.sample(int(b), rng) for b in batches])
    latencies[rng.choice(300, 30, replace=False)] += 0.5
    line = fit_profile(batches, latencies)
    assert line.latency(20) == pytest.approx(MEDIUM.latency(20), rel=0.05)


def test_decode_limits_of_the_lecture():
    limits = decode_limits()
    assert limits[8192] == 34
    assert 500 <= limits[512] <= 599
    assert sorted(limits.values(), reverse=True) == list(limits.values())


@given(st.integers(0, 20_000), st.integers(1, 700))
def test_decode_latency_is_the_step_cost_of_the_paper_gpu(context, batch):
    ours = decode_latency("llama3-8b", "h100", context, batch)
    assert ours == pytest.approx(step_cost("llama3-8b", "h100", [SeqWork(1, context)] * batch).time, rel=1e-9)
    assert ours >= decode_profile("llama3-8b", "h100", context).latency(batch) * (1 - 1e-9)


@given(st.integers(0, 20_000), st.floats(0.007, 0.2))
def test_decode_limit_is_the_largest_that_fits(context, tpot):
    limit = decode_limit("llama3-8b", "h100", context, tpot)
    if limit:
        assert decode_latency("llama3-8b", "h100", context, limit) <= tpot * (1 + 1e-6)
    assert decode_latency("llama3-8b", "h100", context, limit + 1) > tpot * (1 - 1e-6)


def test_all_kernel_machines_agree_behind_a_call_too():
    inputs = np.random.default_rng(0).standard_normal((50, 20))
    kinds = ({}, {"expanded": True}, {"together": True})
    answers = [kernel_machine(20, 30, 0.3, rng=np.random.default_rng(1), **kind)(inputs) for kind in kinds]
    called = behind_a_call(kernel_machine(20, 30, 0.3, rng=np.random.default_rng(1)))(inputs)
    assert set(answers[0].tolist()) == {-1.0, 1.0}
    for other in (*answers[1:], called):
        assert other.tolist() == answers[0].tolist()
    with pytest.raises(ValueError, match="expanded"):
        kernel_machine(20, 30, together=True, expanded=False, rng=np.random.default_rng(1))


def test_inputs_in_late_batches_weigh_more_than_late_batches():
    run = ControllerRun(np.array([1, 9]), np.array([0.01, 0.03]))
    assert run.late_share(0.02) == 0.5 and run.late_input_share(0.02) == 0.9
    assert math.isnan(run.late_input_share(0.02, 2))


def test_linear_model_is_an_argmax_of_a_product():
    predict = linear_model(6, 3, rng=np.random.default_rng(0))
    weights = np.random.default_rng(0).standard_normal((6, 3))
    inputs = np.random.default_rng(1).standard_normal((7, 6))
    assert predict(inputs).tolist() == [int(np.argmax(x @ weights)) for x in inputs]


def test_measured_profiles_are_ordered_as_in_the_paper():
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((64, 784))
    fitted = {}
    for name, predict, sizes in (
        ("linear", linear_model(rng=rng), (1, 8, 16, 32, 64)),
        ("kernel", kernel_machine(rng=rng, support=200), (1, 2, 4, 8)),
    ):
        table = measure_profile(predict, inputs, sizes, repeats=8, rng=rng)
        assert sorted(table.batch.unique()) == list(sizes)
        assert len(table) == 8 * len(sizes)
        fitted[name] = fit_profile(table.batch, table.latency)
    assert fitted["kernel"].per_input > 20 * fitted["linear"].per_input


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LatencyProfile(-1, 1), "LatencyProfile.fixed = -1"),
        (lambda: LatencyProfile(0, 0), "LatencyProfile.per_input = 0"),
        (lambda: LatencyProfile(0, 1, 0.5), "noise = 0.5"),
        (lambda: MEDIUM.latency(0), "batch = 0"),
        (lambda: MEDIUM.max_batch(0), "slo = 0"),
        (lambda: fit_profile([1, 1], [1.0, 2.0]), "two different sizes"),
        (lambda: fit_profile([1, 2], [1.0]), "one length"),
        (lambda: fit_profile([1, 2], [1.0, -1.0]), "above 0"),
        (lambda: fit_profile([1, 2], [1.0, 2.0], 1.0), "quantile = 1"),
        (lambda: decode_limit("llama3-8b", "h100", -1, 0.02), "context = -1"),
        (lambda: measure_profile(len, np.ones((2, 1)), [3], rng=np.random.default_rng(0)), "sizes = 3"),
    ],
)
def test_refusals_name_argument_and_value(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_an_slo_below_the_fixed_cost_allows_no_batch():
    assert MEDIUM.max_batch(0.002) == 0
