"""The paper GPU: formulas by hand, specs that are plausible, arguments that are checked."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labcode.cost import StepShape, hardware
from labcode.cost import roofline as costs
from labcode.cost.hardware import GPUSpec, ModelSpec, SeqWork, kv_capacity, step_cost

works = st.lists(st.builds(SeqWork, st.integers(1, 500), st.integers(0, 5000)), min_size=1, max_size=8)


def test_llama3_8b_by_hand():
    model = hardware.model("llama3-8b")
    assert model.kv_bytes_per_token == 131072
    per_layer = 4096 * 4096 * 2 + 2 * 4096 * 1024 + 3 * 4096 * 14336
    assert model.matmul_params == 32 * per_layer
    # All of the checkpoint: matrices, two embedding tables, the norms; the published count is rounded.
    assert model.matmul_params + 2 * 128256 * 4096 + 65 * 4096 == pytest.approx(model.params, rel=1e-3)


@pytest.mark.parametrize("name", hardware.MODELS)
def test_published_parameter_counts_fit_the_shapes(name):
    model = hardware.MODELS[name]
    tables = 1 if name.startswith("gpt3") else 2
    matrices = model.shared_params + model.expert_params
    assert matrices + tables * model.vocab * model.hidden == pytest.approx(model.params, rel=0.02)


def test_a_step_by_hand():
    model = ModelSpec("m", params=1000, layers=2, hidden=8, heads=2, kv_heads=1, head_dim=4, ffn=16, vocab=50)
    gpu = GPUSpec("g", flops=1e6, bandwidth=1e6, memory=1e6, compute_efficiency=0.5, bandwidth_efficiency=0.25)
    cost = step_cost(model, gpu, [SeqWork(3, 0), SeqWork(1, 5)])
    matmul = 2 * (2 * 8 * 8 + 2 * 8 * 4 + 3 * 8 * 16)
    pairs = (1 + 2 + 3) + 6
    assert cost.flops == 2 * matmul * 4 + 2 * 8 * 50 * 2 + 4 * 2 * 2 * 4 * pairs
    assert cost.weight_bytes == 2 * (1000 + 8 * 4)
    assert cost.kv_bytes == 2 * 2 * 1 * 4 * 2 * (3 + 6)
    assert cost.time == max(cost.flops / 0.5e6, (cost.weight_bytes + cost.kv_bytes) / 0.25e6)
    assert cost.bound == "compute"


@given(works)
def test_cost_models_agree_with_step_cost(sequences):
    model, gpu = hardware.model("llama3-8b"), hardware.gpu("h100")
    shape = StepShape.of(sequences)
    hard = costs.paper(model, gpu).step_time(shape)
    assert hard == pytest.approx(step_cost(model, gpu, sequences).time, rel=1e-12)
    both = costs.RooflineCost(hardware.roofline(model, gpu), 1.0).step_time(shape)
    smooth = costs.smooth(model, gpu, 2.0).step_time(shape)
    assert hard <= smooth * (1 + 1e-12) and smooth <= both * (1 + 1e-12) and both <= 2 * hard * (1 + 1e-12)


@given(st.integers(1, 300), st.integers(1, 400000), st.integers(1, 30))
def test_runs_of_decode_steps(n_decode, kv, steps):
    cost = costs.paper("llama3-8b", "h100")
    each = [cost.step_time(StepShape.of((), n_decode, kv + i * n_decode)) for i in range(steps)]
    assert cost.decode_times(n_decode, kv + n_decode * np.arange(steps)) == pytest.approx(each, rel=1e-12)


def test_linear_profile_is_clippers():
    cost = costs.linear(0.003, 0.0005)
    for batch in (1, 34):
        assert cost.step_time(StepShape.of((), batch, 99 * batch)) == pytest.approx(0.003 + 0.0005 * batch)


@given(st.integers(1, 50), st.integers(0, 50), st.integers(1, 49))
def test_pairs_are_conserved_when_a_prompt_is_cut(new, past, cut):
    if cut < new:
        first, second = SeqWork(cut, past), SeqWork(new - cut, past + cut)
        assert first.pairs + second.pairs == SeqWork(new, past).pairs
        assert first.kv_positions + second.kv_positions == SeqWork(new, past).kv_positions + second.past


def test_capacity_and_several_gpus():
    assert kv_capacity("llama3-8b", "h100") == (0.9 * 80e9 - 2 * 8.03e9) // 131072
    sixteen = hardware.gpu("16xa100-40")
    assert sixteen.flops == 16 * 312e12 and sixteen.memory == 640e9
    assert kv_capacity("gpt3-175b", sixteen) > 0
    with pytest.raises(ValueError, match=r"gpt3-175b.*350.0 GB"):
        kv_capacity("gpt3-175b", "a100-40")


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "1", None, True])
def test_bad_specs(value):
    for field in ("flops", "bandwidth", "memory", "compute_efficiency", "bandwidth_efficiency", "usable"):
        with pytest.raises(ValueError, match=field):
            replace(hardware.gpu("h100"), **{field: value})
    with pytest.raises(ValueError, match=r"ModelSpec\.params"):
        replace(hardware.model("llama3-8b"), params=value)


def test_bad_works():
    with pytest.raises(ValueError, match="works is empty"):
        step_cost("llama3-8b", "h100", [])
    with pytest.raises(ValueError, match=r"SeqWork\(new=0"):
        SeqWork(0, 5)
    with pytest.raises(ValueError, match="kv_heads = 3: must divide"):
        replace(hardware.model("llama3-8b"), kv_heads=3)
    with pytest.raises(ValueError, match=r"p = 0\.5"):
        costs.smooth("llama3-8b", "h100", 0.5)


def test_a_workspace_is_no_room_for_kv_cache():
    free = hardware.kv_capacity("llama3-8b", "h100")
    assert hardware.kv_capacity("llama3-8b", "h100", workspace=1e9) == int((0.9 * 80e9 - 16.06e9 - 1e9) // 131_072)
    assert hardware.kv_capacity("llama3-8b", "h100", workspace=1e9) < free
    with pytest.raises(ValueError, match=r"workspace = -1"):
        hardware.kv_capacity("llama3-8b", "h100", workspace=-1)
    with pytest.raises(ValueError, match="GB"):
        hardware.kv_capacity("llama3-8b", "h100", workspace=60e9)
