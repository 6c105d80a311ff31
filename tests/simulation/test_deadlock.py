"""Without a reservation all may wait for a slot; with one nobody does; skipping the head of the line starves
it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from labcode import simulate, workload
from labcode.model import TINY, Chunk, KVCache, forward_ragged, generate, random_model
from labcode.results.timeline import OneStep, timeline
from labcode.scheduler.kv_cache import Paged
from labcode.scheduler.managers import memory
from labcode.scheduler.waiting import SkippingQueue
from labcode.simulation.deadlock import run_without_preemption
from tests.simulation.random_cases import GPU, MODEL, loads


def exact(capacity):
    return memory("oracle", capacity)


THREE = workload.from_arrays([0, 0, 0, 1], 4, [9, 9, 9, 6])


def test_three_requests_stand_still():
    run = run_without_preemption(THREE, Paged(24, 1), max_bs=3)
    assert run.text().splitlines()[1:] == ["r0  PDDDDx", "r1  PDDDDx", "r2  PDDDDx", "r3   ·····"]
    assert run.standstill.held == {0: 8, 1: 8, 2: 8}
    assert run.standstill.missing == {0: 4, 1: 4, 2: 4}
    assert sum(run.standstill.held.values()) == 24  # nothing is free, and every holder needs more
    assert (run.finished == -1).all()
    assert "r0 holds 8 and lacks 4" in str(run.standstill)


def test_the_real_model_stands_still_with_correct_tokens():
    """The mini model under the same scheduler: what it has made until the standstill is what it makes alone."""
    model, rng = random_model(TINY, seed=0), np.random.default_rng(2)
    prompts = [rng.integers(0, TINY.vocab, 4).tolist() for _ in range(4)]
    caches, tokens = [KVCache(model) for _ in prompts], [[] for _ in prompts]

    def compute(moving):
        batch = [Chunk(tokens[i][-1:] or prompts[i], caches[i]) for i in moving]
        for i, token in zip(moving, forward_ragged(model, batch).argmax(axis=1), strict=True):
            tokens[i].append(int(token))

    run = run_without_preemption(THREE, Paged(24, 1), 3, compute)
    assert {i: caches[i].length for i in range(3)} == run.standstill.held
    assert [len(t) for t in tokens] == [5, 5, 5, 0]
    assert tokens[:3] == [generate(model, prompt, 9)[:5] for prompt in prompts[:3]]


def test_reservation_cures_it():
    run = run_without_preemption(THREE, exact(26), max_bs=3)
    assert run.standstill is None
    assert run.finished.tolist() == [8, 8, 17, 14]
    assert not (run.letters == "x").any()


def test_one_more_stuck_letter_is_not_yet_a_standstill():
    """r1 waits in its seat while r0 runs to its end and gives its slots back."""
    run = run_without_preemption(workload.from_arrays([0, 0], [4, 4], [4, 6]), Paged(13, 1), 2)
    assert run.standstill is None
    assert "x" in run.text()
    assert (run.finished >= 0).all()


@settings(max_examples=100, deadline=None)
@given(loads(most=10), st.integers(2, 5), st.integers(30, 400))
def test_reservation_never_stands_still_and_equals_the_engine(load, max_bs, capacity):
    assume((load.prompt + load.output).max() <= capacity)
    load = workload.from_arrays(np.floor(load.arrival * 1000), load.prompt, load.output)
    assume(load.output.sum() + load.arrival[-1] < 3000)
    run = run_without_preemption(load, exact(capacity), max_bs)
    assert run.standstill is None
    assert not (run.letters == "x").any()
    engine = simulate(load, MODEL, GPU, memory="oracle", capacity=capacity, max_bs=max_bs, cost=OneStep())
    np.testing.assert_allclose(run.finished + 1, engine.requests["finished"])


@settings(max_examples=100, deadline=None)
@given(loads(most=8), st.integers(2, 5), st.integers(20, 300))
def test_a_standstill_is_one(load, max_bs, capacity):
    assume((load.prompt + load.output).max() <= capacity)
    load = workload.from_arrays(np.floor(load.arrival * 1000), load.prompt, load.output)
    assume(load.output.sum() + load.arrival[-1] < 3000)
    run = run_without_preemption(load, Paged(capacity, 1), max_bs)
    if run.standstill is None:
        assert (run.finished >= 0).all()
        return
    assert sum(run.standstill.held.values()) == capacity
    assert all(missing >= 1 for missing in run.standstill.missing.values())
    assert len(run.standstill.held) >= 2  # alone, every request fits


def test_what_can_never_run_is_refused_before_any_work():
    with pytest.raises(ValueError, match="request 1: needs 29 tokens"):
        run_without_preemption(workload.from_arrays([0, 0], [4, 20], [4, 10]), Paged(24, 1), 2)
    with pytest.raises(ValueError, match="one by one"):
        run_without_preemption(workload.from_arrays([200_000.0], 4, 4), Paged(24, 1), 2)
    with pytest.raises(ValueError, match="max_bs"):
        run_without_preemption(THREE, Paged(24, 1), 0)


# Head of the line: break or skip
# -------------------------------------------------------------------------------------

LARGE_AMONG_SMALL = workload.from_arrays([0, 1, 1, 1, 1], [10, 60, 10, 10, 10], [10, 20, 10, 10, 10])


def rows(load, patience, capacity=100):
    pool = exact(capacity)
    run = simulate(
        load,
        MODEL,
        GPU,
        memory=pool,
        order=SkippingQueue(pool, patience),
        max_bs=8,
        capacity=capacity,
        cost=OneStep(),
    )
    seen = timeline(run)
    return [seen.row(i) for i in range(len(load))]


def test_skipping_lets_small_requests_pass_a_large_one():
    """80 of 100 slots for r1: it does not fit beside r0 and another small one."""
    load = workload.from_arrays([0, 0, 1, 1], [20, 20, 60, 10], [3, 5, 20, 3])
    stop, skip = rows(load, 0.0), rows(load, float("inf"))
    assert stop[2][:5] == " ····"
    assert stop[3].index("P") == 5  # waits behind r2 although it would fit
    assert skip[3].index("P") == 1


def test_patience_zero_is_first_come_first_served():
    plain = timeline(simulate(LARGE_AMONG_SMALL, MODEL, GPU, memory="oracle", max_bs=8, capacity=100, cost=OneStep()))
    assert rows(LARGE_AMONG_SMALL, 0.0) == [plain.row(i) for i in range(5)]


@settings(max_examples=60, deadline=None)
@given(
    loads(),
    st.sampled_from([0.0, 0.01, float("inf")]),
    st.sampled_from([1, 3, 50]),
    st.sampled_from([420, 900]),
)
def test_everyone_is_served_once_whatever_the_patience(load, patience, max_bs, capacity):
    pool = exact(capacity)
    run = simulate(
        load,
        MODEL,
        GPU,
        memory=pool,
        order=SkippingQueue(pool, patience),
        max_bs=max_bs,
        capacity=capacity,
    )
    assert (run.requests["outcome"] == "finished").all()
    assert pool.reserved == 0
    if patience == 0:
        plain = simulate(load, MODEL, GPU, memory="oracle", max_bs=max_bs, capacity=capacity)
        np.testing.assert_allclose(run.requests["finished"], plain.requests["finished"], rtol=1e-9)


def test_bad_patience_is_refused():
    with pytest.raises(ValueError, match="patience"):
        SkippingQueue(exact(10), -1.0)
