"""The weights of a model: arrays with names, random ones from a seed, and Hugging Face's names for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from labcode.checks import integer
from labcode.model.config import Config

Array = NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class Layer:
    """One block. A matrix of shape [in, out] maps a row x of shape [in] to ``x @ matrix``."""

    norm_attention: Array  # [H]
    query: Array  # [H, A D]
    key: Array  # [H, K D]
    value: Array  # [H, K D]
    output: Array  # [A D, H]
    norm_mlp: Array  # [H]
    gate: Array  # [H, F]
    up: Array  # [H, F]
    down: Array  # [F, H]


@dataclass(frozen=True, eq=False)
class Llama:
    """A model: its shape and its weights. Whoever runs it keeps the caches; the model itself never changes.

    Raises
    ------
    ValueError
        If an array has another shape or number format than `config` says.
    """

    config: Config
    embedding: Array  # [V, H], read row by row at the entrance and as a whole at the exit
    layers: tuple[Layer, ...]
    norm: Array  # [H]

    def __post_init__(self) -> None:
        if len(self.layers) != self.config.layers:
            raise ValueError(f"layers: {len(self.layers)} given, config {self.config.name!r} has {self.config.layers}")
        wanted = layer_shapes(self.config)
        for n, layer in enumerate(self.layers):
            for name, shape in wanted.items():
                _expect(f"layers[{n}].{name}", getattr(layer, name), shape, self.config)
        _expect("embedding", self.embedding, (self.config.vocab, self.config.hidden), self.config)
        _expect("norm", self.norm, (self.config.hidden,), self.config)

    @property
    def nbytes(self) -> int:
        """Bytes of all weights."""
        return sum(array.nbytes for array in self.arrays())

    def arrays(self) -> list[Array]:
        """Return every weight array once."""
        blocks = [getattr(layer, field.name) for layer in self.layers for field in fields(Layer)]
        return [self.embedding, *blocks, self.norm]


def layer_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Return the shape of each weight of a block, by name."""
    hidden, ffn = config.hidden, config.ffn
    query, key = config.heads * config.head_dim, config.kv_heads * config.head_dim
    return {
        "norm_attention": (hidden,),
        "query": (hidden, query),
        "key": (hidden, key),
        "value": (hidden, key),
        "output": (query, hidden),
        "norm_mlp": (hidden,),
        "gate": (hidden, ffn),
        "up": (hidden, ffn),
        "down": (ffn, hidden),
    }


def _expect(name: str, array: Array, shape: tuple[int, ...], config: Config) -> None:
    if array.shape != shape or array.dtype != np.dtype(config.dtype):
        raise ValueError(
            f"{name}: {array.shape} of {array.dtype}: config {config.name!r} needs {shape} of {config.dtype}"
        )


def random_model(config: Config, seed: int = 0) -> Llama:
    """Return a model with random weights, the same for the same seed.

    Matrices are normal with variance 1/in, so that activations neither grow nor fade on their way; norms
    scatter around 1, so that a test notices when one is left out. Such a model says nothing sensible, but it
    says it reproducibly, and what it says depends on every token that it has seen, which is all that a
    scheduler's test needs.

    Parameters
    ----------
    config : Config
        The shape.
    seed : int
        Seed of the numpy Generator.
    """
    rng = np.random.default_rng(integer("seed", seed, at_least=0))
    dtype = np.dtype(config.dtype)

    def draw(shape: tuple[int, ...]) -> Array:
        if len(shape) == 1:
            return (1 + 0.1 * rng.standard_normal(shape)).astype(dtype)
        return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(dtype)

    embedding = (0.5 * rng.standard_normal((config.vocab, config.hidden)) / np.sqrt(config.hidden)).astype(dtype)
    layers = tuple(
        Layer(**{name: draw(shape) for name, shape in layer_shapes(config).items()}) for _ in range(config.layers)
    )
    return Llama(config, embedding, layers, draw((config.hidden,)))


# Hugging Face keeps a matrix as [out, in]; ours is its transpose.
_HF_LAYER = {
    "norm_attention": "input_layernorm",
    "query": "self_attn.q_proj",
    "key": "self_attn.k_proj",
    "value": "self_attn.v_proj",
    "output": "self_attn.o_proj",
    "norm_mlp": "post_attention_layernorm",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}


def to_huggingface(model: Llama) -> dict[str, Array]:
    """Return the weights under the names, and in the orientation, of Hugging Face's ``LlamaForCausalLM``."""
    named = {
        "model.embed_tokens.weight": model.embedding,
        "model.norm.weight": model.norm,
        "lm_head.weight": model.embedding,
    }
    for n, layer in enumerate(model.layers):
        for ours, theirs in _HF_LAYER.items():
            named[f"model.layers.{n}.{theirs}.weight"] = getattr(layer, ours).T
    return named


def from_huggingface(config: Config, named: Mapping[str, Array]) -> Llama:
    """Return the model with these weights, given under Hugging Face's names and in its orientation ([out,
    in]).

    Raises
    ------
    ValueError
        If a name is missing or a shape does not fit `config`.
    """
    dtype = np.dtype(config.dtype)

    def take(name: str) -> Array:
        if name not in named:
            raise ValueError(f"weights: {name!r} is missing; given are {', '.join(sorted(named)[:5])} ...")
        return np.ascontiguousarray(np.asarray(named[name], dtype=dtype).T)

    layers = tuple(
        Layer(**{ours: take(f"model.layers.{n}.{theirs}.weight") for ours, theirs in _HF_LAYER.items()})
        for n in range(config.layers)
    )
    norm = take("model.norm.weight")
    if "model.embed_tokens.weight" not in named:
        raise ValueError("weights: 'model.embed_tokens.weight' is missing")
    embedding = np.ascontiguousarray(named["model.embed_tokens.weight"], dtype=dtype)
    return Llama(config, embedding, layers, norm)
