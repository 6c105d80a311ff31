"""Cost models behind one interface: defaults, runs of steps, names, and the form for compiled loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcode import simulate, workload
from labcode.cost import CostModel, MeasuredCost, SeqWork, StepShape, as_cost, linear, paper, smooth
from labcode.cost.compiled import compiled_advance, compiled_step_time, round_up
from labcode.cost.formula import Roofline, combine
from labcode.cost.leap import SAME_INSTANT
from labcode.cost.measured import Grid, a100_llama3_8b
from labcode.cost.roofline import RooflineCost


class Own:
    """A reader's object with the one method, and nothing that follows a straight line."""

    def step_time(self, shape: StepShape) -> float:
        return 1e-3 + 1e-6 * shape.new**1.5 + 1e-4 * math.sin(shape.kv) ** 2


ROUNDED = MeasuredCost(
    np.array([1.0, 8, 64, 512]), np.array([1e-3, 1.1e-3, 2e-3, 9e-3]),
    Grid(np.array([1, 8, 64]), np.array([64, 512, 4096]), 1e-4 * np.array([[1.0, 2, 9], [2, 5, 30], [7, 31, 210]])),
    Grid(np.array([16, 128, 1024]), np.array([0, 512, 4096]), 1e-4 * np.array([[1.0, 2, 3], [2, 4, 8], [9, 16, 60]])),
)  # fmt: skip
COSTS = {
    "paper": paper("llama3-8b", "h100"),
    "smooth": smooth("llama3-8b", "h100", 1.7),
    "sum": smooth("llama3-8b", "h100", 1.0),
    "linear": linear(0.003, 0.0005),
    "measured": a100_llama3_8b(),
    "rounded": ROUNDED,
}
works = st.lists(st.builds(SeqWork, st.integers(1, 3000), st.integers(0, 9000)), max_size=6)


@st.composite
def shapes(draw):
    prefill = draw(works)
    n_decode = draw(st.integers(0 if prefill else 1, 300))
    return StepShape.of(prefill, n_decode, sum(draw(st.lists(st.integers(1, 9000), min_size=1, max_size=3))) * n_decode)


def compiled_time(cost, shape):
    """Ask the compiled form of `cost` for the time of `shape`."""
    form = cost.compiled_form()
    squares = sum(work.new**2 for work in shape.prefill)
    past = sum(round_up(work.past, form.round_kv) for work in shape.prefill)
    return compiled_step_time(
        form, shape.new, shape.pairs, shape.kv, len(shape.prefill), squares, past, shape.n_decode, shape.decode_kv
    )


@pytest.mark.parametrize("name", COSTS)
@settings(max_examples=200, deadline=None)
@given(shapes())
def test_compiled_steps_take_as_long(name, shape):
    assert compiled_time(COSTS[name], shape) == pytest.approx(COSTS[name].step_time(shape), rel=1e-12)


@pytest.fixture(scope="session")
def predicted(shared_data) -> MeasuredCost:
    """The tables that Vidur predicts for Llama-3-8B on an A100."""
    parts = ("compute", "attn_decode", "attn_prefill")
    return MeasuredCost.from_csv(*(shared_data / f"vidur_predicted_{part}_ms_per_layer.csv" for part in parts), 32)


@given(shape=shapes())
@settings(max_examples=100, deadline=None)
def test_compiled_steps_of_predicted_tables_take_as_long(predicted, shape):
    assert compiled_time(predicted, shape) == pytest.approx(predicted.step_time(shape), rel=1e-12)


def stepped(cost, n_decode, kv, start, limit, until):
    """The definition of a run of decode steps: one after the other."""
    steps, end = 0, start
    while steps < limit and (steps == 0 or end < until - SAME_INSTANT):
        end += cost.step_time(StepShape.of((), n_decode, kv + steps * n_decode))
        steps += 1
    return steps, end


@pytest.mark.parametrize("name", [*COSTS, "own"])
@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 300),
    st.integers(1, 200_000),
    st.floats(0, 1e3),
    st.integers(1, 200),
    st.one_of(st.just(math.inf), st.floats(0, 3.0)),
)
def test_a_run_of_steps_ends_where_its_steps_end(name, n_decode, kv, start, limit, length):
    kv += n_decode
    cost, until = COSTS.get(name) or as_cost(Own()), start + length
    expected = stepped(cost, n_decode, kv, start, limit, until)
    found = cost.advance(StepShape.of((), n_decode, kv), start, limit, until)
    assert found[0] == expected[0] and found[1] == pytest.approx(expected[1], rel=1e-9)
    if name != "own":
        form = cost.compiled_form()
        assert compiled_advance(form, n_decode, kv, start, limit, until) == pytest.approx(found, rel=1e-12)


@pytest.mark.parametrize("name", [*COSTS, "own"])
@pytest.mark.parametrize(("late", "steps"), [(-1e-6, 5), (-5e-10, 5), (5e-10, 5), (1e-6, 6)])
def test_a_step_that_ends_at_the_same_instant_is_the_last(name, late, steps):
    cost, first = COSTS.get(name) or as_cost(Own()), StepShape.of((), 9, 900)
    until = stepped(cost, 9, 900, 1.0, 5, math.inf)[1] + late
    assert cost.advance(first, 1.0, 100, until)[0] == steps
    if name != "own":
        assert compiled_advance(cost.compiled_form(), 9, 900, 1.0, 100, until)[0] == steps


def test_a_run_asks_hardly_further_than_it_must():
    asked = []

    class Counting(CostModel):
        def step_time(self, shape):
            asked.append(shape)
            return 0.01

    assert Counting().advance(StepShape.of((), 3, 300), 1.0, 10**9, 1.1) == (10, pytest.approx(1.1))
    assert len(asked) <= 12
    assert Counting().advance(StepShape.of((), 3, 300), 1.0, 7) == (7, pytest.approx(1.07))


def test_a_step_that_takes_no_time_does_not_hang_a_run():
    class Nothing(CostModel):
        def step_time(self, shape):
            return 0.0

    assert Nothing().advance(StepShape.of((), 1, 1), 0.0, 5000, 1.0) == (5000, 0.0)


def test_what_follows_from_step_time_alone():
    cost = as_cost(Own())
    assert cost.decode_times([1, 2], [[10, 20]]).tolist() == [
        [cost.step_time(StepShape.of((), 1, 10)), cost.step_time(StepShape.of((), 2, 20))]
    ]
    assert cost.prefill_times([5]).tolist() == [cost.step_time(StepShape.of([SeqWork(5)]))]
    assert cost.bound(StepShape.of((), 1, 10)) == "" and cost.compiled_form() is None
    run = simulate(workload.chat(5, 1.0, 0), cost=Own())
    assert set(run.steps["bound"]) == {""}


@pytest.mark.parametrize("name", ["paper", "smooth", "linear"])
def test_arrays_of_prompts_are_the_single_ones(name):
    lengths, cost = np.array([1, 17, 4000]), COSTS[name]
    singly = [cost.step_time(StepShape.of([SeqWork(int(n))])) for n in lengths]
    assert cost.prefill_times(lengths) == pytest.approx(singly, rel=1e-12)
    assert cost.bound(StepShape.of([SeqWork(1)])) == "memory"


def test_names_and_objects():
    assert as_cost("paper", "llama3-8b", "h100") == paper("llama3-8b", "h100")
    assert as_cost("smooth", "llama2-7b", "h200") == smooth("llama2-7b", "h200")
    assert isinstance(as_cost("measured", "llama3-8b", "a100-80"), MeasuredCost)
    assert as_cost(ROUNDED) is ROUNDED
    with pytest.raises(ValueError, match="cost = 'guess': known are paper, smooth, measured"):
        as_cost("guess")
    for wrong in (3.0, None, Own):
        with pytest.raises(ValueError, match=r"needs the method step_time\(shape\)"):
            as_cost(wrong)


@given(st.floats(1e-6, 10), st.floats(1e-6, 10), st.floats(1, 20))
def test_a_smooth_maximum_lies_between_the_larger_and_the_sum(memory, compute, p):
    hard, both = combine(memory, compute, np.inf), combine(memory, compute, 1.0)
    assert hard == max(memory, compute) and both == memory + compute
    assert hard <= combine(memory, compute, p) <= both * (1 + 1e-12)
    assert combine(memory, compute, p) == pytest.approx((memory**p + compute**p) ** (1 / p), rel=1e-9)
    assert combine(np.array([memory]), compute, p)[0] == pytest.approx(combine(memory, compute, p), rel=1e-14)


@pytest.mark.parametrize(
    ("roofs", "p"),
    [(dict.fromkeys(Roofline._fields, 0.0), 1.0), ({"move_kv": -1.0}, 1.0), ({"linear": np.nan}, 2.0), ({}, 0.5)],
)
def test_a_roofline_that_makes_no_sense_is_refused(roofs, p):
    with pytest.raises(ValueError, match=r"roofs|p = 0\.5"):
        RooflineCost(COSTS["paper"].roofs._replace(**roofs), p)
