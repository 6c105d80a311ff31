"""The parts of a Llama block. Each is a few lines; the shapes are written in the letters of
`labcode.model.config`.

Only one of them, `attention`, cares which request a position belongs to. All others treat every row alike.
That difference is all there is to selective batching (`labcode.model.forward`).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from labcode.model.config import Config
from labcode.model.counters import Counter
from labcode.model.weights import Layer

Array = NDArray[np.floating]
Ints = NDArray[np.integer]


def embed(table: Array, tokens: Ints, count: Counter) -> Array:
    """Return the rows of `table` [V, H] for `tokens` [...], as [..., H]."""
    rows = table[tokens]
    count.weight(rows)
    return rows


def linear(x: Array, weight: Array, count: Counter) -> Array:
    """Return ``x @ weight``: x [..., in], weight [in, out]."""
    count.matmul(x.size // x.shape[-1], weight)
    return x @ weight


def rms_norm(x: Array, weight: Array, eps: float, count: Counter) -> Array:
    """Return each row of x [..., H] divided by its root mean square, times `weight` [H]."""
    count.weight(weight)
    mean_square = np.einsum("...h,...h->...", x, x)[..., None] / x.shape[-1]
    return x * (1 / np.sqrt(mean_square + eps)).astype(x.dtype) * weight


@lru_cache(maxsize=8)
def rotary_table(config: Config) -> tuple[Array, Array]:
    """Return cosine and sine of the angle ``position / theta^(2i/D)``, each [max_context, D/2]."""
    frequency = config.rope_theta ** (-np.arange(0, config.head_dim, 2) / config.head_dim)
    angle = np.arange(config.max_context)[:, None] * frequency
    return np.cos(angle).astype(config.dtype), np.sin(angle).astype(config.dtype)


def rotate(x: Array, cos: Array, sin: Array) -> Array:
    """Turn each pair (i, i + D/2) of a head's coordinates by its angle: x [..., heads, D]; cos, sin [..., 1,
    D/2].

    This is Hugging Face's "half rotation". The paper pairs neighbours (2i, 2i+1) instead; the two differ by a
    fixed permutation of the query's and key's coordinates, which leaves every score as it is.
    """
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def project(x: Array, layer: Layer, positions: Ints, config: Config, count: Counter) -> tuple[Array, Array, Array]:
    """Return rotated queries and keys, and values: x [..., H] -> [..., A, D], [..., K, D], [..., K, D]."""
    lead, dim = x.shape[:-1], config.head_dim
    cos, sin = (table[positions][..., None, :] for table in rotary_table(config))
    query = linear(x, layer.query, count).reshape(*lead, config.heads, dim)
    key = linear(x, layer.key, count).reshape(*lead, config.kv_heads, dim)
    value = linear(x, layer.value, count).reshape(*lead, config.kv_heads, dim)
    return rotate(query, cos, sin), rotate(key, cos, sin), value


def softmax(scores: Array) -> Array:
    """Return the softmax over the last axis, in place: `scores` is used up."""
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores


def attention(query: Array, keys: Array, values: Array, count: Counter) -> Array:
    """Causal attention of one sequence: its last Q positions look at all its C.

    Parameters
    ----------
    query : array [Q, A, D]
        Of the new positions.
    keys, values : array [K, C, D]
        Of the history and the new positions. Query head a looks at key/value
        head a // G.

    Returns
    -------
    array [Q, A D]

    Notes
    -----
    Query j sees past + j + 1 keys, so there are ``Q past + Q (Q + 1) / 2`` pairs,
    and these are counted. numpy computes the whole rectangle of Q times C and
    masks a part of it; a fused kernel skips that part.
    """
    Q, A, D = query.shape
    K, C, _ = keys.shape
    G, past = A // K, C - Q
    grouped = query.reshape(Q, K, G, D).transpose(1, 2, 0, 3).reshape(K, G * Q, D)
    scores = (grouped * (1 / D**0.5)) @ keys.swapaxes(1, 2)  # [K, G Q, C]
    if Q > 1:
        future = np.arange(C) > np.arange(past, C)[:, None]  # [Q, C]
        scores.reshape(K, G, Q, C)[:, :, future] = -np.inf
    mixed = softmax(scores) @ values  # [K, G Q, D]
    pairs = Q * past + Q * (Q + 1) // 2
    count.attention(pairs, A, D)
    count.cache(C, K, D, keys.itemsize)  # history read, new written
    return mixed.reshape(K, G, Q, D).transpose(2, 0, 1, 3).reshape(Q, A * D)


def silu(x: Array) -> Array:
    """Return ``x sigmoid(x)``, by tanh so that nothing overflows."""
    return x * (0.5 * np.tanh(0.5 * x) + 0.5)


def swiglu(x: Array, layer: Layer, count: Counter) -> Array:
    """Return ``down(silu(gate(x)) up(x))`` of each row: [..., H] -> [..., H]."""
    gated = silu(linear(x, layer.gate, count)) * linear(x, layer.up, count)
    return linear(gated, layer.down, count)
