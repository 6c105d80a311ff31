"""Queues that are fair to tenants: shares under backlog, debts, bounded credit, and the names at the front door."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcode import simulate, workload
from labcode.results.timeline import OneStep
from labcode.scheduler import Request
from labcode.scheduler.fair import (
    BY_OUTPUT,
    BY_REQUEST,
    BY_TOKENS,
    DeficitRoundRobin,
    Tariff,
    VirtualTokenCounter,
)
from labcode.scheduler.waiting import AgeingQueue, as_queue, shortest_predicted
from tests.simulation.random_cases import GPU, MODEL, loads, options
from tests.simulation.test_leap_equals_step import assert_same

BY_COST = Tariff(position=1.0, token=4.0, history=1 / 64)


def backlog(n=3000, seed=0):
    """A sends short requests, B long ones, all before the door at once."""
    rng = np.random.default_rng(seed)
    b = rng.random(n) < 0.5
    output = np.where(b, rng.integers(60, 140, n), rng.integers(5, 15, n))
    return workload.from_arrays(np.zeros(n), np.where(b, 80, 20), output, tenant=np.where(b, "B", "A"))


def work_until(run, tariff, horizon):
    """Return what was done for each tenant by `horizon` (s), counted from the record alone: whole requests' prompts at
    their first token, then a decode at each further one."""
    done = {"A": 0.0, "B": 0.0}
    for i, (tenant, prompt) in enumerate(zip(run.load.tenant, run.load.prompt, strict=True)):
        tokens = int((run.token_times(i) <= horizon).sum())
        if tokens:
            done[str(tenant)] += tariff.request + tariff.work(int(prompt), 0, 1)
            done[str(tenant)] += tariff.work(tokens - 1, int(prompt), tokens - 1)
    return done


@pytest.mark.parametrize("share", [1.0, 2.0, 5.0])
@pytest.mark.parametrize(
    ("tariff", "quantum"),
    [(BY_REQUEST, 1.0), (BY_OUTPUT, 50.0), (BY_TOKENS, 100.0), (BY_COST, 400.0)],
    ids=["request", "output", "tokens", "cost"],
)
@pytest.mark.parametrize("fair", ["drr", "vtc"])
def test_shares_under_backlog_are_the_weights_within_two_per_cent(fair, tariff, quantum, share):
    load, horizon = backlog(), 9000.0
    weights = {"A": 1.0, "B": share}
    order = (
        DeficitRoundRobin(quantum, tariff, weights) if fair == "drr" else VirtualTokenCounter(tariff, weights=weights)
    )
    run = simulate(load, memory="unlimited", max_bs=2, cost=OneStep(), order=order, stop_at=horizon)
    assert set(order.lines) == {"A", "B"}  # both were backlogged all the time
    done = work_until(run, tariff, horizon)
    assert done["B"] / (done["A"] + done["B"]) == pytest.approx(share / (1 + share), rel=0.02)


def test_wrong_predictions_are_not_paid_by_others():
    """The prediction decides who comes in, the truth what it costs; the shares stay."""
    load = backlog()
    order = DeficitRoundRobin(50.0, BY_OUTPUT)
    common = dict(memory="unlimited", max_bs=2, cost=OneStep(), stop_at=9000.0)
    run = simulate(load, order=order, predictor="lognormal:0.3", seed=3, **common)
    done = work_until(run, BY_OUTPUT, 9000.0)
    assert done["B"] / (done["A"] + done["B"]) == pytest.approx(0.5, rel=0.02)

    class Uncorrected(DeficitRoundRobin):
        """What would be without correction: B says that its answers are short."""

        def served(self, request, positions, tokens, past): ...
        def ended(self, request): ...

    def understated(load):
        return np.where(load.tenant == "B", 10.0, load.output)

    cheated = simulate(load, order=Uncorrected(50.0, BY_OUTPUT), predictor=understated, **common)
    lost = work_until(cheated, BY_OUTPUT, 9000.0)
    assert lost["B"] / (lost["A"] + lost["B"]) > 0.8
    honest = DeficitRoundRobin(50.0, BY_OUTPUT)
    kept = work_until(simulate(load, order=honest, predictor=understated, **common), BY_OUTPUT, 9000.0)
    assert kept["B"] / (kept["A"] + kept["B"]) == pytest.approx(0.5, rel=0.02)


@given(loads(most=25), st.sampled_from(["paged:3", "oracle"]), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_accounts_agree_with_what_was_done(load, memory, seed):
    """When everybody has ended, each tenant was charged for its own work, preemptions included."""
    load = replace(load, tenant=np.random.default_rng(seed).choice(["x", "y", "z"], len(load)))
    for order in (DeficitRoundRobin(64.0), VirtualTokenCounter()):
        run = simulate(load, MODEL, GPU, memory=memory, capacity=410, max_bs=4, cost=OneStep(), order=order)
        ended = run.requests
        assert (ended["outcome"] == "finished").all() and not order._inside and not order.lines and len(order) == 0
        for tenant in set(load.tenant.tolist()):
            mine = ended[load.tenant == tenant]
            positions = mine["prompt_tokens"] + mine["output_tokens"] - 1 + mine["recomputed_tokens"]
            assert order.charged[tenant] == positions.sum() + mine["output_tokens"].sum()


def test_a_round_by_hand():
    """A's requests cost 10, B's 1000, quantum 100: B comes in after ten rounds, A ten times in each."""
    queue = DeficitRoundRobin(100.0, BY_OUTPUT)
    for i in range(600):
        queue.push(Request(i, 1, 1000 if i % 2 else 10, tenant="B" if i % 2 else "A"), 0.0)
    order = "".join(queue.pop(0.0).tenant for _ in range(202))
    assert order.count("B") == 2 and order == "A" * 100 + "B" + "A" * 100 + "B"


def test_rounds_that_nobody_can_pay_are_gone_through_at_once():
    queue = DeficitRoundRobin(1e-6, BY_OUTPUT)
    queue.push(Request(0, 1, 10**6, tenant="A"), 0.0)
    assert queue.pop(0.0).id == 0  # a loop over single rounds would take 10^12 of them


def test_nobody_saves_credit_while_away_beyond_the_carry():
    for carry in (0.0, 30.0):
        queue = DeficitRoundRobin(1000.0, BY_OUTPUT, carry=carry)
        queue.push(Request(0, 1, 10, tenant="A"), 0.0)
        queue.pop(0.0)
        assert queue.credit["A"] == carry
    # A debt is kept.
    queue.served(Request(0, 1, 10, tenant="A"), 500, 500, 1)
    assert queue.credit["A"] == 30 - 490
    # The counter of one who comes back is lifted: it does not monopolise the engine.
    counter = VirtualTokenCounter(BY_OUTPUT)
    for i in range(100):
        counter.push(Request(i, 1, 10, tenant="A"), 0.0)
    for _ in range(50):
        counter.served(counter.pop(0.0), 10, 10, 1)
    for i in range(100, 200):
        counter.push(Request(i, 1, 10, tenant="B"), 1.0)
    assert counter.counter == {"A": 500.0, "B": 500.0}
    taken = []
    for _ in range(20):
        request = counter.pop(1.0)
        counter.served(request, 10, 10, 1)
        taken.append(request.tenant)
    assert taken.count("B") == 10


def test_who_leaves_the_queue_is_taken_out_and_what_was_not_used_given_back():
    queue = DeficitRoundRobin(1000.0, BY_OUTPUT)
    first, second = Request(0, 1, 100, tenant="A"), Request(1, 1, 100, tenant="A")
    queue.push(first, 0.0)
    queue.push(second, 0.0)
    assert queue.pop(0.0) is first and queue.credit["A"] == 900
    queue.served(first, 5, 1, 0)
    queue.ended(first)
    assert queue.charged["A"] == 1 and queue.credit["A"] == 999
    queue.ended(second)  # cancelled while it waited
    queue.ended(Request(7, 1, 1, tenant="C"))  # was refused at the door: unknown here
    assert len(queue) == 0 and queue.credit["A"] == 0


fair_cases = dict(
    load=loads(most=30, people=True),
    chosen=options(("paged", "paged:3", "oracle"), costs=("paper",), expire=("never", "waiting", "always")),
    order=st.sampled_from(["drr:7", "drr", "vtc"]),
    tenants=st.integers(1, 3),
    seed=st.integers(0, 99),
)


def agree(load, chosen, order, tenants, seed):
    load = replace(load, tenant=np.random.default_rng(seed).choice(["x", "y", "z"][:tenants], len(load)))
    chosen |= {"order": order}
    assert_same(simulate(load, **chosen), simulate(load, step_by_step=True, **chosen))


@given(**fair_cases)
@settings(max_examples=40, deadline=None)
def test_stepping_and_leaping_agree(**case):
    agree(**case)


@pytest.mark.slow
@given(**fair_cases)
@settings(max_examples=600, deadline=None)
def test_stepping_and_leaping_agree_in_many_more_cases(**case):
    agree(**case)


def test_one_tenant_alone_is_first_come_first_served():
    load = workload.chat(n=150, rate=30.0, seed=2)
    alone = replace(load, tenant=np.array(["me"] * 150))
    base = simulate(load, memory="paged:16", capacity=20_000)
    for order in ("drr", "drr:1", "vtc"):
        run = simulate(alone, memory="paged:16", capacity=20_000, order=order)
        np.testing.assert_allclose(run.requests["finished"], base.requests["finished"], rtol=1e-9)


def test_names_and_what_they_refuse():
    load = workload.chat(n=5, rate=1.0, seed=0)
    for order in ("drr", "vtc"):
        with pytest.raises(ValueError, match="the workload has no tenants"):
            simulate(load, order=order)
    load = replace(load, tenant=np.array(list("ababa")))
    for order, why in (("drr:x", "after 'drr:'"), ("drr:0", "quantum"), ("vtc:3", "known are"), ("drx", '"drr"')):
        with pytest.raises(ValueError, match=why):
            simulate(load, order=order)
    with pytest.raises(ValueError, match=r"weights\['a'\] = 0"):
        DeficitRoundRobin(weights={"a": 0})
    with pytest.raises(ValueError, match="carry = -1"):
        DeficitRoundRobin(carry=-1)
    with pytest.raises(ValueError, match="at least one"):
        Tariff()
    with pytest.raises(ValueError, match=r"Tariff.token = -1"):
        Tariff(token=-1)


def test_a_readers_queue_hears_who_was_served_and_who_ended():
    class Mine:
        def __init__(self):
            self.line, self.heard, self.gone = [], 0, []

        def push(self, request, now):
            self.line.append(request)

        def peek(self, now):
            return self.line[0]

        def pop(self, now):
            return self.line.pop(0)

        def served(self, request, positions, tokens, past):
            self.heard += tokens

        def ended(self, request):
            self.gone.append(request.id)

        def __len__(self):
            return len(self.line)

    mine, load = Mine(), workload.chat(n=20, rate=5.0, seed=0)
    simulate(load, order=mine)
    assert mine.heard == load.output.sum() and sorted(mine.gone) == list(range(20))
    assert as_queue(mine).own is mine


def test_nobody_starves_with_ageing_at_a_stable_load():
    """A stream of short requests that leaves room for one long one, below the drain rate: without ageing the long ones
    wait for a gap, with ageing their wait is bounded by what stood before them and the head start of the short."""
    n, seats = 4000, 4
    rng = np.random.default_rng(0)
    long = rng.random(n) < 0.02
    output = np.where(long, 200, 10)
    rate = 0.93 * seats / output.mean()  # seats · 1 token a step over the mean length is what drains
    load = workload.from_arrays(np.cumsum(rng.exponential(1 / rate, n)), 5, output)
    common = dict(memory="unlimited", max_bs=seats, cost=OneStep())
    waits = {}
    for name, order in (
        ("fcfs", "fcfs"),
        ("sjf", AgeingQueue(shortest_predicted, 0.0)),
        ("aged", AgeingQueue(shortest_predicted, 1.0)),
    ):
        run = simulate(load, order=order, **common)
        assert (run.requests["outcome"] == "finished").all()
        waits[name] = run.requests["waited"].to_numpy()
    # In key units a long request's head start is 190 s; beyond that nobody who comes later passes it.
    assert waits["aged"][long].max() <= waits["fcfs"].max() + 190
    assert waits["aged"].mean() < 0.8 * waits["fcfs"].mean()
    assert waits["sjf"][long].max() > waits["aged"][long].max()
