"""Every cell of the lecture's diagrams, and the letters against what the record says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcode import simulate, workload
from labcode.course.evidence import serving as evidence
from labcode.results.timeline import OneStep, timeline
from labcode.simulation.batches import BatchRules
from tests.simulation.random_cases import GPU, MODEL, loads, options


def test_ledger_L06_every_cell_of_both_diagrams():
    seen = evidence.six_request_diagrams()
    assert seen["continuous_iterations"] == 10
    assert seen["static_iterations"] == 18
    assert seen["continuous_rows"] == ("PDDDDD", "PDD", " PDDDDDDDD", "  ·PD", "   ··PDDDD", "      PDD")
    assert seen["static_rows"] == (
        "PDDDDD",
        "PDD---",
        " ·····PDDDDDDDD",
        "  ····PD-------",
        "   ···PDDDD----",
        "      ·········PDD",
    )


def test_text_looks_like_the_lecture():
    text = timeline(evidence.six_request_run("continuous")).text().splitlines()
    assert text[0] == "    0123456789"
    assert text[3] == "r2   PDDDDDDDD"


def test_kv_by_hand():
    """Two requests, prompts 3 and 2, outputs 3 and 1: tokens written after each iteration, reserved while they run
    (the last token of each takes no position)."""
    load = workload.from_arrays([0, 0], [3, 2], [3, 1])
    seen = timeline(simulate(load, MODEL, GPU, memory="oracle", capacity=50, max_bs=2, cost=OneStep()))
    assert seen.kv_used.tolist() == [5, 4, 5]
    assert seen.kv_reserved.tolist() == [7, 5, 5]
    assert seen.seats.tolist() == [2, 1, 1]


def test_static_that_does_not_keep_seats_has_no_dashes():
    run = evidence.six_request_run("static", batch=BatchRules(keep_places=False))
    seen = timeline(run)
    assert seen.count("-") == 0
    assert seen.row(1) == "PDD"


def test_chunks_and_pauses():
    """A budget of 4 tokens: r0's prompt of 6 takes two iterations, r1 waits: nothing of the first is left for it."""
    load = workload.from_arrays([0, 0], [6, 2], [2, 2])
    seen = timeline(
        simulate(
            load,
            MODEL,
            GPU,
            memory="oracle",
            capacity=50,
            max_bs=2,
            cost=OneStep(),
            prefill="chunked",
            token_budget=4,
        )
    )
    assert [seen.row(0), seen.row(1)] == ["PPD", "·PD"]


def test_prefill_first_pauses_the_decodes():
    load = workload.from_arrays([0, 1], [6, 2], [3, 2])
    seen = timeline(
        simulate(load, MODEL, GPU, memory="oracle", capacity=50, max_bs=2, cost=OneStep(), prefill="prefill_first")
    )
    assert [seen.row(0), seen.row(1)] == ["P=DD", " PD"]


def test_after_a_preemption_a_request_waits_and_prefills_again():
    load = workload.from_arrays([0, 0, 0, 1], [4, 4, 4, 4], [9, 9, 9, 6])
    seen = timeline(simulate(load, MODEL, GPU, memory="paged:1", capacity=24, max_bs=3, cost=OneStep()))
    assert seen.row(2) == "PDDDD····PDDD"
    assert seen.row(3) == " ········PDDDDD"


@settings(max_examples=80, deadline=None)
@given(loads(most=12), options())
def test_letters_agree_with_the_record(load, built):
    run = simulate(load, **built)
    try:
        seen = timeline(run, longest=20_000)
    except ValueError as error:
        assert "chunks and preemptions" in str(error)
        return
    seg = run.record.segments
    steps = seg["steps"]
    assert len(seen) == steps.sum()
    assert ((seen.letters == "D").sum(axis=0) == np.repeat(seg["n_decode"], steps)).all()
    if not run.record.preemptions.any():
        assert ((seen.letters == "P").sum(axis=0) == np.repeat(seg["n_prefill"], steps)).all()
    assert (np.diff(seen.end) > 0).all()
    assert (seen.start[1:] >= seen.end[:-1] - 1e-9).all()
    assert (seen.kv_used >= 0).all()
    if built["memory"] != "unlimited":
        assert (seen.kv_used <= seen.kv_reserved).all()
    for i, outcome in enumerate(run.requests["outcome"]):
        if outcome == "refused":
            assert seen.row(i) == ""
            continue
        # As many tokens as cells that give one: every decode, and the last cell of every prefill.
        times = run.token_times(i)
        cells = np.flatnonzero(np.isin(seen.letters[i], ["P", "D"]))
        assert set(np.round(times, 9)) <= set(np.round(seen.end[cells], 9))
        assert len(times) == load.output[i]
        assert seen.end[cells[-1]] == pytest.approx(times[-1], abs=1e-9)
        assert (seen.letters[i] == "D").sum() + len(
            run.record.span_request[run.record.span_request == i]
        ) == load.output[i]


@settings(max_examples=40, deadline=None)
@given(loads(most=12), st.sampled_from([1, 2, 5]), st.booleans(), st.booleans())
def test_dashes_are_the_idle_seats(load, max_bs, keep_seats, step_by_step):
    run = simulate(
        load,
        MODEL,
        GPU,
        engine="static",
        max_bs=max_bs,
        memory="unlimited",
        step_by_step=step_by_step,
        batch=BatchRules(keep_places=keep_seats),
    )
    seen = timeline(run, longest=20_000)
    idle = np.repeat(run.record.segments["n_idle"], run.record.segments["steps"])
    assert ((seen.letters == "-").sum(axis=0) == idle).all()


def test_a_run_too_long_to_look_at_is_refused():
    run = simulate(workload.fixed(n=3, output=50), max_bs=1)
    with pytest.raises(ValueError, match="at most 100"):
        timeline(run, longest=100)


def test_ledger_L32_one_seat_is_the_sequential_engine():
    assert evidence.one_seat_equals_sequential() == {
        "admitted": True,
        "first_token": True,
        "finished": True,
        "tokens": True,
    }


@pytest.mark.parametrize(("policy", "rounds", "expected"), [
    ("whole batch", (0.010, 0.010), [40, 40, 50]),
    ("early return", (0.010, 0.010), [40, 10, 50]),
    ("continuous", (0.010, 0.010), [40, 10, 20]),
    ("whole batch", (0.006, 0.010), [28, 28, 34]),
    ("early return", (0.006, 0.010), [28, 10, 34]),
    ("continuous", (0.006, 0.010), [32, 10, 20]),
])  # fmt: skip
def test_ledger_C02_completion_times(policy, rounds, expected):
    times = evidence.abc_completions(policy, rounds)
    assert [1000 * t for t in times] == pytest.approx(expected, rel=1e-12)


def test_ledger_C02_means():
    mean = {
        key: 1000 * np.mean(evidence.abc_completions(*key))
        for key in (
            ("early return", (0.010, 0.010)),
            ("continuous", (0.010, 0.010)),
            ("early return", (0.006, 0.010)),
            ("continuous", (0.006, 0.010)),
        )
    }
    assert list(mean.values()) == pytest.approx([100 / 3, 70 / 3, 24, 62 / 3], rel=1e-12)


def test_ledger_C03_utilisation():
    assert evidence.utilisation((64, 64, 256)) == {"linear": 0.5, "attention": 0.375}
    assert evidence.utilisation((7, 7)) == {"linear": 1.0, "attention": 1.0}
    with pytest.raises(ValueError, match="at least one prompt"):
        evidence.utilisation(())
