"""Stages, batches in flight and micro-batches: by hand, by closed form, and what no schedule may do."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcode.cost import hardware
from labcode.cost.roofline import paper
from labcode.simulation.pipeline import Pipeline, in_flight, micro_batches, stage_time


def unit(sequences):
    return 1.0


def test_one_batch_fills_one_stage_at_a_time():
    run = micro_batches([5] * 4, stages=3, batch_size=4, parts=1, time=unit)
    assert run.duration == 15
    assert run.bubbles == pytest.approx(2 / 3)


def test_as_many_in_flight_as_stages_leave_only_the_ramp():
    """Three lanes of five iterations on three stages: 15 visits a stage, and two units to fill the
    pipeline."""
    run = in_flight([5] * 6, stages=3, max_bs=2, time=unit)
    assert run.duration == 17
    assert run.bubbles == pytest.approx(2 / 17)
    assert run.finished.tolist() == [15, 15, 16, 16, 17, 17]


@pytest.mark.parametrize("n_workers", [1, 2, 3])
def test_bubbles_in_a_long_run_are_the_missing_batches(n_workers):
    run = in_flight([400] * 3 * n_workers, stages=3, max_bs=3, time=unit, n_workers=n_workers)
    assert run.bubbles == pytest.approx(1 - n_workers / 3, abs=0.003)


@pytest.mark.parametrize("parts", [1, 2, 3, 6])
def test_micro_batches_in_a_long_run(parts):
    """A round takes max(parts, stages) stage times."""
    run = micro_batches([300] * 12, stages=3, batch_size=12, parts=parts, time=unit)
    assert run.duration == pytest.approx(300 * max(parts, 3), rel=0.01)


def test_a_finished_request_makes_room_at_once_only_in_flight():
    outputs = [8, 1, 8, 1, 8, 1]
    ours = in_flight(outputs, stages=2, max_bs=1, time=unit)
    theirs = micro_batches(outputs, stages=2, batch_size=2, parts=2, time=unit)
    assert ours.finished[1] == 3  # second lane: enters stage 0 at 1
    assert theirs.finished[1] == theirs.finished[0]
    assert ours.duration < theirs.duration


def test_micro_batches_without_kept_seats_shrink():
    # Both in one micro-batch: the second iteration has one sequence.
    run = micro_batches([2, 1], stages=1, batch_size=2, parts=1, time=float, keep_seats=False)
    assert [visit.sequences for visit in run.visits] == [2, 1]
    kept = micro_batches([2, 1], stages=1, batch_size=2, parts=1, time=float)
    assert [visit.sequences for visit in kept.visits] == [2, 2]


def test_one_stage_is_the_plain_engine():
    """One stage, one batch: iteration after iteration, at the price of the whole step."""
    step = stage_time("llama3-8b", "h100", 1, 1000)
    run = in_flight([4, 4], stages=1, max_bs=2, time=step)
    assert run.duration == pytest.approx(4 * step(2))
    works = [hardware.SeqWork(1, 999)] * 2
    assert step(2) == pytest.approx(hardware.step_cost("llama3-8b", "h100", works).time)


def test_stages_share_the_step():
    assert stage_time("llama3-8b", "h100", 4, 512)(8) == pytest.approx(stage_time("llama3-8b", "h100", 1, 512)(8) / 4)
    own = stage_time("llama3-8b", "h100", 2, 512, cost=paper("llama3-8b", "h200"))
    assert own(1) < stage_time("llama3-8b", "h100", 2, 512)(1)


outputs = st.lists(st.integers(1, 30), min_size=1, max_size=30)


def legal(run, needed):
    """Hold what physics and causality demand of any schedule."""
    for stage in range(run.stages):
        mine = sorted((v.start, v.end) for v in run.visits if v.stage == stage)
        assert all(b[0] >= a[1] - 1e-9 for a, b in itertools.pairwise(mine))  # one at a time
    lanes = {}
    for visit in run.visits:
        lanes.setdefault(visit.lane, []).append(visit)
    for visits in lanes.values():
        # A lane is in one place at a time: stage after stage, iteration after iteration.
        ordered = sorted(visits, key=lambda v: (v.iteration, v.stage))
        assert all(b.start >= a.end - 1e-9 for a, b in itertools.pairwise(ordered))
    assert np.isfinite(run.finished).all()
    assert run.tokens == sum(needed)
    assert 0 <= run.bubbles < 1


@settings(max_examples=60, deadline=None)
@given(outputs, st.integers(1, 4), st.integers(1, 6), st.integers(1, 5))
def test_in_flight_is_legal_and_makes_every_token(needed, stages, max_bs, n_workers):
    run = in_flight(needed, stages, max_bs, lambda b: 1 + 0.1 * b, n_workers)
    legal(run, needed)
    assert sum(v.sequences for v in run.visits if v.stage == stages - 1) == sum(needed)
    assert max(v.sequences for v in run.visits) <= max_bs
    starts = sorted((v.start, 1) for v in run.visits if v.stage == 0)
    ends = sorted((v.end, -1) for v in run.visits if v.stage == stages - 1)
    flying = np.cumsum([step for _, step in sorted(starts + ends)])
    assert flying.max() <= n_workers


@settings(max_examples=60, deadline=None)
@given(outputs, st.integers(1, 4), st.integers(1, 8), st.integers(1, 8), st.booleans())
def test_micro_batches_are_legal(needed, stages, batch_size, parts, keep_seats):
    if parts > batch_size:
        with pytest.raises(ValueError, match="more parts"):
            micro_batches(needed, stages, batch_size, parts, unit)
        return
    run = micro_batches(needed, stages, batch_size, parts, lambda b: 1 + 0.1 * b, keep_seats)
    legal(run, needed)
    computed = sum(v.sequences for v in run.visits if v.stage == stages - 1)
    assert computed >= sum(needed)
    if not keep_seats:
        assert computed == sum(needed)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: in_flight([], 2, 2, unit), "at least one request"),
    (lambda: in_flight([0], 2, 2, unit), r"outputs\[0\]"),
    (lambda: in_flight([1], 0, 2, unit), "stages"),
    (lambda: in_flight([1], 2, 0, unit), "max_bs"),
    (lambda: Pipeline(0, unit), "stages"),
    (lambda: stage_time("llama3-8b", "h100", 0, 5), "stages"),
])  # fmt: skip
def test_bad_input(call, words):
    with pytest.raises(ValueError, match=words):
        call()
