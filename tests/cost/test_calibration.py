"""Cost models fitted to measured steps: known prices are found again, and predictions cover what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcode import simulate, workload
from labcode.cost import SeqWork, StepShape, as_cost
from labcode.cost.calibration import StepTimeEstimate, estimate, fit, measure
from labcode.cost.formula import Roofline
from labcode.cost.measured import MeasuredCost, a100_llama3_8b, samples
from labcode.cost.roofline import RooflineCost


def random_shapes(n, seed, longest=2000):
    """Mixed steps as an engine makes them: up to two prompts, up to 200 decodes."""
    rng = np.random.default_rng(seed)
    shapes = []
    for _ in range(n):
        prompts = [SeqWork(int(rng.integers(1, longest))) for _ in range(rng.integers(0, 3))]
        decodes = int(rng.integers(0 if prompts else 1, 200))
        shapes.append(StepShape.of(prompts, decodes, decodes * int(rng.integers(50, longest))))
    return shapes


def timed(cost, shapes, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    return [(shape, cost.step_time(shape) * float(np.exp(noise * rng.standard_normal()))) for shape in shapes]


prices = st.floats(0.1, 10)


@given(prices, prices, prices, prices, prices)
@settings(max_examples=30, deadline=None)
def test_known_prices_are_found_again(fixed, new, seq, pair, position):
    truth = Roofline(5e-3 * fixed, 0.0, 1e-8 * position, 3e-5 * new, 1e-5 * seq, 3e-9 * pair)
    found = fit(timed(RooflineCost(truth, 1.0), random_shapes(60, 1)))
    assert found.cost.roofs == pytest.approx(truth, rel=1e-6)
    assert found.rank == 5 and abs(found.errors).max() < 1e-9


def test_noise_leaves_no_bias_and_shows_in_the_errors():
    truth = RooflineCost(Roofline(8e-3, 0.0, 5e-8, 3e-5, 1e-5, 3e-9), 1.0)
    found = fit(timed(truth, random_shapes(800, 2), noise=0.1))
    fresh = random_shapes(200, 3)
    ratio = np.array([found.cost.step_time(s) / truth.step_time(s) for s in fresh])
    assert abs(ratio - 1).max() < 0.05
    assert found.typical_error == pytest.approx(0.0674, abs=0.01), "0.6745 standard deviations"
    assert abs(found.bias) < 0.02


def test_prices_are_never_negative():
    """A machine that gets quicker with more positions: the price of a position is zero, not below."""
    odd = [(StepShape.of((), 4, kv), 1.0 - kv * 1e-5) for kv in (100, 1000, 10_000)]
    assert min(fit(odd).cost.roofs) == 0.0


def test_pure_decodes_cannot_tell_five_prices_apart():
    decodes = [StepShape.of((), b, b * kv) for b in (1, 4, 16, 64) for kv in (100, 1000, 4000)]
    truth = RooflineCost(Roofline(8e-3, 0.0, 5e-8, 3e-5, 1e-5, 3e-9), 1.0)
    found = fit(timed(truth, decodes))
    assert found.rank == 3 and abs(found.errors).max() < 1e-9


def test_real_steps_of_an_a100():
    """Whole steps measured by Vidur's authors, decodes and prefills, from 0.01 to 0.5 s."""
    table = samples("a100_llama3_8b_full_step")
    steps = []
    for row in table.itertuples(index=False):
        size, kv = int(row.batch_or_chunk_tokens), int(row.kv_len_tokens)
        shape = StepShape.of((), size, size * kv) if row.kind == "decode" else StepShape.of([SeqWork(size, kv)])
        steps.append((shape, float(row.sum_ms_32layers) * 1e-3))
    found = fit(steps)
    assert found.typical_error < 0.07 and abs(found.errors).max() < 0.5
    assert 5e-3 < found.cost.roofs.read_weights < 15e-3, "16 GB at 1 to 3 TB/s"


def test_steps_of_predicted_tables(shared_data):
    parts = ("compute", "attn_decode", "attn_prefill")
    truth = MeasuredCost.from_csv(*(shared_data / f"vidur_predicted_{part}_ms_per_layer.csv" for part in parts), 32)
    found = fit(timed(truth, random_shapes(400, 4)))
    fresh = timed(truth, random_shapes(400, 5))
    judged = StepTimeEstimate(found.cost, 1.0).judge(fresh)
    assert abs(judged.bias) < 0.05
    errors = [found.cost.step_time(shape) / seconds - 1 for shape, seconds in fresh]
    assert np.median(np.abs(errors)) < 0.1


@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.99])
def test_a_prediction_covers_what_it_promises(coverage):
    truth = a100_llama3_8b()
    cost = fit(timed(truth, random_shapes(200, 6), noise=0.1)).cost
    prediction = estimate(cost, timed(truth, random_shapes(500, 7), noise=0.1, seed=1), coverage)
    judged = prediction.judge(timed(truth, random_shapes(4000, 8), noise=0.1, seed=2))
    assert judged.n == 4000 and judged.coverage == pytest.approx(coverage, abs=0.04)
    assert judged.bias > 0 if coverage >= 0.9 else abs(judged.bias) < 0.1


def test_the_margin_is_the_rank_that_leaves_room_for_one_more():
    cost, shape = RooflineCost(Roofline(1.0, 0.0, 0.0, 0.0, 0.0, 0.0), 1.0), StepShape.of((), 1, 10)
    nine = [(shape, k / 10) for k in range(1, 10)]
    assert estimate(cost, nine, 0.9).margin == 0.9, "the ninth of ten ranks"
    assert estimate(cost, nine, 0.5).margin == 0.5
    assert estimate(cost, [*nine, (shape, 1.0)], 0.5).margin == 0.6, "5.5 ranks of eleven are rounded up"
    with pytest.raises(ValueError, match="8 steps, but at least 9 are needed"):
        estimate(cost, nine[:8], 0.9)
    assert StepTimeEstimate(cost, 0.5).judge(nine).coverage == pytest.approx(5 / 9)


def test_whole_steps_are_not_the_sum_of_their_sequences():
    prediction = StepTimeEstimate(a100_llama3_8b(), 1.1)
    works = [SeqWork(200), SeqWork(300)]
    whole = prediction.step_time(StepShape.of(works))
    assert whole < sum(prediction.step_time(StepShape.of([work])) for work in works)
    assert whole == pytest.approx(1.1 * a100_llama3_8b().step_time(StepShape.of(works)))


def test_a_fitted_machine_can_be_simulated():
    cost = fit(timed(a100_llama3_8b(), random_shapes(200, 9))).cost
    load = workload.chat(40, 3.0, 0)
    runs = [simulate(load, gpu="a100-80", memory="oracle", cost=which) for which in (cost, a100_llama3_8b())]
    ours, theirs = ((run.requests["finished"] - run.requests["arrival"]).mean() for run in runs)
    assert ours == pytest.approx(theirs, rel=0.1)
    prediction = StepTimeEstimate(cost, 1.2)
    assert as_cost(prediction) is prediction
    assert prediction.decode_times([3], [300])[0] == pytest.approx(prediction.step_time(StepShape.of((), 3, 300)))


def test_steps_are_timed_after_one_for_warming_up_and_the_median_counts():
    now, ran = [0.0], []
    lengths = iter([100.0, 3.0, 50.0, 1.0])

    def run(shape):
        ran.append(shape)
        now[0] += next(lengths)

    shape = StepShape.of((), 1, 10)
    assert measure(run, [shape], repeat=3, clock=lambda: now[0]) == [(shape, 3.0)]
    assert len(ran) == 4


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_times_that_cannot_be_are_refused(seconds):
    shape = StepShape.of((), 1, 10)
    with pytest.raises(ValueError, match="finite time above 0"):
        fit([(shape, 1.0), (shape, seconds)])


def test_other_bad_arguments():
    shape = StepShape.of((), 1, 10)
    with pytest.raises(ValueError, match="1 steps, but at least 2"):
        fit([(shape, 1.0)])
    with pytest.raises(ValueError, match="without a sequence"):
        fit([(shape, 1.0), (StepShape.of(), 1.0)])
    with pytest.raises(ValueError, match="coverage = 1"):
        estimate(a100_llama3_8b(), [(shape, 1.0)] * 50, 1)
    with pytest.raises(ValueError, match="margin = 0"):
        StepTimeEstimate(a100_llama3_8b(), 0)
    with pytest.raises(ValueError, match="repeat = 0"):
        measure(lambda shape: None, [shape], repeat=0)
