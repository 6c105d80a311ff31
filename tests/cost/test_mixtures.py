"""Mixtures of experts and quantised weights: what a step reads, and what it computes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from labcode import simulate, workload
from labcode.cost import SeqWork, StepShape, hardware, paper, smooth
from labcode.cost.compiled import compiled_advance, compiled_step_time
from labcode.cost.hardware import ModelSpec, roofline, step_cost

MOE = hardware.model("qwen3-30b-a3b")
H100 = hardware.gpu("h100")
EIGHT = hardware.gpu("8xh100")


@pytest.mark.parametrize(("experts", "per_token", "tokens"), [(8, 2, 1), (8, 2, 5), (32, 4, 16), (128, 8, 40)])
def test_experts_that_a_step_reads_by_sampling(experts, per_token, tokens):
    spec = replace(MOE, experts=experts, experts_per_token=per_token)
    roofs = roofline(spec, H100)
    charged = (roofs.memory_time(tokens, 0) - roofs.read_weights - roofs.gather * tokens) / roofs.read_experts * experts
    rng = np.random.default_rng(0)
    seen = [
        len({expert for _ in range(tokens) for expert in rng.choice(experts, per_token, replace=False).tolist()})
        for _ in range(1500)
    ]
    standard_error = np.std(seen) / np.sqrt(len(seen))
    assert charged == pytest.approx(np.mean(seen), abs=4 * standard_error + 1e-9)


def test_one_token_reads_its_own_experts_and_many_read_all():
    one, many = (step_cost(MOE, EIGHT, [SeqWork(n)]).weight_bytes for n in (1, 5000))
    assert one == pytest.approx(MOE.active_params * 2, rel=1e-5)
    assert many == pytest.approx(MOE.params * 2 + 5000 * 2048 * 2, rel=1e-9)


def test_a_token_computes_with_its_own_experts_only():
    per_layer = 2048 * (2 * 32 + 2 * 4) * 128 + 2048 * 128 + 8 * 3 * 2048 * 768
    assert MOE.matmul_params == 48 * per_layer
    assert MOE.shared_params + MOE.expert_params == pytest.approx(30.5e9 - 2 * 151936 * 2048, rel=0.005)


def test_batching_pays_less_until_all_experts_are_read():
    """A batch of 16 on a dense model costs hardly more than one; on a mixture each new token brings new experts."""
    dense, mixture = paper("qwen3-8b", EIGHT), paper(MOE, EIGHT)
    dense_ratio, mixture_ratio = (
        float(cost.decode_times(16, 16 * 500) / cost.decode_times(1, 500)) for cost in (dense, mixture)
    )
    assert dense_ratio < 1.1 and mixture_ratio > 4


@pytest.mark.parametrize("p", [np.inf, 1.7])
@pytest.mark.parametrize("batch", [1, 7, 300])
def test_runs_and_compiled_steps_of_a_mixture(p, batch):
    cost = smooth(MOE, H100, p) if np.isfinite(p) else paper(MOE, H100)
    kv = 900 * batch
    times = cost.decode_times(batch, kv + batch * np.arange(50))
    assert cost.advance(StepShape.of((), batch, kv), 1.0, 50) == (50, pytest.approx(1 + times.sum(), rel=1e-12))
    form = cost.compiled_form()
    assert compiled_advance(form, batch, kv, 1.0, 50, np.inf)[1] == pytest.approx(1 + times.sum(), rel=1e-12)
    shape = StepShape.of([SeqWork(3, 5)], batch, kv)
    found = compiled_step_time(form, shape.new, shape.pairs, shape.kv, 1, 9, 5, batch, kv)
    assert found == pytest.approx(cost.step_time(shape), rel=1e-12)


def test_a_mixture_runs_through_the_front_door_stepping_or_leaping():
    load = workload.chat(30, 4.0, 0)
    fast, slow = (
        simulate(load, model=MOE, gpu="h200", memory="oracle", step_by_step=one).requests for one in (False, True)
    )
    np.testing.assert_allclose(fast["finished"], slow["finished"], rtol=1e-9)


def test_weights_and_cache_have_widths_of_their_own():
    llama = hardware.model("llama3-8b")
    four = replace(llama, weight_bits=4.5)
    assert four.kv_bytes_per_token == llama.kv_bytes_per_token
    assert four.weight_bytes == pytest.approx(llama.weight_bytes - llama.matmul_params * (2 - 4.5 / 8))
    fp8_cache = replace(llama, kv_bits=8)
    assert fp8_cache.kv_bytes_per_token == llama.kv_bytes_per_token / 2
    assert fp8_cache.weight_bytes == llama.weight_bytes
    assert hardware.kv_capacity(fp8_cache, H100) == pytest.approx(2 * hardware.kv_capacity(llama, H100), rel=1e-4)
    works = [SeqWork(1, 1000)] * 8
    slow, quick = (step_cost(model, H100, works) for model in (llama, four))
    assert quick.flops == slow.flops and quick.kv_bytes == slow.kv_bytes and quick.time < 0.5 * slow.time
    mixed = replace(MOE, weight_bits=8, expert_bits=4)
    assert mixed.expert_bytes == MOE.expert_params / 2
    assert mixed.weight_bytes == pytest.approx(
        2 * (MOE.params - MOE.shared_params - MOE.expert_params) + MOE.shared_params + MOE.expert_params / 2
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"experts": 8}, "experts_per_token = 0: must be at least 1"),
        ({"experts": 8, "experts_per_token": 9, "expert_ffn": 4}, "experts_per_token = 9: .* at most 8"),
        ({"experts": 8, "experts_per_token": 2}, "expert_ffn = 0: must be at least 1"),
        ({"expert_ffn": 4}, "expert_ffn = 4: must be at least 0 and at most 0"),
        ({"ffn": 0}, "ffn = 0: must be at least 1"),
        ({"experts": -1}, "experts = -1"),
        ({"weight_bits": 0}, "weight_bits = 0: must be above 0"),
        ({"kv_bits": float("nan")}, "kv_bits = nan"),
    ],
)  # fmt: skip
def test_fields_that_do_not_fit_together(change, message):
    fields = dict(
        name="m", params=1000, layers=2, hidden=8, heads=2, kv_heads=1, head_dim=4, ffn=16, vocab=50
    )  # fmt: skip
    with pytest.raises(ValueError, match=message):
        ModelSpec(**(fields | change))


@pytest.mark.parametrize("name", ["h100", "h200", "b200", "mi300x", "l40s"])
def test_gpus_of_today(name):
    gpu = hardware.gpu(name)
    assert "bf16 dense" in gpu.source
    assert 100 < gpu.achieved_flops / gpu.achieved_bandwidth < 400
