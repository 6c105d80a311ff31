"""Stepping, leaping and the compiled loop leave the same record: the property on which every fast run rests."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcode import SLO, simulate
from labcode.cost.leap import run_length, steps_until
from labcode.results.outcomes import UNFINISHED
from labcode.simulation.batches import BatchRules
from tests.simulation.random_cases import (
    ALL_MEMORIES,
    COMPILED_COSTS,
    COMPILED_MEMORIES,
    COSTS,
    GPU,
    MODEL,
    loads,
    options,
)

TIMES = ("admitted", "first_token", "last_token", "finished")
WHOLE = ("steps", "n_prefill", "prefill_tokens", "n_decode", "n_idle", "decode_kv", "kv_used", "kv_reserved", "waiting")


def assert_same(fast, slow) -> None:
    """Both runs have the same outcomes, the same segments and, to 1e-9, the same times for every request and token."""
    for name in ("outcome", "preemptions", "recomputed"):
        np.testing.assert_array_equal(getattr(fast.record, name), getattr(slow.record, name), name)
    assert fast.record.reasons == slow.record.reasons
    for name in TIMES:
        np.testing.assert_allclose(
            getattr(fast.record, name), getattr(slow.record, name), rtol=1e-9, atol=1e-12, err_msg=name
        )
    for name in WHOLE:
        np.testing.assert_array_equal(fast.record.segments[name], slow.record.segments[name], name)
    for name in ("start", "end"):
        np.testing.assert_allclose(
            fast.record.segments[name], slow.record.segments[name], rtol=1e-9, atol=1e-12, err_msg=name
        )
    np.testing.assert_allclose(fast.decode_ends, slow.decode_ends, rtol=1e-9, atol=1e-12)
    for request in range(len(fast.load)):
        np.testing.assert_allclose(fast.token_times(request), slow.token_times(request), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fast.largest_itl(), slow.largest_itl(), rtol=1e-6, atol=1e-9)


def three_ways(load, chosen) -> None:
    """Run a case compiled (where that is possible), in leaps of plain Python, and step by step."""
    slow = simulate(load, step_by_step=True, **chosen)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("labcode.jit.AVAILABLE", False)
        assert_same(simulate(load, **chosen), slow)
    assert_same(simulate(load, **chosen), slow)


@settings(max_examples=40, deadline=None)
@given(loads(people=True, declared=True), options(ALL_MEMORIES, expire=("never", "waiting", "always")))
def test_every_policy_in_short(load, chosen):
    """A first look for `make test-quick`; the tests below look longer, each at one way to run."""
    three_ways(load, chosen)


@pytest.mark.slow
@settings(max_examples=800, deadline=None)
@given(loads(declared=True), options(ALL_MEMORIES))
def test_every_policy(load, chosen):
    three_ways(load, chosen)


@pytest.mark.slow
@settings(max_examples=800, deadline=None)
@given(
    loads(people=True, declared=True),
    options(COMPILED_MEMORIES, COMPILED_COSTS, expire=("never", "waiting", "always")),
    st.none() | st.floats(1e-4, 0.5),
)
def test_deadlines_cancellations_and_cut_offs(load, chosen, stop_at):
    three_ways(load, chosen | {"stop_at": stop_at})


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(loads(), options(("paged", "paged:3", "paged:1"), COMPILED_COSTS), st.floats(1.0, 1.3))
def test_a_pool_hardly_larger_than_one_request(load, chosen, slack):
    """Preemption at nearly every step: the run ends, and all three ways agree."""
    biggest = int((load.prompt + load.output).max())
    three_ways(load, chosen | {"capacity": int(slack * biggest) + 3})


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(
    loads(),
    st.sampled_from(list(COSTS)),
    st.builds(
        BatchRules,
        padded=st.booleans(),
        keep_places=st.booleans(),
        early_return=st.booleans(),
        edges=st.sampled_from([(), (5,), (20, 100)]),
        # Waits off the arrival grid's multiples, so that no rounding decides who is on time.
        max_wait=st.sampled_from([0.0, 2.3e-3]),
    ),
    st.sampled_from([1, 3, 16]),
    st.sampled_from(["max:256", "oracle", "unlimited"]),
    st.none() | st.floats(1e-4, 0.5),
)
def test_request_level_engines(load, cost, rules, max_bs, memory, stop_at):
    chosen = dict(model=MODEL, gpu=GPU, engine="bucketed", max_bs=max_bs, memory=memory, cost=COSTS[cost])
    chosen |= {"batch": rules, "capacity": 900, "stop_at": stop_at}
    assert_same(simulate(load, **chosen), simulate(load, step_by_step=True, **chosen))


@settings(max_examples=60, deadline=None)
@given(loads(), st.sampled_from(list(COSTS)), st.sampled_from(["max:256", "oracle", "unlimited"]), st.booleans())
def test_request_level_engines_are_one(load, cost, memory, padded):
    """Bit for bit: static batching is one bucket that waits for nobody, sequential service a batch of one."""
    common = dict(model=MODEL, gpu=GPU, memory=memory, cost=COSTS[cost], capacity=900)
    rules = BatchRules(padded=padded)
    static = simulate(load, engine="static", max_bs=3, batch=rules, **common)
    bucketed = simulate(load, engine="bucketed", max_bs=3, batch=rules, **common)
    alone = simulate(load, engine="static", max_bs=1, **common)
    sequential = simulate(load, engine="sequential", **common)
    for one, other in ((static, bucketed), (alone, sequential)):
        for name in TIMES:
            np.testing.assert_array_equal(getattr(one.record, name), getattr(other.record, name))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(loads(), options(costs=("paper",)), st.floats(1e-4, 0.5))
def test_cut_off_runs(load, chosen, stop_at):
    fast = simulate(load, stop_at=stop_at, **chosen)
    assert_same(fast, simulate(load, stop_at=stop_at, step_by_step=True, **chosen))
    # Who had not come yet when the run was stopped is nobody's unfinished business.
    there = (fast.record.outcome == UNFINISHED) & (load.arrival <= stop_at)
    assert fast.summary(SLO())["unfinished"] == there.sum()


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
