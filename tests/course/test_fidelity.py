"""The facts about the distance to metal that the appendix states."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from labcode.cost import hardware
from labcode.cost.roofline import RooflineCost
from labcode.course.evidence.fidelity import (
    LINEAR_TABLES,
    chat_under,
    compared_costs,
    fit,
    full_steps,
    layers_only,
    linear_layer_times,
    linear_residuals,
    step_errors,
)


def test_a_naive_roofline_is_too_fast_for_every_step_by_a_third_on_average():
    errors = step_errors(1.0, 1.0)
    assert (errors < 0).all()
    assert errors.mean() == pytest.approx(-0.369, abs=0.002)


def test_two_constants_bring_it_to_six_per_cent_with_the_worst_at_a_small_prefill():
    errors = step_errors(0.65, 0.61)
    assert abs(errors).mean() == pytest.approx(0.057, abs=0.001)
    assert abs(errors).max() == pytest.approx(0.23, abs=0.005)
    worst = full_steps().loc[abs(errors).idxmax()]
    assert (worst["kind"], worst["size"], worst["kv"]) == ("prefill", 128, 0)


def test_the_paper_gpu_is_fast_for_decodes_and_right_for_large_prefills():
    steps = full_steps().assign(error=step_errors(0.80, 0.60))
    decodes = steps[steps["kind"] == "decode"]
    assert decodes["error"].between(-0.24, -0.08).all()
    large = steps[(steps["kind"] == "prefill") & (steps["size"] >= 256)]
    assert abs(large["error"]).max() < 0.11


@pytest.mark.parametrize("title", LINEAR_TABLES)
def test_a_smooth_roofline_halves_what_the_best_hard_one_leaves(title):
    def left(smooth):
        return abs(linear_residuals(title, *fit(title, smooth))["error"]).mean()

    assert left(True) < 0.5 * left(False)
    assert left(True) < 0.05
    assert 1.2 < fit(title, True)[2] < 2.1


def test_a_layer_by_hand():
    gpu, model = hardware.gpu("a100-80"), hardware.model("llama3-8b")
    per_layer = 2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336
    times = linear_layer_times([1, 8192], model, gpu)
    assert times[0] == pytest.approx(2 * per_layer / (0.8 * 2.039e12))
    assert times[1] == pytest.approx(2 * per_layer * 8192 / (0.6 * 312e12))
    assert layers_only(model).params == 32 * per_layer


def test_residuals_are_zero_for_a_roofline_that_was_measured(monkeypatch):
    gpu, model = hardware.gpu("h100"), hardware.model("llama2-7b")
    tokens = np.array([1, 64, 512, 4096])
    table = pd.DataFrame({"num_tokens": tokens, "linear_ms": 1e3 * linear_layer_times(tokens, model, gpu, 1.7)})
    monkeypatch.setattr("labcode.course.evidence.fidelity.samples", lambda name: table)
    found = fit("H100, Llama-2-7B", smooth=True)
    assert found == pytest.approx((0.8, 0.6, 1.7), rel=1e-3)


def test_prices_that_are_compared_all_price_the_same_layers():
    costs = compared_costs()
    assert list(costs)[:4] == ["paper", "two constants", "smooth", "measured"]
    one = [cost.decode_times(1, 64) for cost in costs.values()]
    assert max(one) < 1.5 * min(one)
    assert isinstance(costs["paper"], RooflineCost)


def test_measured_kernels_are_slower_than_the_paper_says():
    paper, measured = (chat_under(cost, 8.0, seed=0, n=80) for cost in ("paper", "measured"))
    assert measured["tpot_p50_s"] > 1.2 * paper["tpot_p50_s"]
    assert measured["ttft_p50_s"] > 1.2 * paper["ttft_p50_s"]


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="title = 'B200': known are A100"):
        linear_residuals("B200", 1, 1)
    with pytest.raises(ValueError, match="cost = 'exact': known are paper"):
        chat_under("exact", 1.0, 0)
