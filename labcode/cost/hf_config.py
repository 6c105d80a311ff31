"""Read a model's shape from the config.json that comes with its checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from labcode.checks import integer
from labcode.cost.specs import ModelSpec

#: Kinds of models whose cost is known here, by the ``model_type`` of their config.
DENSE = ("llama", "mistral", "qwen2", "qwen3")
MIXTURES = ("mixtral", "qwen3_moe", "gpt_oss")
_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}

#: MXFP4: 4 bits a number and an 8-bit scale for each 32 of them (Open Compute Project, MX specification 1.0).
MXFP4_BITS = 4 + 8 / 32


def model_from_config(path: str | PathLike[str], name: str | None = None) -> ModelSpec:
    """Read a Hugging Face ``config.json`` of a Llama, Mistral, Qwen2, Qwen3, Mixtral, Qwen3-MoE or gpt-oss model.

    The parameters are counted from the shapes: embedding tables (one if they are tied), the layers' matrices, biases
    and norms.

    A sliding window is not modelled.  Where it holds in every layer, `max_context` is cut to it, and up to there
    the window makes no difference.  Where it holds in some layers only (gpt-oss), these are priced as if they
    attended to everything: an upper bound for attention and KV cache.

    Parameters
    ----------
    path : path
        The file, or the folder that holds it.
    name : str, optional
        By default the folder's name.

    Raises
    ------
    ValueError
        If the file cannot be read, a field is missing or out of range, or the model is of a kind that is not known.
    """
    file = Path(path)
    file = file / "config.json" if file.is_dir() else file
    try:
        config = json.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise ValueError(f"path = {str(path)!r}: not a readable config.json ({error})") from error
    if not isinstance(config, dict):
        raise ValueError(f"path = {str(path)!r}: an object with the model's fields is needed")
    return from_fields(config, name or file.resolve().parent.name)


def from_fields(config: Mapping[str, Any], name: str) -> ModelSpec:
    """Return the model that the fields of a config.json describe; see `model_from_config`."""
    kind = config.get("model_type")
    if kind not in (*DENSE, *MIXTURES):
        known = ", ".join((*DENSE, *MIXTURES))
        raise ValueError(f"model_type = {kind!r}: its cost is not known here, only that of {known}")
    layers, hidden = _count(config, "num_hidden_layers"), _count(config, "hidden_size")
    heads, vocab = _count(config, "num_attention_heads"), _count(config, "vocab_size")
    kv_heads = _count(config, "num_key_value_heads", heads)
    if config.get("head_dim") is None and hidden % heads:
        raise ValueError(f"hidden_size = {hidden}: no head_dim is given, and it is no multiple of {heads} heads")
    head_dim = _count(config, "head_dim", hidden // heads)
    experts, per_token, expert_ffn = _mixture(config, str(kind))
    weight_bits, expert_bits = _quantisation(config)
    spec = ModelSpec(
        name,
        1.0,  # counted below
        layers,
        hidden,
        heads,
        kv_heads,
        head_dim,
        0 if experts else _count(config, "intermediate_size"),
        vocab,
        dtype_bytes=_dtype_bytes(config),
        max_context=_longest(config, str(kind)),
        source="config.json",
        experts=experts,
        experts_per_token=per_token,
        expert_ffn=expert_ffn,
        weight_bits=weight_bits,
        expert_bits=expert_bits,
    )
    tables = 1 if config.get("tie_word_embeddings", False) else 2
    small = _small_params(config, str(kind), spec)
    params = spec.shared_params + spec.expert_params + tables * vocab * hidden + layers * small + hidden
    return ModelSpec(**{**spec.__dict__, "params": float(params)})


def _count(config: Mapping[str, Any], field: str, default: int | None = None) -> int:
    value = config.get(field)
    if value is None:
        if default is None:
            raise ValueError(f"config.json: no field {field!r}")
        value = default
    return integer(field, value)


def _mixture(config: Mapping[str, Any], kind: str) -> tuple[int, int, int]:
    """Return experts, experts a token, and their width; zeros for a dense model."""
    if kind not in MIXTURES:
        return 0, 0, 0
    if config.get("mlp_only_layers") or config.get("decoder_sparse_step", 1) != 1:
        raise ValueError("mlp_only_layers, decoder_sparse_step: layers of two kinds are not priced")
    field = "num_experts" if kind == "qwen3_moe" else "num_local_experts"
    width = "moe_intermediate_size" if kind == "qwen3_moe" else "intermediate_size"
    own = "num_experts_per_tok" if config.get("num_experts_per_tok") is not None else "experts_per_token"
    return _count(config, field), _count(config, own), _count(config, width)


def _small_params(config: Mapping[str, Any], kind: str, spec: ModelSpec) -> int:
    """Return the parameters of one layer that are no matrices: norms, biases, attention sinks."""
    queries, keys = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
    count = 2 * spec.hidden
    if kind in ("qwen3", "qwen3_moe"):
        count += 2 * spec.head_dim  # norms of queries and keys
    if kind == "qwen2":
        count += queries + 2 * keys
    elif config.get("attention_bias", kind == "gpt_oss"):
        count += queries + 2 * keys + spec.hidden
    if config.get("mlp_bias", False):
        count += 2 * spec.ffn + spec.hidden
    if kind == "gpt_oss":
        count += spec.heads + spec.experts * (1 + 2 * spec.expert_ffn + spec.hidden)
    return count


def _dtype_bytes(config: Mapping[str, Any]) -> int:
    dtype = config.get("dtype") or config.get("torch_dtype") or "bfloat16"
    if dtype not in _BYTES:
        raise ValueError(f"torch_dtype = {dtype!r}: known are {', '.join(_BYTES)}")
    return _BYTES[dtype]


def _longest(config: Mapping[str, Any], kind: str) -> int:
    """Return the longest context: what the positions allow, or the window if every layer has one."""
    longest, window = _count(config, "max_position_embeddings"), config.get("sliding_window")
    kinds = config.get("layer_types") or []
    some_only = kind == "gpt_oss" or "full_attention" in kinds
    if window is None or config.get("use_sliding_window", True) is False or some_only:
        return longest
    return min(longest, integer("sliding_window", window))


def _quantisation(config: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return the bits of a number in the layers' matrices and in the experts', None where they are not quantised."""
    quantised = config.get("quantization_config")
    if not quantised:
        return None, None
    method = quantised.get("quant_method")
    if method == "mxfp4":
        return None, MXFP4_BITS
    if method == "fp8":
        return 8.0, None
    if method in ("awq", "gptq"):
        bits, group = integer("bits", quantised.get("bits", 4)), integer("group_size", quantised.get("group_size", 128))
        return bits + (16 + bits) / group, None  # each group has a 16-bit scale and a zero point
    raise ValueError(f"quant_method = {method!r}: known are mxfp4, fp8, awq, gptq")
