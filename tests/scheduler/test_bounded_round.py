"""Algorithm 31.1: it ends, keeps its budgets, never spins; and it agrees with the scheduler where both choose alike."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from labcode.scheduler import Budgets, Request, RequestState, Results, Scheduler, State, memory
from labcode.scheduler.bounded_round import Floor, Limits, bounded_round
from labcode.scheduler.states import RUNNING, TERMINAL

rows = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 20), st.sampled_from("ab")), min_size=1, max_size=8)


def people(rows):
    return [RequestState(Request(i, p, o, float(i), tenant=t)) for i, (p, o, t) in enumerate(rows)]


@given(
    rows,
    st.integers(8, 64),
    st.integers(1, 4),
    st.integers(1, 12),
    st.integers(0, 4),
    st.integers(0, 2**20),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_a_run_of_rounds_ends_within_its_budgets(rows, tokens, sequences, pages, least, luck, timed):
    floor = Floor(people(rows), quantum=16.0, carry=64.0, weights={"b": 3.0})
    limits = Limits(tokens, sequences, pages + 1, 1, 8, min_prefill=least, min_decode=least // 2)
    if timed:
        limits = Limits(**{**vars(limits), "seconds": 30.0, "estimate": lambda works: sum(n + c / 8 for n, c in works)})
    fits = {s.id for s in floor.everybody if s.request.prompt + s.request.max_tokens - 1 <= 8 * pages}

    def execute(plan):
        assert sum(work.new for work in plan) <= tokens and len({work.request.id for work in plan}) == len(plan)
        assert sum(floor.held.values()) <= pages and len(floor.held) <= sequences
        assert limits.estimate([(w.new, w.past) for w in plan]) <= limits.seconds
        for work in plan:
            assert floor.held[work.request.id] * 8 >= work.past + work.new
            assert work.request.state not in TERMINAL
        return {w.request.id for w in plan if w.yields and w.request.generated + 1 == w.request.request.max_tokens}

    for k in range(5000):
        if k % 7 == 3 and luck >> (k % 20) & 1:
            floor.gone.add(k % len(rows))
        before = [(s.state, s.computed, s.generated, s.preemptions) for s in floor.everybody]
        if bounded_round(floor, limits, float(k), execute) == "nobody is left":
            break
        after = [(s.state, s.computed, s.generated, s.preemptions) for s in floor.everybody]
        assert before != after, "a round that changes nothing"
        assert all(old[0] not in TERMINAL or old == new for old, new in zip(before, after, strict=True))
        assert set(floor.held) == {s.id for s in floor.everybody if s.state in RUNNING}
    assert floor.log[-1] == "nobody is left" and not floor.held
    for state in floor.everybody:
        assert state.state in TERMINAL
        if state.id in fits and state.state is not State.CANCELLED and not timed:
            assert state.state is State.FINISHED and state.generated == state.request.max_tokens


@given(rows, st.integers(0, 40), st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_the_same_plans_as_the_scheduler_where_both_choose_alike(rows, extra, sequences):
    """One tenant, chunks, room for everybody: the only thing left to decide is who gets the budget."""
    rows = [(prompt, output, "a") for prompt, output, _ in rows]
    tokens = sequences + extra
    floor = Floor(people(rows), quantum=1e9, carry=1e9)
    limits = Limits(tokens, sequences, 10**6)
    scheduler = Scheduler(memory("paged:16", 10**7), budgets=Budgets(sequences, "chunked", tokens))
    for state in floor.everybody:
        scheduler.add(state.request, state.request.arrival)
    seen = []

    def execute(plan):
        seen.append({(w.request.id, w.new, w.past) for w in plan})
        return {w.request.id for w in plan if w.yields and w.request.generated + 1 == w.request.request.max_tokens}

    for k in range(3000):
        plan = scheduler.schedule(100.0 + k)
        said = bounded_round(floor, limits, 100.0 + k, execute)
        if not plan:
            assert said == "nobody is left"
            return
        assert seen[-1] == {(w.request.id, w.new, w.past) for w in plan.prefill} | {
            (s.id, 1, s.computed) for s in plan.decode
        }
        due = [w.request for w in plan.prefill if w.yields] + list(plan.decode)
        scheduler.update(plan, Results({s.id for s in due if s.generated + 1 == s.request.max_tokens}), 0.0)
    raise AssertionError("no end")


def test_deadlines_credit_passing_over_and_a_version_that_moved():
    def ends(plan):
        return {w.request.id for w in plan if w.yields and w.request.generated + 1 == w.request.request.max_tokens}

    late = RequestState(Request(0, 4, 4, deadline=1.0))
    floor = Floor([late, RequestState(Request(1, 4, 1))])
    assert bounded_round(floor, Limits(8, 2, 4), 2.0, ends) == "ran 1+4" and late.state is State.TIMED_OUT

    # A tenant in debt waits while others run, and comes in at once when nobody else is there.
    floor = Floor(people([(4, 2, "a"), (4, 2, "b")]), quantum=1.0, carry=10.0, credit={"a": -50.0})
    assert bounded_round(floor, Limits(8, 2, 4), 0.0, ends) == "ran 1+4"
    assert bounded_round(floor, Limits(8, 2, 4), 0.0, ends) == "ran 1+1"
    assert bounded_round(floor, Limits(8, 2, 4), 0.0, ends) == "ran 0+4"

    # The first needs a page that is not there; the second goes on in its own.
    floor, limits = Floor(people([(16, 20, "a"), (4, 20, "a")])), Limits(100, 3, 2)
    assert bounded_round(floor, limits, 0.0, ends) == "ran 0+16, 1+4"
    assert bounded_round(floor, limits, 0.0, ends) == "ran 1+1"

    # Somebody else changed the pages: nothing of the plan is reserved.
    assert not floor.reserve({9: 1}, limits, floor.version - 1) and 9 not in floor.held

    never = Floor(people([(64, 1, "a")]))
    assert bounded_round(never, Limits(8, 1, 0), 0.0, ends) == "refused 0"
