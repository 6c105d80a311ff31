"""The cache of one request: appending, growing, copying."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from labcode.model import TINY, KVCache, forward_one, random_model

MODEL = random_model(TINY, seed=0)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=10), st.integers(1, 64))
def test_appending_keeps_everything_in_order(sizes, room):
    cache = KVCache(MODEL, room=room)
    all_keys = np.random.default_rng(0).standard_normal((sum(sizes), TINY.kv_heads, TINY.head_dim)).astype(np.float32)
    start = 0
    for size in sizes:
        cache.reserve(size)
        for n in range(TINY.layers):
            keys, values = cache.append(n, all_keys[start : start + size] + n, -all_keys[start : start + size])
        cache.advance(size)
        start += size
        assert cache.length == start <= cache.room <= TINY.max_context
        np.testing.assert_array_equal(keys, all_keys[:start].swapaxes(0, 1) + np.float32(n))
        np.testing.assert_array_equal(values, -all_keys[:start].swapaxes(0, 1))


def test_growing_doubles_so_that_appends_stay_cheap():
    cache, rooms = KVCache(MODEL, room=1), set()
    for _ in range(600):
        cache.reserve(1)
        cache.advance(1)
        rooms.add(cache.room)
    assert rooms == {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}


def test_a_copy_goes_its_own_way():
    cache = KVCache(MODEL)
    forward_one(MODEL, [1, 2, 3], cache)
    twin = cache.copy()
    logits = forward_one(MODEL, [4, 5], twin)
    assert (cache.length, twin.length) == (3, 5)
    np.testing.assert_array_equal(forward_one(MODEL, [4, 5], cache), logits)
