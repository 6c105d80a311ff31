"""Guaranteed shares of the token budget: kept while somebody needs them, never idle, never a standstill."""

from __future__ import annotations

import numpy as np
import pytest

from labcode import simulate, workload
from labcode.scheduler import Budgets, Request, Scheduler, memory
from labcode.scheduler.request import Results


def crowd(budgets: Budgets, decoding: int = 60) -> Scheduler:
    """Return a scheduler in which so many requests decode."""
    scheduler = Scheduler(memory("unlimited", 1), budgets=budgets)
    for i in range(decoding):
        scheduler.add(Request(i, 1, 1000), 0.0)
    for _ in range(decoding):
        scheduler.update(scheduler.schedule(0.0), Results(), 0.0)
        if all(state.generated for state in scheduler.running.values()) and len(scheduler.running) == decoding:
            return scheduler
    raise AssertionError("the crowd does not decode")


def test_prefill_gets_its_share_beside_more_decodes_than_the_budget_holds():
    for kept, prefill, decodes in ((0, 0, 64), (16, 16, 48), (48, 48, 16)):
        scheduler = crowd(Budgets(128, "chunked", 64, min_prefill=kept), decoding=64)
        scheduler.add(Request(99, 500, 5), 0.0)
        plan = scheduler.schedule(0.0)
        assert sum(work.new for work in plan.prefill) == prefill
        assert len(plan.decode) == decodes


def test_everybody_decodes_in_turn_when_not_all_can():
    scheduler = crowd(Budgets(128, "chunked", 64, min_prefill=48), decoding=64)
    scheduler.add(Request(99, 100_000, 5), 0.0)
    before = {i: state.generated for i, state in scheduler.running.items()}
    for _ in range(4):
        scheduler.update(scheduler.schedule(0.0), Results(), 0.0)
    assert {scheduler.requests[i].generated - before[i] for i in before} == {1}


def test_a_share_that_prefill_cannot_use_goes_to_those_who_decode():
    """All places are taken, so who waits has no use for tokens."""
    scheduler = crowd(Budgets(64, "chunked", 64, min_prefill=48), decoding=64)
    scheduler.add(Request(99, 500, 5), 0.0)
    assert len(scheduler.schedule(0.0).decode) == 64


def test_the_end_of_a_prompt_leaves_the_rest_of_the_share_to_decodes():
    scheduler = crowd(Budgets(128, "chunked", 64, min_prefill=48), decoding=64)
    scheduler.add(Request(99, 10, 5), 0.0)
    plan = scheduler.schedule(0.0)
    assert (len(plan.decode), plan.new_tokens) == (54, 64)


@pytest.mark.parametrize("arrival", [0.0, 0.1])
def test_a_prompt_that_the_decodes_share_leaves_no_room_for_is_refused_by_name(arrival):
    """It used to block the queue for ever, and everybody behind it failed."""
    budgets = Budgets(128, "prefill_first", 2048, min_decode=256)
    run = simulate(workload.from_arrays([0.0, arrival, 0.2], [300, 1900, 100], 5), memory="oracle", budgets=budgets)
    assert run.requests.outcome.tolist() == ["finished", "refused", "finished"]
    assert "less min_decode = 256" in run.requests.reason[1]


def test_decodes_get_their_share_beside_prompts_that_go_first():
    scheduler = crowd(Budgets(128, "prefill_first", 512, min_decode=32), decoding=64)
    scheduler.add(Request(99, 300, 5), 0.0)
    plan = scheduler.schedule(0.0)
    assert sum(work.new for work in plan.prefill) == 300 and len(plan.decode) == 64
    bare = crowd(Budgets(128, "prefill_first", 512), decoding=64)
    bare.add(Request(99, 300, 5), 0.0)
    assert not bare.schedule(0.0).decode


@pytest.mark.parametrize("capacity", [9_000, 400_000])
@pytest.mark.parametrize(
    "budgets", [Budgets(64, "chunked", 48, min_prefill=16), Budgets(64, "prefill_first", 4200, min_decode=40)]
)
def test_leaping_equals_stepping_with_shares(budgets, capacity):
    load = workload.chat(80, 60.0, 1)
    fast, slow = (
        simulate(load, memory="paged:16", capacity=capacity, budgets=budgets, step_by_step=one) for one in (False, True)
    )
    np.testing.assert_allclose(fast.requests.finished, slow.requests.finished, rtol=1e-12)
    np.testing.assert_array_equal(fast.requests.preemptions, slow.requests.preemptions)
    assert (fast.requests.outcome == "finished").all()
