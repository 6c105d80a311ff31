"""Models from their config.json: counted parameters against published totals, and what is refused."""

from __future__ import annotations

import json

import pytest

from labcode.cost import hardware
from labcode.cost.hf_config import MXFP4_BITS, from_fields

LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "tie_word_embeddings": False,
    "max_position_embeddings": 131072, "torch_dtype": "bfloat16", "attention_bias": False, "mlp_bias": False,
}  # fmt: skip
QWEN3 = LLAMA | {
    "model_type": "qwen3", "num_hidden_layers": 36, "intermediate_size": 12288, "vocab_size": 151936, "head_dim": 128,
    "max_position_embeddings": 40960, "sliding_window": None, "use_sliding_window": False,
}  # fmt: skip
QWEN3_MOE = QWEN3 | {
    "model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48, "num_key_value_heads": 4,
    "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8,
    "decoder_sparse_step": 1, "mlp_only_layers": [],
}  # fmt: skip
GPT_OSS = {
    "model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 24, "num_attention_heads": 64,
    "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "num_local_experts": 32,
    "experts_per_token": 4, "num_experts_per_tok": 4, "vocab_size": 201088, "max_position_embeddings": 131072,
    "attention_bias": True, "sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"] * 12,
    "tie_word_embeddings": False, "quantization_config": {"quant_method": "mxfp4"},
}  # fmt: skip
MIXTRAL = LLAMA | {
    "model_type": "mixtral", "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2,
    "max_position_embeddings": 32768, "sliding_window": None,
}  # fmt: skip
MISTRAL = LLAMA | {"model_type": "mistral", "vocab_size": 32000, "max_position_embeddings": 32768}
QWEN2 = LLAMA | {
    "model_type": "qwen2", "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28,
    "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 152064, "sliding_window": 131072,
    "use_sliding_window": False,
}  # fmt: skip
SMALL_QWEN2 = QWEN2 | {
    "hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
    "intermediate_size": 4864, "vocab_size": 151936, "tie_word_embeddings": True,
}  # fmt: skip
SMALL_QWEN3 = QWEN3 | {
    "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16, "intermediate_size": 3072,
    "tie_word_embeddings": True,
}  # fmt: skip
SMALL_LLAMA = LLAMA | {
    "hidden_size": 2048, "num_hidden_layers": 16, "intermediate_size": 8192, "head_dim": 64,
    "tie_word_embeddings": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "published"),
    [
        (LLAMA, 8_030_261_248),  # counted by the checkpoint's own index
        (QWEN2, 7_615_616_512),
        (SMALL_QWEN2, 494_032_768),
        (SMALL_LLAMA, 1_235_814_400),
    ],
)
def test_dense_parameters_are_counted_to_the_last_one(fields, published):
    assert from_fields(fields, "m").params == published


@pytest.mark.parametrize(
    ("fields", "total", "active"),
    [
        (QWEN3, 8.2e9, 8.2e9),
        (SMALL_QWEN3, 0.6e9, 0.6e9),
        (QWEN3_MOE, 30.5e9, 3.3e9),
        (GPT_OSS, 20.91e9, 4.19e9),  # the card's 3.61e9 leave out the input table of 0.58e9
        (MIXTRAL, 46.7e9, 12.9e9),
        (MISTRAL, 7.24e9, 7.24e9),
    ],
)
def test_parameters_agree_with_what_was_published(fields, total, active):
    spec = from_fields(fields, "m")
    assert spec.params == pytest.approx(total, rel=0.01)
    assert spec.active_params == pytest.approx(active, rel=0.02)


@pytest.mark.parametrize(
    ("name", "fields"),
    [("llama3.1-8b", LLAMA), ("qwen3-8b", QWEN3), ("qwen3-30b-a3b", QWEN3_MOE), ("gpt-oss-20b", GPT_OSS)],
)
def test_the_catalogue_says_the_same(name, fields):
    ours, read = hardware.model(name).__dict__.copy(), from_fields(fields, name).__dict__.copy()
    assert ours.pop("params") == pytest.approx(read.pop("params"), rel=0.002)
    assert ours.pop("source") and read.pop("source")
    assert ours == read


def test_a_file_or_its_folder(tmp_path):
    folder = tmp_path / "Qwen3-8B"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(QWEN3))
    assert hardware.model_from_config(folder).name == "Qwen3-8B"
    assert hardware.model_from_config(folder / "config.json", name="q") == from_fields(QWEN3, "q")
    (folder / "config.json").write_text("\ufeff" + json.dumps(QWEN3), encoding="utf-8")  # some editors write one
    assert hardware.model_from_config(folder).name == "Qwen3-8B"
    run_cost = hardware.step_cost(hardware.model_from_config(folder), "h100", [hardware.SeqWork(1, 100)])
    assert run_cost.time == pytest.approx(8.19e9 * 2 / (0.8 * 3.35e12), rel=0.01)


def test_head_dim_is_derived_or_given():
    assert from_fields(LLAMA, "m").head_dim == 128
    assert from_fields(LLAMA | {"head_dim": 64}, "m").head_dim == 64
    assert from_fields({k: v for k, v in LLAMA.items() if k != "num_key_value_heads"}, "m").kv_heads == 32


def test_a_window_in_all_layers_ends_the_context_and_in_some_layers_does_not():
    assert from_fields(MISTRAL | {"sliding_window": 4096}, "m").max_context == 4096
    assert from_fields(MISTRAL | {"sliding_window": None}, "m").max_context == 32768
    assert from_fields(QWEN2, "m").max_context == 131072, "not in use"
    assert from_fields(GPT_OSS, "m").max_context == 131072


def test_quantised_checkpoints():
    oss = from_fields(GPT_OSS, "m")
    assert oss.expert_bits == MXFP4_BITS == 4.25 and oss.weight_bits is None
    assert oss.weight_bytes == pytest.approx(12.8 * 2**30, rel=0.01), "the model card's size of the checkpoint"
    awq = from_fields(LLAMA | {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}}, "m")
    tables = 2 * 128256 * 4096 * 2
    assert awq.weight_bytes == pytest.approx(tables + awq.shared_params * (4 + 20 / 128) / 8, rel=1e-4)
    fp8 = from_fields(QWEN3_MOE | {"quantization_config": {"quant_method": "fp8"}}, "m")
    assert fp8.expert_bytes == fp8.expert_params, "experts are as wide as the other matrices unless they say otherwise"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "deepseek_v3"}, "model_type = 'deepseek_v3': its cost is not known here, only that of llama"),
        ({"model_type": None}, "model_type = None"),
        ({"hidden_size": None}, "no field 'hidden_size'"),
        ({"num_hidden_layers": 0}, "num_hidden_layers = 0: must be at least 1"),
        ({"num_attention_heads": 30}, "no multiple of 30 heads"),
        ({"num_key_value_heads": 7}, "kv_heads = 7: must divide heads = 32"),
        ({"torch_dtype": "int3"}, "torch_dtype = 'int3'"),
        ({"quantization_config": {"quant_method": "magic"}}, "quant_method = 'magic': known are mxfp4"),
        ({"sliding_window": -5}, "sliding_window = -5"),
    ],
)
def test_what_cannot_be_priced_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        from_fields(LLAMA | change, "m")


def test_layers_of_two_kinds_are_refused():
    with pytest.raises(ValueError, match="layers of two kinds"):
        from_fields(QWEN3_MOE | {"mlp_only_layers": [0]}, "m")


@pytest.mark.parametrize("content", ["not json", "[1, 2]", None])
def test_a_file_that_is_no_config_is_named(tmp_path, content):
    path = tmp_path / "config.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError, match=r"config\.json"):
        hardware.model_from_config(path)
