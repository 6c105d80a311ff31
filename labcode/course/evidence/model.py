"""What the mini model shows about batching, as plain numbers: the lecture's sections 1 and 4.2, demos 1 to 3."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labcode.checks import integer
from labcode.cost.hardware import SeqWork, step_cost
from labcode.model.cache import KVCache
from labcode.model.config import SMALL, TINY, Config
from labcode.model.counters import Counter
from labcode.model.forward import Chunk, forward_one, forward_padded, forward_ragged
from labcode.model.layers import attention
from labcode.model.padding import Rectangle
from labcode.model.weights import Llama, random_model

#: The lecture's step: two prompts, and three decodes with histories of different length.
MIXED_STEP = (SeqWork(37), SeqWork(9), SeqWork(1, 120), SeqWork(1, 15), SeqWork(1, 64))


def step_of(model: Llama, works: Sequence[SeqWork], seed: int = 0) -> list[Chunk]:
    """Return a step of random tokens with these shapes, each cache holding a history."""
    rng = np.random.default_rng(integer("seed", seed, at_least=0))
    batch = []
    for work in works:
        cache = KVCache(model, room=work.past + work.new)
        if work.past:
            forward_one(model, rng.integers(0, model.config.vocab, work.past), cache)
        batch.append(Chunk(rng.integers(0, model.config.vocab, work.new), cache))
    return batch


def fresh(batch: Sequence[Chunk]) -> list[Chunk]:
    """Return the same step with copies of its caches, so that it can be carried out again."""
    return [Chunk(chunk.tokens, chunk.cache.copy()) for chunk in batch]


@dataclass(frozen=True)
class ThreeWays:
    """One step carried out one by one, ragged, and padded: logits [B, V] and counters."""

    alone: NDArray[np.floating]
    ragged: NDArray[np.floating]
    padded: NDArray[np.floating]
    count_alone: Counter
    count_ragged: Counter
    count_padded: Counter


def three_ways(config: Config = TINY, works: Sequence[SeqWork] = MIXED_STEP, seed: int = 0) -> ThreeWays:
    """Carry one step of a random model out in all three ways."""
    model = random_model(config, seed)
    batch = step_of(model, works, seed)
    alone, ragged, padded = Counter(), Counter(), Counter()
    one_by_one = [forward_one(model, chunk.tokens, chunk.cache, alone) for chunk in fresh(batch)]
    together = forward_ragged(model, fresh(batch), ragged)
    return ThreeWays(np.stack(one_by_one), together, forward_padded(model, fresh(batch), padded), alone, ragged, padded)


def weight_bytes_ratio() -> float:
    """Return L01: bytes of weights read one by one, for each byte read in one selective batch."""
    ways = three_ways()
    return ways.count_alone.weight_bytes / ways.count_ragged.weight_bytes


def logit_difference(seeds: Sequence[int] = (0,)) -> dict[str, float]:
    """Return L02: the largest difference between batched and alone, absolute and for each unit of the largest
    logit, over models and steps from these seeds; and the share of requests whose greedy token is the same.
    """
    runs = [three_ways(seed=seed) for seed in seeds]
    absolute = max(float(abs(run.ragged - run.alone).max()) for run in runs)
    scale = max(float(abs(run.ragged - run.alone).max() / abs(run.alone).max()) for run in runs)
    same = np.mean([run.ragged.argmax(axis=1) == run.alone.argmax(axis=1) for run in runs])
    return {"absolute": absolute, "relative": scale, "same_tokens": float(same)}


def counted_and_priced(works: Sequence[SeqWork] = MIXED_STEP) -> dict[str, dict[str, float]]:
    """Return L03: FLOPs and bytes as counted one by one, as counted in the batch, and by `hardware.step_cost`."""
    ways, cost = three_ways(works=works), step_cost(TINY.spec(), "h100", works)
    return {
        name: {"flops": c.flops, "weight_bytes": c.weight_bytes, "kv_bytes": c.kv_bytes}
        for name, c in (("alone", ways.count_alone), ("batched", ways.count_ragged), ("formula", cost))
    }


def padded_tokens() -> dict[str, float]:
    """Return L04: rows of the linear layers, padded and useful, as counted; and the share wasted."""
    ways = three_ways()
    padded, useful = ways.count_padded.tokens, ways.count_ragged.tokens
    return {"padded": padded, "useful": useful, "waste": 1 - useful / padded}


def padded_prompts(prompts: Sequence[int]) -> dict[str, float]:
    """Return C03: useful shares of prompts filled up to the longest, as counted in the padded forward.

    Useful are the rows and the full squares of pairs that each prompt takes in a rectangle of its own.
    """
    own = [three_ways(works=[SeqWork(length)]).count_padded for length in prompts]
    together = three_ways(works=[SeqWork(length) for length in prompts]).count_padded
    return {
        "linear": sum(count.tokens for count in own) / together.tokens,
        "attention": sum(count.pairs for count in own) / together.pairs,
    }


def padded_pairs() -> dict[str, float]:
    """Return L05: query-key pairs, padded and useful, as counted; and their ratio."""
    ways = three_ways()
    padded, useful = ways.count_padded.pairs, ways.count_ragged.pairs
    assert (padded, useful) == (Rectangle.of(MIXED_STEP).pairs, Rectangle.of(MIXED_STEP).useful_pairs)
    return {"padded": padded, "useful": useful, "ratio": padded / useful}


def forward_times(model: Llama, works: Sequence[SeqWork], repeat: int = 4) -> dict[str, float]:
    """Return the seconds that a step takes on this machine, one by one, padded and ragged: the best of `repeat`."""
    step, best = step_of(model, works), dict.fromkeys(("one by one", "padded", "ragged"), float("inf"))
    for _ in range(integer("repeat", repeat)):
        for name in best:
            again = fresh(step)
            for chunk in again:
                chunk.cache.reserve(len(chunk.tokens))
            start = time.perf_counter()
            if name == "one by one":
                for chunk in again:
                    forward_one(model, chunk.tokens, chunk.cache)
            else:
                (forward_padded if name == "padded" else forward_ragged)(model, again)
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def attention_share(model: Llama, batch: int, context: int, repeat: int = 4) -> float:
    """Return which share of a ragged decode step's time the split attention takes on this machine."""
    step, config = step_of(model, [SeqWork(1, context)] * batch), model.config
    query = np.ones((1, config.heads, config.head_dim), dtype=config.dtype)
    key = np.ones((1, config.kv_heads, config.head_dim), dtype=config.dtype)
    attending = whole = float("inf")
    for _ in range(integer("repeat", repeat)):
        again = fresh(step)
        for chunk in again:
            chunk.cache.reserve(1)
        start = time.perf_counter()
        for n in range(config.layers):
            np.concatenate([attention(query, *c.cache.append(n, key, key), Counter()) for c in again])
        middle = time.perf_counter()
        forward_ragged(model, again)
        attending, whole = min(attending, middle - start), min(whole, time.perf_counter() - middle)
    return attending / whole


@dataclass(frozen=True)
class DecodeTimes:
    """A decode step of `batch` sequences on this machine, in seconds: the smallest of several repetitions
    each.

    Attributes
    ----------
    one_by_one, together : float
        The same step as `batch` forward passes, and as one.
    read : float
        Passing once over all weights (the largest number in each array is looked for).
    """

    batch: int
    one_by_one: float
    together: float
    read: float

    @property
    def speedup(self) -> float:
        """How many times faster the batch is."""
        return self.one_by_one / self.together


def decode_times(
    batch: int = 64, context: int = 64, config: Config = SMALL, repeat: int = 5, model: Llama | None = None
) -> DecodeTimes:
    """Measure L15: a decode step on this machine, one by one and together, taking turns.

    Parameters
    ----------
    batch : int
        Sequences.
    context : int
        Positions that each has in its cache, in tokens.
    config : Config
        The model's shape, unless `model` is given.
    repeat : int
        Repetitions, of which the fastest counts: whatever else the machine does can only add to a time.
    """
    model = random_model(config) if model is None else model
    step = step_of(model, [SeqWork(1, integer("context", context))] * integer("batch", batch))
    best = [float("inf")] * 3
    for _ in range(integer("repeat", repeat) + 1):  # the first one warms up
        alone, together = fresh(step), fresh(step)
        for chunk in (*alone, *together):
            chunk.cache.reserve(1)
        start = time.perf_counter()
        for chunk in alone:
            forward_one(model, chunk.tokens, chunk.cache)
        middle = time.perf_counter()
        forward_ragged(model, together)
        end = time.perf_counter()
        for array in model.arrays():
            array.max()
        times = (middle - start, end - middle, time.perf_counter() - end)
        best = [min(pair) for pair in zip(best, times, strict=True)]
    return DecodeTimes(batch, *best)
