"""What chapter 12 claims in its text."""

from __future__ import annotations

import numpy as np
import pytest

from labcode.course.answers.ch12 import rounds_of
from labcode.course.evidence.fairness import (
    UNITS,
    both_waited_until,
    break_even,
    deadlines_in_a_pool,
    exercise_31_9,
    fair_queue,
    late,
    link,
    recompute_seconds,
    served,
    tokens_by,
    two_backlogs,
    waits,
)
from labcode.course.exercises import check
from labcode.course.labs import ch12_interleavings, ch12_starvation, ch12_swap, ch12_tenants
from labcode.scheduler.waiting import AgeingQueue, shortest_predicted
from labcode.simulate import simulate


@pytest.mark.parametrize("rounds", [1, 4])
def test_exercise_31_9(rounds):
    assert exercise_31_9(rounds) == {"requests": (10 * rounds, 1000 * rounds), "tokens": (100 * rounds, rounds)}


@pytest.mark.parametrize("unit", list(UNITS))
def test_a_queue_is_fair_in_its_own_unit_and_not_in_the_others(unit):
    load = two_backlogs(600, 180, (100, 2000), (10, 100))
    for name in ("drr", "vtc"):
        run = simulate(load, memory="unlimited", max_bs=4, order=fair_queue(name, unit))
        tokens = tokens_by(run, both_waited_until(run))
        share = {other: served(run, tokens, tariff)["B"] for other, tariff in UNITS.items()}
        assert share[unit] == pytest.approx(0.5, abs=0.06)
        off = [other for other in UNITS if other != unit and abs(share[other] - 0.5) > 0.15]
        assert len(off) >= 1, share


def test_a_deadline_that_earliest_deadline_first_misses():
    assert late("deadline") == [1] and late("fcfs") == []
    load = deadlines_in_a_pool()
    assert (load.deadline >= 10).all()


def test_ageing_bounds_waits_below_what_drains_and_nothing_above():
    below = {rate: waits(0.9, rate, 3000, 0) for rate in (0.0, 1.0, float("inf"))}
    worst = {rate: w[long].max() for rate, (w, long) in below.items()}
    assert worst[0.0] > worst[1.0]
    assert worst[1.0] <= below[float("inf")][0].max() + 190
    longest = [waits(1.2, 1.0, n, 0)[0].max() for n in (1500, 3000, 6000)]
    assert longest[1] > 1.5 * longest[0] and longest[2] > 1.5 * longest[1]


def test_the_aged_key_is_the_aged_queue():
    from labcode.course.evidence.fairness import SEATS, mixed_lengths
    from labcode.results.timeline import OneStep

    load = mixed_lengths(0.9, 300, 1)
    run = simulate(load, memory="unlimited", max_bs=SEATS, cost=OneStep(), order=AgeingQueue(shortest_predicted, 1.0))
    np.testing.assert_allclose(run.requests["waited"], waits(0.9, 1.0, 300, 1)[0], atol=1e-9)


def test_the_bandwidth_at_which_swapping_costs_what_recomputing_does():
    for context, beside, cost in ((512, 0, "paper"), (4096, 64, "paper"), (2048, 16, "smooth")):
        even = break_even(context, beside, cost)
        assert 2 * link(even).seconds(context) == pytest.approx(recompute_seconds(context, beside, cost))
    assert break_even(512, 64) > 2 * break_even(512) > 2e10
    assert recompute_seconds(512, 64) < recompute_seconds(512)


@pytest.mark.parametrize(
    ("id", "right", "wrong"),
    [("12.1a", 22, 100), ("12.1b", 11.5, 22), ("12.2a", 11, 10), ("12.2b", 160, 20), ("12.3a", 0.0644, 0.0322),
     ("12.3b", 0.161, 0.1445), ("12.3c", 40.0, 10.0), ("12.4a", 2, 0)],
)  # fmt: skip
def test_checks(id, right, wrong):
    assert check(id, right) == "right" and check(id, wrong) != "right"


def by_the_book(lines, weights, quantum, count):
    lines = {tenant: list(line) for tenant, line in lines.items() if line}
    turn, credit, let_in = list(lines), dict.fromkeys(lines, 0.0), []
    if turn:
        credit[turn[0]] += weights.get(turn[0], 1.0) * quantum
    while turn and len(let_in) < count:
        tenant = turn.pop(0)
        while lines[tenant] and lines[tenant][0] <= credit[tenant] and len(let_in) < count:
            credit[tenant] -= lines[tenant].pop(0)
            let_in.append(tenant)
        if lines[tenant]:
            turn.append(tenant)
        if turn:
            credit[turn[0]] += weights.get(turn[0], 1.0) * quantum
    return let_in


def test_the_building_task():
    assert check.code("12.build", by_the_book) == "right: all 158 cases"
    assert by_the_book({"A": [10] * 3, "B": [20] * 2}, {}, 10.0, 5) == rounds_of(
        {"A": [10] * 3, "B": [20] * 2}, {}, 10.0, 5
    )

    def without_carry_over(lines, weights, quantum, count):
        return by_the_book({t: sorted(line) for t, line in lines.items()}, weights, quantum, count)

    def without_weights(lines, weights, quantum, count):
        return by_the_book(lines, {}, quantum, count)

    for wrong in (without_carry_over, without_weights, lambda lines, weights, quantum, count: []):
        assert check.code("12.build", wrong).startswith("not yet")


def test_the_labs_say_what_the_text_says():
    tenants = ch12_tenants.LAB
    shares = tenants.run(queue="deficit round robin", unit="requests").panel("shares").curve("this order")
    assert shares.at("requests") == pytest.approx(0.5, abs=0.05) and shares.at("output tokens") > 0.8
    swap = ch12_swap.LAB
    assert "swapping is cheaper" in swap.run().headline
    assert "recomputing is cheaper" in swap.run(bandwidth=8, sharers=4).headline
    starving = ch12_starvation.LAB
    waited = {order: starving.run(rho=0.95, order=order).panel("waits").curve("this order").at("longest, long")
              for order in ("shortest first", "aged by 1", "first come")}  # fmt: skip
    assert waited["shortest first"] > waited["aged by 1"]
    for trace in ch12_interleavings.BROKEN:
        assert "WRONG" in ch12_interleavings.LAB.run(trace=trace, kept="broken", step=24).headline
        for step in (1, 12, 24):
            assert "WRONG" not in ch12_interleavings.LAB.run(trace=trace, kept="kept", step=step).headline
    for lab in (tenants, swap, starving, ch12_interleavings.LAB):
        assert lab.verdict().right in lab.predict.options
