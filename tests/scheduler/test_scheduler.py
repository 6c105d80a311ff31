"""The scheduler by itself: driven by hand, by a stateful test, and by the mini model; its table of states."""

from __future__ import annotations

import doctest
import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import labcode.scheduler
from labcode import simulate, workload
from labcode.cost import paper
from labcode.model import TINY, generate, random_model
from labcode.model.executor import ModelExecutor, random_prompts
from labcode.scheduler import Budgets, Plan, Preemption, Request, RequestState, Results, Scheduler, State, memory
from labcode.scheduler.fair import DeficitRoundRobin
from labcode.scheduler.kv_cache import Paged
from labcode.scheduler.states import QUEUED, RUNNING, TERMINAL, TRANSITIONS


def test_the_example_in_the_docstring():
    found = doctest.testmod(labcode.scheduler)
    assert found.attempted == 10 and found.failed == 0


# States ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("old", "new"), list(itertools.product(State, State)))
def test_the_table_of_states_exhaustively(old, new):
    state = RequestState(Request(0, 1, 1), old)
    if new in TRANSITIONS[old]:
        state.move(new)
        assert state.state is new
    else:
        with pytest.raises(ValueError, match="there is no way to"):
            state.move(new)
        assert state.state is old
    assert old not in TERMINAL or not TRANSITIONS[old]
    assert new is not State.WAITING or new not in TRANSITIONS[old]


def test_states_are_of_one_kind_each_and_all_can_be_reached_and_ended():
    assert set(State) == RUNNING | QUEUED | TERMINAL
    assert not (RUNNING & QUEUED or RUNNING & TERMINAL or QUEUED & TERMINAL)
    reached = {State.WAITING}
    for _ in State:
        reached |= {new for old in reached for new in TRANSITIONS[old]}
    assert reached == set(State)
    for old in State:
        if old not in TERMINAL:
            assert TRANSITIONS[old] >= {State.CANCELLED, State.TIMED_OUT, State.FAILED}


# By hand --------------------------------------------------------------------------------------------------------------


def step(scheduler, now, finished=()):
    plan = scheduler.schedule(now)
    scheduler.update(plan, Results(finished), now + 1)
    return plan


def test_the_last_token_takes_no_position():
    """10 + 7 tokens write 16 positions: the last token is handed out and never fed back."""
    for policy in ("declared", "paged:1", "paged:16"):
        scheduler = Scheduler(memory(policy, 16))
        assert scheduler.add(Request(0, 10, 7), 0.0) is None
        refusal = scheduler.add(Request(1, 10, 8), 0.0)
        assert refusal.kind == "pool" and "needs 17 tokens" in refusal.reason
        for k in range(7):
            assert step(scheduler, float(k), {0} if k == 6 else ())
        assert scheduler.requests[0].state is State.FINISHED and scheduler.requests[0].preemptions == 0


def test_max_context_counts_prompt_and_limit():
    load = workload.from_arrays([0.0, 0.0], [8000, 8000], [192, 193])
    run = simulate(load, "llama3-8b", memory="paged:16")
    assert run.requests["outcome"].tolist() == ["finished", "refused"]
    assert "8000 + output 193 tokens exceed the model's context of 8192" in run.requests["reason"].iloc[1]


def test_double_cancel_and_a_completion_that_comes_too_late():
    pool = Paged(64, 4)
    scheduler = Scheduler(pool)
    scheduler.add(Request(0, 8, 8), 0.0)
    plan = scheduler.schedule(0.0)
    assert scheduler.cancel(0, 0.5) and not scheduler.cancel(0, 0.6)
    assert pool.free_blocks == 16 and scheduler.ended[0].state is State.CANCELLED
    scheduler.update(plan, Results({0}), 1.0)  # the step was under way
    state = scheduler.requests[0]
    assert (state.state, state.generated, pool.free_blocks) == (State.CANCELLED, 0, 16)
    assert len(scheduler.ended) == 1 and not scheduler.schedule(1.0) and not scheduler.cancel(99, 1.0)
    scheduler.forget(0)
    scheduler.update(plan, Results({0}, {0: "late"}), 2.0)  # and even later
    assert not scheduler.requests and pool.free_blocks == 16


def test_cancel_while_swapped_out_and_while_it_comes_back():
    for when in ("out", "coming back"):
        pool = Paged(12, 4)
        scheduler = Scheduler(pool, preemption=Preemption(action="swap"))
        scheduler.add(Request(0, 4, 9), 0.0)
        scheduler.add(Request(1, 4, 9, arrival=0.1), 0.1)
        while not (plan := step(scheduler, 1.0)).swapped_out:
            pass
        assert [work.request.id for work in plan.swapped_out] == [1]
        assert scheduler.requests[1].state is State.SWAPPED_OUT and scheduler.waiting == 1
        if when == "out":
            assert scheduler.cancel(1, 2.0)
            assert scheduler.waiting == 0
            step(scheduler, 2.0, {0})
        else:
            step(scheduler, 2.0, {0})
            plan = scheduler.schedule(3.0)
            assert [work.request.id for work in plan.swapped_in] == [1]
            assert scheduler.cancel(1, 3.5)
            scheduler.update(plan, Results({1}), 4.0)
        assert scheduler.requests[1].state is State.CANCELLED and pool.free_blocks == 3
        assert not scheduler.schedule(5.0) and not scheduler.running


def test_a_readers_manager_that_knows_only_whole_horizons_is_asked_to_grow():
    """`horizon` without pages: as many steps as the manager says, then `grow` with all that was written."""

    class Slab:
        """Hands out slabs of 10; may be asked how long they last."""

        def __init__(self):
            self.room, self.grown = {}, []

        def try_admit(self, request, positions):
            self.room[request.id] = -(-positions // 10) * 10
            return True

        def grow(self, request, positions):
            self.grown.append(positions)
            self.room[request.id] = max(self.room[request.id], -(-positions // 10) * 10)
            return True

        def free(self, request):
            del self.room[request.id]

        def horizon(self, holders):
            return min(self.room[request.id] - positions for request, positions in holders)

    load = workload.from_arrays([0.0, 0.3], [7, 12], [50, 30])
    slab = Slab()
    run = simulate(load, memory=slab)
    slow = simulate(load, memory=(checked := Slab()), step_by_step=True)
    assert not slab.room and max(slab.grown) == 7 + 50 - 1 and len(slab.grown) < len(checked.grown)
    assert run.requests["finished"].tolist() == pytest.approx(slow.requests["finished"].tolist(), rel=1e-9)


def test_an_end_token_that_nobody_predicted():
    """The model says when an answer ends: neither the senders' limit nor any prediction knew."""
    model = random_model(TINY, seed=0)
    load = workload.from_arrays([0.0] * 6, [9, 14, 5, 22, 8, 11], 40)
    prompts = random_prompts(load, TINY.vocab)
    alone = [generate(model, prompt, 40) for prompt in prompts]
    stop = alone[0][12]
    expected = [tokens[: tokens.index(stop) + 1] if stop in tokens else tokens for tokens in alone]
    executor = ModelExecutor(model, prompts, paper(TINY.spec(), "h100"), stop=stop)
    pool = Paged(120, 4)
    scheduler = Scheduler(pool, DeficitRoundRobin(20.0), Budgets(max_bs=4))
    for i, prompt in enumerate(prompts):
        scheduler.add(Request(i, len(prompt), 40, tenant="ab"[i % 2]), 0.0)
    now = 0.0
    while plan := scheduler.schedule(now):
        results, now = executor.execute(plan, now, scheduler.stands_for(plan), float("inf"))
        scheduler.update(plan, results, now)
    assert executor.outputs == expected and min(map(len, expected)) < 40
    assert all(state.state is State.FINISHED for state in scheduler.requests.values())
    assert pool.free_blocks == 30 and scheduler.queue.charged["a"] == sum(
        len(prompts[i]) + 2 * len(expected[i]) - 1 + scheduler.requests[i].recomputed for i in (0, 2, 4)
    )


# Anything, in any order -----------------------------------------------------------------------------------------------


class Ledger(Paged):
    """A pool that remembers who was let in and who was given back."""

    def __init__(self, *args):
        super().__init__(*args)
        self.inside: set[int] = set()

    def try_admit(self, request, positions):
        assert request.id not in self.inside, "let in twice"
        taken = super().try_admit(request, positions)
        self.inside |= {request.id} if taken else set()
        return taken

    def free(self, request):
        assert request.id in self.inside, "given back twice"
        self.inside.remove(request.id)
        super().free(request)


class AnyOrder(RuleBasedStateMachine):
    """Requests, cancellations, pauses, deadlines, rounds and reports, late ones too, in any order."""

    def __init__(self):
        super().__init__()
        self.pool = Ledger(48, 4)
        self.scheduler = self.make("recompute")
        self.now, self.next, self.flying, self.final = 0.0, 0, [], {}

    def make(self, action):
        return Scheduler(
            self.pool,
            DeficitRoundRobin(8.0),
            Budgets(max_bs=3, prefill="chunked", token_budget=16),
            Preemption(action=action),
            expire="always",
        )

    @precondition(lambda self: self.next == 0)
    @rule(action=st.sampled_from(["recompute", "swap"]))
    def choose(self, action):
        self.scheduler = self.make(action)

    @rule(
        prompt=st.integers(1, 30),
        most=st.integers(1, 20),
        patience=st.none() | st.integers(1, 9),
        tenant=st.sampled_from("ab"),
    )
    def add(self, prompt, most, patience, tenant):
        deadline = None if patience is None else self.now + patience
        self.scheduler.add(Request(self.next, prompt, most, self.now, deadline, tenant), self.now)
        self.next += 1

    @precondition(lambda self: self.next)
    @rule(pick=st.integers(0, 10**6))
    def cancel(self, pick):
        self.scheduler.cancel(pick % self.next, self.now)

    @precondition(lambda self: self.next)
    @rule(pick=st.integers(0, 10**6))
    def pause_or_resume(self, pick):
        state = self.scheduler.requests[pick % self.next]
        if state.state is State.DECODING:
            self.scheduler.pause(state.id)
        elif state.state is State.PAUSED:
            self.scheduler.resume(state.id)

    @rule()
    def round(self):
        """Decide; the report of what was decided comes later, if ever."""
        if not self.flying:  # one step is under way at a time
            plan = self.scheduler.schedule(self.now)
            if plan:
                self.flying.append(plan)

    @precondition(lambda self: self.flying)
    @rule(ends=st.sets(st.integers(0, 5)), late=st.integers(0, 3))
    def report(self, ends, late):
        plan = self.flying.pop()
        receivers = [s.id for s in plan.decode] + [w.request.id for w in plan.prefill if w.yields]
        full = {s.id for s in plan.decode if s.generated + 1 >= s.request.max_tokens}
        full |= {
            w.request.id for w in plan.prefill if w.yields and w.request.generated + 1 >= w.request.request.max_tokens
        }
        finished = full | {receivers[k] for k in ends if k < len(receivers)}
        self.now += 1
        self.scheduler.update(plan, Results(finished), self.now)
        for _ in range(late):  # the same words again
            self.scheduler.update(Plan(), Results(finished), self.now)

    @invariant()
    def blocks_and_places_are_given_back_once(self):
        scheduler, pool = self.scheduler, self.pool
        assert pool.inside == set(scheduler.running) == set(pool.pool.held)
        assert pool.pool.free_blocks + sum(pool.pool.held.values()) == pool.pool.blocks
        assert len(scheduler.running) <= 3
        for state in scheduler.requests.values():
            assert (state.state in RUNNING) == (state.id in scheduler.running)
        assert scheduler.waiting == len(scheduler.queue) == sum(s.state in QUEUED for s in scheduler.requests.values())

    @invariant()
    def ends_are_final(self):
        for number, (state, generated, reason) in self.final.items():
            now = self.scheduler.requests[number]
            assert (now.state, now.generated, now.reason) == (state, generated, reason)
        for state in self.scheduler.requests.values():
            if state.state in TERMINAL:
                self.final[state.id] = (state.state, state.generated, state.reason)
        ended = [state.id for state in self.scheduler.ended]
        assert len(ended) == len(set(ended)) and set(ended) == set(self.final)

    def teardown(self):
        for number in range(self.next):
            self.scheduler.cancel(number, self.now)
        assert not self.pool.inside and self.pool.free_blocks == self.pool.pool.blocks
        assert not self.scheduler.queue.lines and not self.scheduler.queue._inside


AnyOrder.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAnyOrder = AnyOrder.TestCase
