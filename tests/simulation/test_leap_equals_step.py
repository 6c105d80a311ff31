"""Leaping over many steps at once changes no time stamp: the property on which every fast run rests."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcode import SLO, simulate
from labcode.cost.leap import run_length, steps_until
from labcode.simulation.static import StaticRules
from tests.simulation.random_cases import COSTS, GPU, MODEL, loads, options

TIMES = ("admitted", "first_token", "last_token", "finished")


def assert_same(fast, slow) -> None:
    """Both runs have the same outcomes and, to 1e-9, the same times for every request and token."""
    assert (fast.record.outcome == slow.record.outcome).all()
    assert (fast.record.preemptions == slow.record.preemptions).all()
    assert (fast.record.recomputed == slow.record.recomputed).all()
    assert set(fast.record.reasons) == set(slow.record.reasons)
    for name in TIMES:
        np.testing.assert_allclose(getattr(fast.record, name), getattr(slow.record, name), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fast.decode_ends, slow.decode_ends, rtol=1e-9, atol=1e-12)
    for request in range(len(fast.load)):
        np.testing.assert_allclose(fast.token_times(request), slow.token_times(request), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fast.largest_itl(), slow.largest_itl(), rtol=1e-6, atol=1e-9)


@settings(max_examples=80, deadline=None)
@given(loads(), options())
def test_every_policy_in_short(load, chosen):
    """A first look for `make test-quick`; the tests below look longer, each at one way to run."""
    assert_same(simulate(load, **chosen), simulate(load, step_by_step=True, **chosen))


@pytest.mark.slow
@settings(max_examples=700, deadline=None)
@given(loads(), options())
def test_every_policy(load, chosen):
    assert_same(simulate(load, **chosen), simulate(load, step_by_step=True, **chosen))


@pytest.mark.slow
@settings(max_examples=700, deadline=None)
@given(
    loads(),
    options(memories=("max:256", "pow2", "oracle", "unlimited"), costs=("paper", "smooth", "linear", "measured")),
)
def test_compiled_loop_against_readable_loop(load, chosen):
    if chosen["prefill"] == "chunked":
        chosen |= {"prefill": "prefill_first"}
        del chosen["token_budget"]
    assert_same(simulate(load, **chosen), simulate(load, step_by_step=True, **chosen))


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(loads(), options(memories=("max:256", "pow2", "oracle", "unlimited"), costs=("paper", "linear")))
def test_readable_loop_leaps_too(load, chosen):
    """What a machine without the compiler runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_module("labcode.simulate"), "AVAILABLE", False)
        assert_same(simulate(load, **chosen), simulate(load, step_by_step=True, **chosen))


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(
    loads(),
    st.sampled_from(list(COSTS)),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 3, 16]),
    st.sampled_from(["max:256", "oracle", "unlimited"]),
)
def test_static_engine(load, cost, padded, keep_seats, early_return, max_bs, memory):
    rules = StaticRules(max_bs, padded, keep_seats, early_return)
    chosen = dict(
        model=MODEL,
        gpu=GPU,
        engine="static",
        max_bs=max_bs,
        memory=memory,
        cost=COSTS[cost],
        static=rules,
        capacity=900,
    )
    assert_same(simulate(load, **chosen), simulate(load, step_by_step=True, **chosen))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(loads(), options(costs=("paper",)), st.floats(1e-4, 0.5))
def test_cut_off_runs(load, chosen, stop_at):
    fast = simulate(load, stop_at=stop_at, **chosen)
    assert_same(fast, simulate(load, stop_at=stop_at, step_by_step=True, **chosen))
    assert fast.summary(SLO())["unfinished"] == (fast.record.outcome == 0).sum()


@settings(max_examples=300, deadline=None)
@given(
    st.floats(1e-6, 1),
    st.floats(0, 1e-3),
    st.floats(1e-6, 1),
    st.floats(0, 1e-3),
    st.sampled_from([1.0, 1.55, 2.0, float("inf")]),
    st.integers(1, 200),
    st.floats(0, 1.5),
)
def test_run_length_is_the_sum_of_its_steps(memory, memory_slope, compute, compute_slope, p, steps, share):
    i = np.arange(steps)
    m, c = memory + memory_slope * i, compute + compute_slope * i
    longer, shorter = np.maximum(m, c), np.minimum(m, c)
    durations = longer if np.isinf(p) else longer * (1 + (shorter / longer) ** p) ** (1 / p)
    lines = (memory, memory_slope, compute, compute_slope, p)
    assert run_length(*lines, float(steps)) == pytest.approx(durations.sum(), rel=1e-9)
    wanted = share * durations.sum()
    ends = np.cumsum(durations)
    made = steps_until(*lines, wanted, steps)
    assert 1 <= made <= steps
    slack = 2e-9
    assert made == steps or ends[made - 1] >= wanted - slack
    assert made == 1 or ends[made - 2] < wanted + slack
