"""GPUs and models by name, with the published figures that they stand for."""

from __future__ import annotations

from labcode.checks import one_of
from labcode.cost.specs import GPUSpec, ModelSpec

_NVIDIA = "NVIDIA data sheet"
GPUS: dict[str, GPUSpec] = {
    "h100": GPUSpec("h100", 989e12, 3.35e12, 80e9, f"{_NVIDIA}, H100 SXM: bf16 dense, HBM3"),
    "h200": GPUSpec("h200", 989e12, 4.8e12, 141e9, f"{_NVIDIA}, H200 SXM: bf16 dense, HBM3e"),
    "b200": GPUSpec("b200", 2250e12, 8e12, 180e9, f"{_NVIDIA}, HGX B200: bf16 dense, HBM3e, memory of one of eight"),
    "mi300x": GPUSpec("mi300x", 1307.4e12, 5.3e12, 192e9, "AMD data sheet, Instinct MI300X: bf16 dense, HBM3"),
    "a100-40": GPUSpec("a100-40", 312e12, 1.555e12, 40e9, f"{_NVIDIA}, A100 40 GB SXM: bf16 dense, HBM2"),
    "a100-80": GPUSpec("a100-80", 312e12, 2.039e12, 80e9, f"{_NVIDIA}, A100 80 GB SXM: bf16 dense, HBM2e"),
    "l4": GPUSpec("l4", 121e12, 0.3e12, 24e9, f"{_NVIDIA}, L4: bf16 dense, GDDR6"),
    "l40s": GPUSpec("l40s", 362e12, 0.864e12, 48e9, f"{_NVIDIA}, L40S: bf16 dense, GDDR6"),
}

_LLAMA = "Grattafiori et al. 2024, The Llama 3 Herd of Models, table 3"
_GPT3 = "Brown et al. 2020, table 2.1"
_QWEN3 = "Qwen Team 2025, Qwen3 Technical Report, tables 1 and 2, and the checkpoint's config.json"
_GPT_OSS = "OpenAI 2025, gpt-oss-120b & gpt-oss-20b Model Card, table 1, and the checkpoint's config.json"
_ORCA = "Yu et al. 2022, table 1"
MODELS: dict[str, ModelSpec] = {
    "llama3-8b": ModelSpec("llama3-8b", 8.03e9, 32, 4096, 32, 8, 128, 14336, 128256, source=_LLAMA),
    "llama3.1-8b": ModelSpec(
        "llama3.1-8b", 8.03e9, 32, 4096, 32, 8, 128, 14336, 128256, max_context=131072, source=_LLAMA
    ),
    "llama3-70b": ModelSpec("llama3-70b", 70.6e9, 80, 8192, 64, 8, 128, 28672, 128256, source=_LLAMA),
    "llama2-7b": ModelSpec(
        "llama2-7b", 6.74e9, 32, 4096, 32, 32, 128, 11008, 32000, max_context=4096, source="Touvron et al. 2023"
    ),
    "qwen3-8b": ModelSpec("qwen3-8b", 8.19e9, 36, 4096, 32, 8, 128, 12288, 151936, max_context=40960, source=_QWEN3),
    "qwen3-30b-a3b": ModelSpec(
        "qwen3-30b-a3b",
        params=30.5e9,
        layers=48,
        hidden=2048,
        heads=32,
        kv_heads=4,
        head_dim=128,
        ffn=0,
        vocab=151936,
        experts=128,
        experts_per_token=8,
        expert_ffn=768,
        max_context=40960,
        source=_QWEN3,
    ),
    # Every second layer of gpt-oss attends to the last 128 positions only.  It is priced as if all attended to all:
    # an upper bound for attention and KV cache, up to twice too much for long contexts.
    "gpt-oss-20b": ModelSpec(
        "gpt-oss-20b",
        params=20.91e9,
        layers=24,
        hidden=2880,
        heads=64,
        kv_heads=8,
        head_dim=64,
        ffn=0,
        vocab=201088,
        experts=32,
        experts_per_token=4,
        expert_ffn=2880,
        expert_bits=4.25,
        max_context=131072,
        source=_GPT_OSS,
    ),
    "gpt3-13b": ModelSpec("gpt3-13b", 12.9e9, 40, 5120, 40, 40, 128, 20480, 50257, 2, 2, 2048, _GPT3),
    "gpt3-101b": ModelSpec("gpt3-101b", 101e9, 80, 10240, 80, 80, 128, 40960, 50257, 2, 2, 2048, _ORCA),
    "gpt3-175b": ModelSpec("gpt3-175b", 175e9, 96, 12288, 96, 96, 128, 49152, 50257, 2, 2, 2048, _GPT3),
    "gpt3-341b": ModelSpec("gpt3-341b", 341e9, 120, 15360, 120, 120, 128, 61440, 50257, 2, 2, 2048, _ORCA),
}


def gpu(name: str) -> GPUSpec:
    """Return the GPU called `name`; ``"16xa100-40"`` is sixteen as one ideal device."""
    count, _, rest = str(name).partition("x")
    if rest in GPUS and count.isdecimal():
        return GPUS[rest].times(int(count))
    one_of("gpu", name, GPUS)
    return GPUS[name]


def model(name: str) -> ModelSpec:
    """Return the model called `name`."""
    one_of("model", name, MODELS)
    return MODELS[name]


def as_gpu(value: GPUSpec | str) -> GPUSpec:
    """Return `value` itself if it is a spec, else the GPU of that name."""
    return value if isinstance(value, GPUSpec) else gpu(value)


def as_model(value: ModelSpec | str) -> ModelSpec:
    """Return `value` itself if it is a spec, else the model of that name."""
    return value if isinstance(value, ModelSpec) else model(value)
