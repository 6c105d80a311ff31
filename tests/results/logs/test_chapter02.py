"""What chapter 2 and its labs claim, over every setting of the labs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from labcode import SLO, simulate, workload
from labcode.course import labs
from labcode.course.labs import ch02_chunks, ch02_denominators, ch02_timeline, ch02_weights
from labcode.results import metrics
from labcode.results.logs import summary_by

IDS = ("ch02-timeline", "ch02-weights", "ch02-denominators", "ch02-chunks")


@pytest.mark.parametrize("name", IDS)
def test_corners_of_a_lab_compute_and_speak(name):
    lab = labs.find(name)
    for pick in (0, -1):
        setting = {control.name: control.values[pick] for control in lab.controls}
        result = lab.run(**setting)
        assert all(panel.text for panel in result.panels) and lab.alt_text(result, setting)
        assert max(len(series.x) for panel in result.panels for series in panel.series) <= 80


def test_ttft_and_the_rest_add_up_to_the_last_token_in_every_state():
    for state in ch02_timeline.LAB.states():
        row = ch02_timeline.request(**state).requests.iloc[0]
        assert row["ttft"] == pytest.approx(state["wait"] + state["prefill"])
        if state["outputs"] == 1:
            assert math.isnan(row["tpot"]) and row["finished"] == row["first_token"]
        else:
            assert row["ttft"] + (state["outputs"] - 1) * row["tpot"] == pytest.approx(row["finished"])
            assert row["itl_max"] == pytest.approx(0.02 + state["stall"])


def test_the_lab_starts_at_the_exercise():
    assert ch02_timeline.LAB.default == ch02_timeline.EXERCISE


def test_a_frozen_second_keeps_the_objective():
    result = ch02_timeline.LAB.run(outputs=101, stall=1.0)
    assert "frozen" in result.headline and result.headline.endswith("kept.")


def test_tokens_weigh_like_pooled_gaps():
    tpot, tokens = ch02_weights.population(0.2, 100, 60.0, 20.0)
    pooled = np.repeat(tpot, tokens - 1)
    assert metrics.mean(tpot, tokens - 1) == pytest.approx(pooled.mean())
    for q in (50, 99):
        assert metrics.weighted_percentile(tpot, tokens - 1, q) == metrics.percentile(pooled, q)


def test_shares_fall_with_the_denominator_in_every_state():
    for state in ch02_denominators.LAB.states():
        (submitted, admitted, finished), rates = ch02_denominators.shares(**state)
        assert submitted <= admitted + 1e-12 and admitted <= finished + 1e-12
        assert rates[0] == 1000 / state["window"] and rates[3] <= rates[2] <= rates[1] <= rates[0]


def test_refusing_more_raises_the_share_of_the_finished_and_no_other():
    before, after = (ch02_denominators.shares(refused, 50, late, 100)[0] for refused, late in ((100, 150), (300, 0)))
    assert after[2] == 1 > before[2] and after[0] < before[0]


def test_dividing_by_the_tokens_in_a_piece_hides_the_stall():
    seen, true = ch02_chunks.log_of(8, 20.0, 0.5), ch02_chunks.log_of(1, 20.0, 0.5)
    seconds, tokens = seen.chunk_intervals()
    assert np.median(seconds) == pytest.approx(0.16) and seconds.max() == pytest.approx(0.66)
    assert (seconds / tokens).max() == pytest.approx(0.0825) and true.itl()[0].max() == pytest.approx(0.52)
    assert seen.requests["output_tokens"].iloc[0] == true.requests["output_tokens"].iloc[0] == 120


def test_chapter_claim_few_late_tokens_reach_most_requests():
    run = simulate(workload.chat(n=2000, rate=32.0, seed=0), memory="oracle")
    itl, tokens = run.itl()
    assert np.average(itl > 0.05, weights=tokens) < 0.02
    assert (run.requests["itl_max"] > 0.05).mean() > 0.5


def test_chapter_claim_cutting_an_overloaded_run_flatters_it():
    load, slo = workload.chat(n=4000, rate=64.0, seed=0), SLO(ttft=1.0, tpot=0.05)
    cut, whole = (simulate(load, memory="max:8192", stop_at=stop).summary(slo) for stop in (60.0, None))
    assert cut["ttft_p99_s"] < whole["ttft_p99_s"] / 2
    assert cut["slo_of_finished"] > whole["slo_of_finished"]
    on_target = [summary["slo_of_submitted"] * summary["submitted"] for summary in (cut, whole)]
    assert on_target[0] == pytest.approx(on_target[1])  # all who would ever be on target were early


def test_goodput_of_slices_adds_up_on_a_simulated_run():
    table, slo = simulate(workload.chat(n=500, rate=32.0, seed=1), memory="oracle").requests, SLO(ttft=0.05)
    sliced = summary_by(table, "prompt_tokens", slo, edges=(128.0, 512.0))
    whole = metrics.summarise(table, slo=slo)
    assert sliced["goodput_per_s"].sum() == pytest.approx(whole["goodput_per_s"])
    assert sliced["submitted"].sum() == 500
