"""Batched equals alone; counters equal the cost model's formulas; bad input leaves every cache as it was."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcode.cost.hardware import SeqWork, step_cost
from labcode.model import (
    SMALL,
    TINY,
    Chunk,
    Config,
    Counter,
    KVCache,
    forward_one,
    forward_padded,
    forward_ragged,
    random_model,
)
from labcode.model.padding import Rectangle, padded_cost

MODEL = random_model(TINY, seed=0)
ODD = random_model(
    Config("odd", layers=3, hidden=24, heads=6, kv_heads=3, head_dim=10, ffn=31, vocab=97, max_context=200), 5
)
STEP = (SeqWork(37, 0), SeqWork(9, 0), SeqWork(1, 120), SeqWork(1, 15), SeqWork(1, 64))


def chunks(model, works, seed=0):
    """Return a step with these shapes over random tokens, each cache holding its history."""
    rng = np.random.default_rng(seed)
    batch = []
    for work in works:
        cache = KVCache(model)
        if work.past:
            forward_one(model, rng.integers(0, model.config.vocab, work.past), cache)
        batch.append(Chunk(rng.integers(0, model.config.vocab, work.new), cache))
    return batch


def copies(batch):
    return [Chunk(chunk.tokens, chunk.cache.copy()) for chunk in batch]


def content(cache):
    return cache._data[:, :, :, : cache.length].copy()


works = st.builds(SeqWork, new=st.integers(1, 40), past=st.integers(0, 150))
steps = st.lists(works, min_size=1, max_size=6)


def agrees(model, shapes, seed):
    """Assert that one step gives the same logits and caches in all three ways."""
    batch = chunks(model, shapes, seed)
    alone, padded = copies(batch), copies(batch)
    ragged_logits = forward_ragged(model, batch)
    alone_logits = np.stack([forward_one(model, chunk.tokens, chunk.cache) for chunk in alone])
    padded_logits = forward_padded(model, padded)
    np.testing.assert_allclose(ragged_logits, alone_logits, rtol=0, atol=2e-5)
    np.testing.assert_allclose(padded_logits, alone_logits, rtol=0, atol=2e-5)
    for a, b, c in zip(batch, alone, padded, strict=True):
        assert a.cache.length == b.cache.length == c.cache.length
        np.testing.assert_allclose(content(a.cache), content(b.cache), rtol=0, atol=2e-5)
        np.testing.assert_allclose(content(c.cache), content(b.cache), rtol=0, atol=2e-5)
    return ragged_logits, alone_logits


@given(steps, st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_batched_equals_alone(shapes, seed):
    agrees(MODEL, shapes, seed)


@given(steps, st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_batched_equals_alone_with_odd_dimensions(shapes, seed):
    agrees(ODD, shapes, seed)


@pytest.mark.slow
def test_batched_equals_alone_on_a_thousand_mixed_steps():
    rng = np.random.default_rng(2026)
    for seed in range(1000):
        shapes = [
            SeqWork(int(q), int(s))
            for q, s in zip(
                np.where(rng.random(5) < 0.5, 1, rng.integers(1, 40, 5)), rng.integers(0, 130, 5), strict=True
            )
        ]
        ragged, alone = agrees(MODEL, shapes, seed)
        assert (ragged.argmax(axis=1) == alone.argmax(axis=1)).all()


@pytest.mark.slow
@given(steps)
@settings(max_examples=40, deadline=None)
def test_counters_equal_the_formula(shapes):
    for model in (MODEL, ODD):
        ragged, one = Counter(), Counter()
        batch = chunks(model, shapes)
        alone = copies(batch)
        forward_ragged(model, batch, ragged)
        for chunk in alone:
            forward_one(model, chunk.tokens, chunk.cache, one)
        cost = step_cost(model.config.spec(), "h100", shapes)
        assert (ragged.flops, ragged.weight_bytes, ragged.kv_bytes) == (
            cost.flops,
            cost.weight_bytes,
            cost.kv_bytes,
        )
        singles = [step_cost(model.config.spec(), "h100", [work]) for work in shapes]
        assert one.weight_bytes == sum(single.weight_bytes for single in singles)
        assert (one.flops, one.kv_bytes) == (ragged.flops, ragged.kv_bytes)
        assert ragged.tokens == one.tokens == sum(work.new for work in shapes)
        assert ragged.pairs == one.pairs == sum(work.pairs for work in shapes)


@given(steps)
@settings(max_examples=40, deadline=None)
def test_padded_counters_equal_the_rectangles(shapes):
    count = Counter()
    forward_padded(MODEL, chunks(MODEL, shapes), count)
    box, cost = Rectangle.of(shapes), padded_cost(TINY.spec(), "h100", shapes)
    assert (count.tokens, count.pairs) == (box.tokens, box.pairs)
    assert (count.flops, count.weight_bytes, count.kv_bytes) == (cost.flops, cost.weight_bytes, cost.kv_bytes)


def test_the_lectures_mixed_step():
    box = Rectangle.of(STEP)
    assert (box.tokens, box.useful_tokens, round(100 * box.token_waste)) == (185, 49, 74)
    assert (box.pairs, box.useful_pairs, round(box.pair_ratio, 1)) == (22_385, 950, 23.6)
    assert (
        padded_cost("llama3-8b", "h100", [SeqWork(7, 3)]).weight_bytes
        == step_cost("llama3-8b", "h100", [SeqWork(7, 3)]).weight_bytes
    )
    with pytest.raises(ValueError, match="works is empty"):
        Rectangle.of([])


@given(st.lists(st.integers(1, 30), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_a_prompt_in_chunks_equals_the_prompt_at_once(sizes, seed):
    prompt = np.random.default_rng(seed).integers(0, TINY.vocab, sum(sizes))
    whole = forward_one(MODEL, prompt, KVCache(MODEL))
    cache, pairs = KVCache(MODEL), Counter()
    for end, size in zip(np.cumsum(sizes), sizes, strict=True):
        logits = forward_one(MODEL, prompt[end - size : end], cache, pairs)
    np.testing.assert_allclose(logits, whole, rtol=0, atol=2e-5)
    assert pairs.pairs == len(prompt) * (len(prompt) + 1) // 2


def test_every_token_of_the_history_matters():
    rng = np.random.default_rng(3)
    prompt = rng.integers(0, TINY.vocab, 30)
    base = forward_one(MODEL, prompt, KVCache(MODEL))
    for i in range(30):
        changed = prompt.copy()
        changed[i] = (changed[i] + 1) % TINY.vocab
        assert abs(forward_one(MODEL, changed, KVCache(MODEL)) - base).max() > 1e-3


def test_requests_do_not_see_each_other():
    base = forward_ragged(MODEL, chunks(MODEL, STEP))
    batch = chunks(MODEL, STEP)
    batch[0] = Chunk((batch[0].tokens + 1) % TINY.vocab, batch[0].cache)
    other = forward_ragged(MODEL, batch)
    np.testing.assert_allclose(other[1:], base[1:], rtol=0, atol=2e-5)
    assert abs(other[0] - base[0]).max() > 1e-2


def test_parameter_counts():
    assert sum(array.size for array in MODEL.arrays()) == TINY.params == TINY.spec().params
    assert MODEL.nbytes == 4 * TINY.params
    assert 12.5e6 < SMALL.params < 13.5e6
    assert TINY.spec().kv_bytes_per_token * 10 == chunks(MODEL, [SeqWork(1, 10)])[0].cache.nbytes


def test_seeds():
    assert all((a == b).all() for a, b in zip(MODEL.arrays(), random_model(TINY, 0).arrays(), strict=True))
    assert not (MODEL.embedding == random_model(TINY, 1).embedding).any()


@pytest.mark.parametrize("forward", [forward_ragged, forward_padded])
@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda batch: [], "batch is empty"),
        (
            lambda batch: [*batch, Chunk([TINY.vocab], KVCache(MODEL))],
            r"batch\[2\]\.tokens: token 256.*below vocab = 256",
        ),
        (lambda batch: [*batch, Chunk([-1], KVCache(MODEL))], "token -1"),
        (lambda batch: [*batch, Chunk([1.5], KVCache(MODEL))], "whole numbers"),
        (lambda batch: [*batch, Chunk([True], KVCache(MODEL))], "whole numbers"),
        (lambda batch: [*batch, Chunk([], KVCache(MODEL))], "is empty"),
        (
            lambda batch: [*batch, Chunk([0] * (TINY.max_context + 1), KVCache(MODEL))],
            "more than max_context = 1024",
        ),
        (lambda batch: [*batch, Chunk([1], batch[0].cache)], "same cache comes twice"),
        (lambda batch: [*batch, Chunk([1], KVCache(ODD))], "another model"),
        (lambda batch: [*batch, Chunk([1], KVCache(random_model(TINY, 0)))], "another model"),
    ],
)
def test_bad_steps_change_nothing(forward, spoil, message):
    batch = chunks(MODEL, [SeqWork(3, 10), SeqWork(1, 20)])
    before = [(chunk.cache.length, chunk.cache.room, content(chunk.cache)) for chunk in batch]
    count = Counter()
    with pytest.raises(ValueError, match=message):
        forward(MODEL, spoil(batch), count)
    for chunk, (length, room, data) in zip(batch, before, strict=True):
        assert (chunk.cache.length, chunk.cache.room) == (length, room)
        np.testing.assert_array_equal(content(chunk.cache), data)
    assert count == Counter()


def test_the_context_may_be_filled_but_not_passed():
    cache = KVCache(ODD)
    forward_one(ODD, [1] * 199, cache)
    forward_one(ODD, [1], cache)
    with pytest.raises(ValueError, match=r"200 cached \+ 1 new"):
        forward_one(ODD, [1], cache)
    assert cache.length == 200


@pytest.mark.parametrize(
    "change, message",
    [
        ({"kv_heads": 3}, "kv_heads = 3: must divide heads = 4"),
        ({"head_dim": 15}, "head_dim = 15: must be even"),
        ({"layers": 0}, "layers = 0"),
        ({"dtype": "float16"}, "known are float32, float64"),
        ({"rope_theta": float("nan")}, "finite"),
    ],
)
def test_bad_configs(change, message):
    with pytest.raises(ValueError, match=message):
        replace(TINY, **change)


def test_bad_weights():
    with pytest.raises(ValueError, match="embedding: "):
        replace(MODEL, embedding=MODEL.embedding.T)
    with pytest.raises(ValueError, match="float64"):
        replace(MODEL, norm=MODEL.norm.astype(float))
    with pytest.raises(ValueError, match="layers: 1 given"):
        replace(MODEL, layers=MODEL.layers[:1])
