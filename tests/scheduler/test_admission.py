"""The checks at the door: who is refused, by which check, with which reason."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labcode import simulate, workload
from labcode.scheduler import Budgets, Request, Results, Scheduler, memory
from labcode.scheduler.admission import (
    Estimate,
    TokenQuota,
    bounded_promise,
    bounded_queue,
    drain_estimate,
    fits_context,
    in_time,
    tenant_quota,
)


def scheduler(*checks, capacity=1000, max_bs=2, **budgets):
    return Scheduler(memory("oracle", capacity), budgets=Budgets(max_bs, **budgets), checks=checks)


def ask(number, prompt=10, max_tokens=10, arrival=0.0, **words):
    return Request(number, prompt, max_tokens, arrival, **words)


def kinds(door, requests):
    """Add the requests at their arrivals; return what each was refused for, "" for those who are in."""
    answers = [door.add(request, request.arrival) for request in requests]
    return ["" if refusal is None else refusal.kind for refusal in answers]


def test_each_check_refuses_for_its_own_reason():
    """Quota, lengths, cache growth, queue, deadline; the first that says no is the one that is named."""
    door = scheduler(
        fits_context(100),
        tenant_quota(2),
        bounded_promise(150),
        bounded_queue(3),
        in_time(lambda request, at, now: Estimate(1.0, 2.0), 0.5),
    )
    asked = [
        ask(0, 60, 41),  # 101 positions in a context of 100
        ask(1, 600, 402),  # more than the whole pool, which is asked about first
        ask(2, deadline=3.5),  # 1 + 2 + 0.5: just in time
        ask(3, deadline=3.49),
        ask(4, 10, 10),
        ask(5, 10, 10),  # the third of one tenant
        ask(6, 50, 50, tenant="b"),  # 40 are promised: 140 of 150
        ask(7, 10, 10, tenant="c"),
    ]
    assert kinds(door, asked[:7]) == ["context", "pool", "", "deadline", "", "quota", ""]
    assert door.add(asked[7], 0.0).kind == "memory"
    door = scheduler(bounded_queue(2))
    assert kinds(door, [ask(i) for i in range(3)]) == ["", "", "queue"]
    assert "2 requests wait already" in door.requests[2].reason


def test_a_quota_counts_who_is_under_way_and_nobody_else():
    door = scheduler(tenant_quota(1))
    assert door.add(ask(0, tenant="a"), 0.0) is None
    assert door.add(ask(1, tenant="a"), 0.0).kind == "quota"
    assert door.add(ask(2, tenant="b"), 0.0) is None
    assert door.cancel(0, 1.0)
    assert door.add(ask(3, tenant="a"), 1.0) is None
    plan = door.schedule(1.0)
    door.update(plan, Results(finished=[3]), 2.0)
    assert door.add(ask(4, tenant="a"), 2.0) is None


def test_a_promise_is_given_back_when_its_request_ends():
    door = scheduler(bounded_promise(50))
    assert kinds(door, [ask(0, 20, 20), ask(1, 6, 5), ask(2, 5, 5)]) == ["", "memory", ""]
    door.cancel(0, 0.0)
    assert door.add(ask(3, 20, 20), 0.0) is None


def test_a_token_quota_refills_at_its_rate_and_says_when():
    quota = TokenQuota(rate=10, burst=40)
    door = scheduler(quota)
    assert kinds(door, [ask(0), ask(1), ask(2)]) == ["", "", "quota"]
    assert "in 2 s" in door.requests[2].reason
    assert kinds(door, [ask(3, arrival=1.9), ask(4, arrival=2.0), ask(5, tenant="b", arrival=2.0)]) == ["quota", "", ""]
    assert quota.left("a", 0.0) == 40 and quota.left("", 1000.0) == 40
    assert "never holds more than 40" in str(quota(ask(6, 30, 11, tenant="z"), door, 0.0))


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 60)), min_size=1, max_size=40))
def test_a_token_quota_never_lets_more_through_than_burst_and_rate_allow(gaps):
    quota, door, now, let = TokenQuota(rate=10, burst=40), scheduler(), 0.0, 0
    for gap, prompt in gaps:
        now += gap
        let += (prompt + 1) * (quota(ask(0, prompt, 1), door, now) is None)
        assert let <= 40 + 10 * now + 1e-6


def test_the_drain_estimate_counts_who_is_ahead():
    estimate, door = drain_estimate(rate=4.0, prefill=0.001, decode=0.02), scheduler(max_bs=2)
    assert estimate(ask(0, 100, 50), door, 0.0) == Estimate(0.0, pytest.approx(1.1))
    assert kinds(door, [ask(i) for i in range(4)]) == [""] * 4
    assert estimate(ask(9), door, 0.0).wait == pytest.approx(5 / 4)  # nobody has been seated yet: four ahead
    door.schedule(0.0)
    assert door.waiting == 2 and estimate(ask(9), door, 0.0).wait == pytest.approx(3 / 4)
    predicted = Request(9, 100, 1000, predicted=50.0)
    assert estimate(predicted, door, 0.0).service == pytest.approx(0.1 + 50 * 0.02)


def test_who_has_no_deadline_is_not_asked_for_one():
    door = scheduler(in_time(lambda request, at, now: Estimate(1e9, 0.0)))
    assert kinds(door, [ask(0), ask(1, deadline=5.0)]) == ["", "deadline"]
    assert "wait 1e+09 s" in door.requests[1].reason and "5 s that are left" in door.requests[1].reason


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: tenant_quota(0), "most"),
        (lambda: bounded_promise(0), "most"),
        (lambda: bounded_queue(-1), "most"),
        (lambda: TokenQuota(0, 1), "rate"),
        (lambda: TokenQuota(1, 0), "burst"),
        (lambda: drain_estimate(0, 0, 0), "rate"),
        (lambda: drain_estimate(1, -1, 0), "prefill"),
        (lambda: in_time(lambda *a: None, float("nan")), "margin"),
    ],
)
def test_bad_settings_are_refused_by_name(make, word):
    with pytest.raises(ValueError, match=word):
        make()


def overloaded(n=300, seed=0):
    load = workload.chat(n, 8.0, seed)
    return workload.from_arrays(load.arrival, load.prompt, load.output, deadline=load.arrival + 6.0)


@pytest.mark.parametrize("expire", ["never", "waiting", "always"])
def test_stepping_and_leaping_agree_with_checks_at_the_door(expire):
    """An estimate may look only at what changes at events, or a leap would show it another world."""
    checks = (bounded_queue(30), in_time(drain_estimate(5.0, 1e-4, 0.008), 0.3))
    runs = [
        simulate(
            overloaded(), max_bs=16, memory="oracle", gpu="a100-80", checks=checks, expire=expire, step_by_step=step
        )
        for step in (False, True)
    ]
    outcomes = [run.requests["outcome"].tolist() for run in runs]
    assert outcomes[0] == outcomes[1] and {"finished", "refused"} <= set(outcomes[0])
    for column in ("admitted", "first_token", "finished"):
        np.testing.assert_allclose(*[run.requests[column] for run in runs], rtol=1e-9)
    assert runs[0].requests["reason"].tolist() == runs[1].requests["reason"].tolist()


def test_refusing_early_keeps_the_deadlines_that_late_failure_misses():
    """At 1.7 times the pace: who is let in is in time; without a check nearly all the work is thrown away."""

    def finished(*checks):
        run = simulate(overloaded(600), max_bs=16, memory="oracle", gpu="a100-80", checks=checks, expire="always")
        return run.summary()["finished"]

    early = finished(in_time(drain_estimate(4.6, 1e-4, 0.0115)))
    late = finished()
    assert early > 1.25 * late
