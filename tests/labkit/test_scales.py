"""Axis ranges: one for every state, stretched only for states far beyond the rest."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labcode.labkit import scales
from labcode.labkit.panel import Axis, Panel, Series

NUMBER = st.floats(-1e6, 1e6).filter(lambda v: v == 0 or abs(v) > 1e-6)


@given(NUMBER, NUMBER, st.sampled_from("xy"))
def test_a_padded_range_holds_what_it_is_made_for(a, b, along):
    low, high = min(a, b), max(a, b)
    bottom, top = scales.padded(low, high, "linear", along)
    assert bottom <= low <= high <= top and bottom < top
    assert top - bottom <= 2.5 * max(abs(low), abs(high), 1e-9) + 1.2


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_a_padded_log_range_holds_what_it_is_made_for(a, b):
    bottom, top = scales.padded(min(a, b), max(a, b), "log", "y")
    assert 0 < bottom < min(a, b) <= max(a, b) < top


def test_one_far_state_does_not_press_the_others_flat():
    extents = [(0.0, 1.0)] * 19 + [(0.0, 1000.0)]
    assert scales.base_range(extents, 0, "linear") == (0.0, 1.0)
    axis = Axis("wait", "s")
    assert scales.domain(axis, (0.0, 1.0), extents[0], "y")[1] < 2
    assert scales.domain(axis, (0.0, 1.0), extents[-1], "y")[1] >= 1000


def test_states_near_each_other_share_one_range():
    assert scales.base_range([(0.0, 1.0)] * 19 + [(0.0, 2.5)], 0, "linear") == (0.0, 2.5)


def test_the_default_state_is_always_within_the_base():
    extents = [(0.0, 1000.0)] + [(0.0, 1.0)] * 19
    assert scales.base_range(extents, 0, "linear") == (0.0, 1000.0)


def test_limits_win():
    assert scales.domain(Axis("t", limits=(0, 5)), (0.0, 100.0), (0.0, 70.0), "y") == (0, 5)


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_bars_of_two_series_lie_side_by_side(scale):
    a, b = Series("a", "bar", (1, 2, 4), (1, 1, 1)), Series("b", "bar", (1, 2, 4), (1, 1, 1), role="baseline")
    edges = scales.bar_edges(Panel("k", "T", Axis("x", scale=scale), Axis("y"), (a, b)))
    flat = [v for i in range(3) for name in "ab" for v in (edges[name][0][i], edges[name][1][i])]
    assert all(q >= p - 1e-12 for p, q in zip(flat, flat[1:], strict=False))
    middle = math.sqrt if scale == "log" else lambda v: v / 2
    joined = edges["a"][0][0] * edges["b"][1][0] if scale == "log" else edges["a"][0][0] + edges["b"][1][0]
    assert middle(joined) == pytest.approx(1)


@given(st.floats(1e-9, 1e9))
def test_a_stretched_end_is_round_and_never_cuts(value):
    assert value <= scales.stretched(value) * (1 + 1e-9) <= value * 1.7
    assert value >= scales.stretched(value, up=False) * (1 - 1e-9) >= value / 1.7


@given(NUMBER, NUMBER, NUMBER, NUMBER, st.sampled_from("xy"))
def test_a_range_holds_base_and_state(a, b, c, d, along):
    base, here = (min(a, b), max(a, b)), (min(c, d), max(c, d))
    bottom, top = scales.domain(Axis("t"), base, here, along)
    slack = 1e-9 * max(map(abs, (*base, *here)), default=0)
    assert bottom - slack <= min(base[0], here[0]) and top + slack >= max(base[1], here[1]) and bottom < top
