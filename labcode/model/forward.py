"""Three ways to carry out one step: one request, a ragged batch (selective batching), a padded batch.

All three are made of the parts in `labcode.model.layers` and give the same logits. They differ in what they
make of a step whose sequences bring different numbers of new positions and different histories:

- `forward_one` serves one request and reads every weight for it alone;
- `forward_ragged` lays all new positions end to end, so that each weight is read once for all of them, and
  takes the requests apart for attention only (Yu et al. 2022, §3.2);
- `forward_padded` fills everything up to rectangles, as a tensor with a batch dimension demands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np
from numpy.typing import NDArray

from labcode.model.cache import KVCache
from labcode.model.counters import Counter
from labcode.model.layers import attention, embed, linear, project, rms_norm, softmax, swiglu
from labcode.model.weights import Llama

Array = NDArray[np.floating]
Ints = NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class Chunk:
    """What one request brings into a step: its new tokens, and the cache that holds its history.

    A whole prompt, a piece of one, or the single token of a decode: the forward pass does not care.
    """

    tokens: Sequence[int] | Ints
    cache: KVCache


def forward_one(model: Llama, tokens: Sequence[int] | Ints, cache: KVCache, count: Counter | None = None) -> Array:
    """Process the new `tokens` of one request and return the logits of the last one, [V].

    Parameters
    ----------
    model : Llama
        The model.
    tokens : sequence of int, length Q >= 1
        New tokens, each in [0, V).
    cache : KVCache
        The request's history; holds Q more positions afterwards.
    count : Counter, optional
        Is added to.

    Raises
    ------
    ValueError
        If a token is not in the vocabulary, the sequence gets longer than the model's context, or the cache
        belongs to another model. The cache is then as it was.
    """
    count = Counter() if count is None else count
    [new] = _checked(model, [Chunk(tokens, cache)])
    eps = model.config.norm_eps
    positions = cache.length + np.arange(len(new))
    x = embed(model.embedding, new, count)  # [Q, H]
    for n, layer in enumerate(model.layers):
        h = rms_norm(x, layer.norm_attention, eps, count)
        query, key, value = project(h, layer, positions, model.config, count)
        mixed = attention(query, *cache.append(n, key, value), count)  # [Q, A D]
        x = x + linear(mixed, layer.output, count)
        x = x + swiglu(rms_norm(x, layer.norm_mlp, eps, count), layer, count)
    cache.advance(len(new))
    _tally(count, [(len(new), cache.length)])
    return _logits(model, x[-1], count)


def forward_ragged(
    model: Llama,
    batch: Iterable[Chunk],
    count: Counter | None = None,
) -> Array:
    """Selective batching: process all new tokens of a step together.

    Return the logits of each request's last new token, [B, V].

    Parameters
    ----------
    batch : iterable of Chunk
        At least one; each request with a cache of its own.

    Raises
    ------
    ValueError
        As `forward_one`; also if the batch is empty or a cache comes twice.
        All caches are then as they were.
    """
    count = Counter() if count is None else count
    batch = list(batch)
    new = _checked(model, batch)
    eps = model.config.norm_eps
    caches = [chunk.cache for chunk in batch]
    sizes = np.array([len(tokens) for tokens in new])  # Q of each request
    past = np.array([cache.length for cache in caches])
    ends = np.cumsum(sizes)  # where each request's rows end
    rows = list(map(slice, ends - sizes, ends))
    positions = np.concatenate(list(map(np.arange, past, past + sizes)))

    x = embed(model.embedding, np.concatenate(new), count)  # [T, H]
    for n, layer in enumerate(model.layers):
        h = rms_norm(x, layer.norm_attention, eps, count)
        # Queries [T, A, D], keys and values [T, K, D].
        query, key, value = project(h, layer, positions, model.config, count)
        parts = []
        for r, cache in zip(rows, caches, strict=True):  # split by request
            keys, values = cache.append(n, key[r], value[r])
            parts.append(attention(query[r], keys, values, count))
        merged = np.concatenate(parts)  # [T, A D]
        x = x + linear(merged, layer.output, count)
        x = x + swiglu(rms_norm(x, layer.norm_mlp, eps, count), layer, count)

    for cache, tokens in zip(caches, new, strict=True):
        cache.advance(len(tokens))
    _tally(count, zip(sizes.tolist(), (past + sizes).tolist(), strict=True))
    return _logits(model, x[ends - 1], count)


def forward_padded(model: Llama, batch: Iterable[Chunk], count: Counter | None = None) -> Array:
    """Process a step as one rectangle [B, P, H], P the largest number of new positions; return logits [B, V].

    Short requests are filled up with token 0 on the right, and their caches to the length of the longest. The
    counter tells what the rectangles cost: padded rows go through every linear layer, padded pairs through
    attention, padded positions through memory. The caches keep real positions only, so a padded step can
    follow a ragged one.

    Raises
    ------
    ValueError
        As `forward_ragged`.
    """
    count = Counter() if count is None else count
    batch = list(batch)
    new = _checked(model, batch)
    config, eps = model.config, model.config.norm_eps
    lengths = np.array([len(tokens) for tokens in new])
    past = np.array([chunk.cache.length for chunk in batch])
    B, P, C = len(batch), int(lengths.max()), int((past + lengths).max())

    tokens = np.zeros((B, P), dtype=np.int64)
    for row, ids in zip(tokens, new, strict=True):
        row[: len(ids)] = ids
    # A padded query sees what the last real one sees, so that its softmax is over something; its result is
    # lost.
    seen = past[:, None] + np.minimum(np.arange(P), lengths[:, None] - 1)  # [B, P]: the last key that a query sees
    hidden_keys = np.arange(C) > seen[..., None]  # [B, P, C]

    x = embed(model.embedding, tokens, count)  # [B, P, H]
    for n, layer in enumerate(model.layers):
        h = rms_norm(x, layer.norm_attention, eps, count)
        query, key, value = project(h, layer, seen, config, count)
        keys, values = (np.zeros((B, config.kv_heads, C, config.head_dim), dtype=x.dtype) for _ in range(2))
        for b, chunk in enumerate(batch):
            q = lengths[b]
            keys[b, :, : past[b] + q], values[b, :, : past[b] + q] = chunk.cache.append(n, key[b, :q], value[b, :q])
        x = x + linear(_padded_attention(query, keys, values, hidden_keys, count), layer.output, count)
        x = x + swiglu(rms_norm(x, layer.norm_mlp, eps, count), layer, count)

    for chunk, q in zip(batch, lengths, strict=True):
        chunk.cache.advance(int(q))
    count.tokens += B * P
    count.pairs += B * P * C
    return _logits(model, x[np.arange(B), lengths - 1], count)


def _padded_attention(
    query: Array, keys: Array, values: Array, hidden_keys: NDArray[np.bool_], count: Counter
) -> Array:
    """Attention over a rectangle: query [B, P, A, D], keys and values [B, K, C, D] -> [B, P, A D]."""
    B, P, A, D = query.shape
    _, K, C, _ = keys.shape
    G = A // K
    grouped = query.reshape(B, P, K, G, D).transpose(0, 2, 3, 1, 4).reshape(B, K, G * P, D)
    scores = ((grouped * (1 / D**0.5)) @ keys.swapaxes(2, 3)).reshape(B, K, G, P, C)
    np.copyto(scores, -np.inf, where=hidden_keys[:, None, None])
    mixed = softmax(scores).reshape(B, K, G * P, C) @ values
    count.attention(B * P * C, A, D)
    count.cache(B * C, K, D, keys.itemsize)
    return mixed.reshape(B, K, G, P, D).transpose(0, 3, 1, 2, 4).reshape(B, P, A * D)


def _logits(model: Llama, x: Array, count: Counter) -> Array:
    """Return the scores of the next token for each given row: x [..., H] -> [..., V]."""
    return linear(rms_norm(x, model.norm, model.config.norm_eps, count), model.embedding.T, count)


def _tally(count: Counter, works: Iterable[tuple[int, int]]) -> None:
    """Add the tokens and pairs of sequences that brought `new` positions and hold `length` afterwards."""
    for new, length in works:
        count.tokens += new
        count.pairs += new * (length - new) + new * (new + 1) // 2


def _checked(model: Llama, batch: Sequence[Chunk]) -> list[Ints]:
    """Return each chunk's tokens as an array, and make room for them, once nothing can go wrong any more."""
    if not batch:
        raise ValueError("batch is empty: a step needs at least one sequence")
    config = model.config
    new: list[Ints] = []
    for b, chunk in enumerate(batch):
        here = f"batch[{b}]"
        if not isinstance(chunk.cache, KVCache) or chunk.cache.model is not model:
            raise ValueError(f"{here}.cache: belongs to another model; make one with KVCache(model)")
        if isinstance(chunk.tokens, np.ndarray):
            whole = chunk.tokens.ndim == 1 and np.issubdtype(chunk.tokens.dtype, np.integer)
        else:
            whole = all(isinstance(token, Integral) and not isinstance(token, bool) for token in chunk.tokens)
        if not whole:
            raise ValueError(f"{here}.tokens = {chunk.tokens!r}: a flat sequence of whole numbers is needed")
        tokens: Ints = np.asarray(chunk.tokens, dtype=np.int64)
        if not len(tokens):
            raise ValueError(f"{here}.tokens is empty: a sequence brings at least one new token")
        if tokens.min() < 0 or tokens.max() >= config.vocab:
            bad = tokens[(tokens < 0) | (tokens >= config.vocab)][0]
            raise ValueError(f"{here}.tokens: token {bad}: must be at least 0 and below vocab = {config.vocab}")
        if chunk.cache.length + len(tokens) > config.max_context:
            raise ValueError(
                f"{here}: {chunk.cache.length} cached + {len(tokens)} new tokens: "
                f"more than max_context = {config.max_context}"
            )
        new.append(tokens)
    if len({id(chunk.cache) for chunk in batch}) < len(batch):
        raise ValueError("batch: the same cache comes twice; every sequence of a step needs its own")
    for chunk, tokens in zip(batch, new, strict=True):
        chunk.cache.reserve(len(tokens))
    return new
