"""The parts of a block, each against its definition written out in plain loops."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labcode.model import TINY, Config, Counter
from labcode.model.layers import attention, rms_norm, rotary_table, rotate, silu, softmax, swiglu
from labcode.model.weights import random_model

RNG = np.random.default_rng(7)


def test_rms_norm_by_hand():
    x, weight = np.array([[3.0, 4.0]]), np.array([2.0, 0.5])
    root = math.sqrt((9 + 16) / 2 + 1e-5)
    np.testing.assert_allclose(rms_norm(x, weight, 1e-5, Counter()), [[3 / root * 2, 4 / root * 0.5]], rtol=1e-12)


def test_position_zero_is_not_turned_and_lengths_stay():
    cos, sin = rotary_table(TINY)
    x = RNG.standard_normal((5, 4, TINY.head_dim)).astype(np.float32)
    positions = np.array([0, 1, 17, 500, 1023])
    turned = rotate(x, cos[positions][:, None], sin[positions][:, None])
    np.testing.assert_array_equal(turned[0], x[0])
    np.testing.assert_allclose(np.linalg.norm(turned, axis=-1), np.linalg.norm(x, axis=-1), rtol=1e-5)


def test_rotation_turns_coordinate_i_with_its_partner_half_a_head_away():
    cos, sin = rotary_table(TINY)
    unit = np.zeros(TINY.head_dim, dtype=np.float32)
    unit[3] = 1
    angle = 9 / 10_000 ** (2 * 3 / TINY.head_dim)
    turned = rotate(unit, cos[9], sin[9])
    assert turned[3] == pytest.approx(math.cos(angle), rel=1e-6)
    assert turned[3 + TINY.head_dim // 2] == pytest.approx(math.sin(angle), rel=1e-6)
    assert np.count_nonzero(turned) == 2


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 300))
def test_scores_depend_on_the_distance_only(query_at, key_at, shift):
    config = Config("t", 1, 8, 1, 1, 8, 8, 8, dtype="float64")
    cos, sin = rotary_table(config)
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((2, 8))
    near = rotate(q, cos[query_at], sin[query_at]) @ rotate(k, cos[key_at], sin[key_at])
    far = rotate(q, cos[query_at + shift], sin[query_at + shift]) @ rotate(k, cos[key_at + shift], sin[key_at + shift])
    assert near == pytest.approx(far, abs=1e-9)


@pytest.mark.parametrize("new, past", [(1, 0), (1, 12), (5, 0), (4, 9)])
def test_attention_is_the_loop_over_queries_heads_and_visible_keys(new, past):
    A, K, D = 4, 2, 6
    query = RNG.standard_normal((new, A, D))
    keys, values = RNG.standard_normal((2, K, past + new, D))
    count = Counter()
    got = attention(query, keys, values, count).reshape(new, A, D)
    for j in range(new):
        for a in range(A):
            seen = past + j + 1
            weights = np.exp([query[j, a] @ keys[a // 2, c] / math.sqrt(D) for c in range(seen)])
            want = (weights / weights.sum()) @ values[a // 2, :seen]
            np.testing.assert_allclose(got[j, a], want, rtol=1e-10)
    assert count.flops == 4 * A * D * sum(past + j + 1 for j in range(new))
    assert count.kv_bytes == 2 * K * D * (past + new) * 8


def test_attention_leaves_its_inputs_alone():
    query, keys, values = (
        RNG.standard_normal((3, 4, 6)),
        RNG.standard_normal((2, 5, 6)),
        RNG.standard_normal((2, 5, 6)),
    )
    before = [a.copy() for a in (query, keys, values)]
    attention(query, keys, values, Counter())
    for a, b in zip((query, keys, values), before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_softmax_of_large_scores():
    np.testing.assert_allclose(softmax(np.array([[1000.0, 1000.0, -np.inf]])), [[0.5, 0.5, 0.0]])


def test_silu_is_x_times_sigmoid_and_does_not_overflow():
    x = np.array([-1000.0, -2.0, 0.0, 3.0, 1000.0])
    np.testing.assert_allclose(silu(x)[1:4], [-2 / (1 + math.exp(2)), 0, 3 / (1 + math.exp(-3))], rtol=1e-12)
    np.testing.assert_allclose(silu(x)[[0, 4]], [0, 1000], atol=1e-9)


def test_swiglu_counts_its_three_matrices():
    layer, count = random_model(TINY).layers[0], Counter()
    swiglu(np.zeros((7, TINY.hidden), dtype=np.float32), layer, count)
    assert count.flops == 2 * 7 * 3 * TINY.hidden * TINY.ffn
    assert count.weight_bytes == 4 * 3 * TINY.hidden * TINY.ffn
