"""What chapters 5 and 7 claim in their text, and their labs over the whole grid."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labcode import simulate, workload
from labcode.cost import hardware
from labcode.cost.hardware import SeqWork
from labcode.course.evidence import serving as evidence
from labcode.course.evidence.buckets import PRICES, drain, median_ttft, occupancy
from labcode.course.exercises import check, exercises
from labcode.course.labs import find
from labcode.course.labs.ch05_buckets import serve, waits_for
from labcode.course.labs.ch05_timeline import letters
from labcode.model import TINY, generate, generate_continuously, random_model
from labcode.model.padding import Rectangle
from labcode.results.timeline import timeline
from labcode.simulation.batches import BatchRules

# Chapter 5 -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 4096), min_size=1, max_size=50))
def test_attention_is_used_worse_than_linear_layers_but_no_worse_than_its_square(prompts):
    eta = evidence.utilisation(prompts)
    assert eta["linear"] ** 2 <= eta["attention"] * (1 + 1e-12)
    assert eta["attention"] <= eta["linear"] * (1 + 1e-12)


def test_ledger_L04_L05_the_mixed_step():
    box = Rectangle.of([SeqWork(37), SeqWork(9), SeqWork(1, 120), SeqWork(1, 15), SeqWork(1, 64)])
    assert (box.useful_tokens, box.tokens, round(box.token_waste, 2)) == (49, 185, 0.74)
    assert (box.useful_pairs, box.pairs, round(box.pair_ratio, 1)) == (950, 22385, 23.6)


def test_lab_timeline_shows_the_empty_place():
    cells, ends = letters("early return", (4, 1, 1), (0.01, 0.01))
    assert ["".join(row).rstrip() for row in cells] == ["DDDD", "D---", "····D"]
    assert (1000 * ends).round(6).tolist() == [40, 10, 50]
    cells, _ = letters("continuous", (4, 1, 1), (0.01, 0.01))
    assert ["".join(row).rstrip() for row in cells] == ["DDDD", "D", "·D"]


def test_empty_places_follow_the_formula():
    """A static engine that is never idle: the idle share equals the formula over its own batches."""
    load = workload.from_arrays([0.0] * 64, 10, np.random.default_rng(0).integers(2, 200, 64))
    run = simulate(load, engine="static", max_bs=16, memory="unlimited")
    steps = run.steps
    idle, useful = (steps["n_idle"] * steps["steps"]).sum(), (steps["n_decode"] * steps["steps"]).sum()
    more = load.output.reshape(-1, 16) - 1  # the first token comes from the prefill
    assert idle / (idle + useful) == pytest.approx(1 - more.sum() / (16 * more.max(axis=1).sum()))


def test_buckets_raise_the_drain_rate_under_every_price_and_cost_latency_below_it():
    for price in PRICES:
        rates = [drain(buckets, price, n=1500, seeds=1) for buckets in (1, 2, 4, 8)]
        assert rates == sorted(rates) and rates[-1] > 1.5 * rates[0]
        medians = [median_ttft(b, 0.0, 0.25 * rates[2], n=1500, seeds=(0,), **PRICES[price]) for b in (1, 2, 4, 8)]
        assert medians == sorted(medians)
    assert median_ttft(2, 0.0, 20.0, n=1500) < median_ttft(1, 0.0, 20.0, n=1500)


def test_at_low_load_the_longest_wait_is_the_latency():
    assert np.median(waits_for(serve(8, 1000, 2))) > 1.0
    assert np.median(waits_for(serve(1, 0, 2))) < 0.05
    assert occupancy(serve(8, 1000, 2))[0] < 2


def test_the_window_of_the_exercise_pays_three_percent():
    from labcode.cost.roofline import linear

    def median(wait, rate):
        runs = [
            simulate(
                workload.fixed(3000, rate, 10, 1, seed, arrivals="poisson"),
                engine="bucketed",
                max_bs=64,
                memory="unlimited",
                cost=linear(0.05, 0.001),
                batch=BatchRules(padded=True, max_wait=wait),
            )
            for seed in range(2)
        ]
        return np.mean([np.median(waits_for(run)) for run in runs])

    assert 0.94 < median(0.01, 18) / median(0.0, 18) < 0.99
    assert median(0.01, 10) - median(0.0, 10) == pytest.approx(0.01, rel=0.1)


# Chapter 7 -----------------------------------------------------------------------------------------------------------


def test_the_real_model_keeps_the_schedule_and_the_tokens():
    six, model, rng, rows = evidence.six_requests(), random_model(TINY, seed=0), np.random.default_rng(0), [""] * 6

    def watch(step):
        for i in range(6):
            rows[i] += "P" if i in step.prefill else "D" if i in step.decode else "·" if i in step.waiting else " "

    prompts = [rng.integers(0, TINY.vocab, n).tolist() for n in six.prompt]
    arrivals = six.arrival.astype(int).tolist()
    together = generate_continuously(model, prompts, six.output.tolist(), 3, arrivals, watch=watch)
    assert together == [generate(model, p, int(n)) for p, n in zip(prompts, six.output, strict=True)]
    assert [row.rstrip() for row in rows] == list(evidence.CONTINUOUS_DIAGRAM)


def test_missing_bars_of_figure_9():
    """FasterTransformer allocates 2048 tokens a sequence: out of memory from batch 8 (13B) and from 16 (101B)."""
    assert 4 <= hardware.kv_capacity("gpt3-13b", "a100-40") // 2048 < 8
    assert 8 <= hardware.kv_capacity("gpt3-101b", "8xa100-40") // 2048 < 16


def test_lab_timeline_steps_through_the_diagram():
    lab = find("ch07-timeline")
    for iteration in (0, 5, 9):
        cells = {
            (x, y): s.glyph
            for s in lab.run(iteration=iteration).panels[0].series
            for x, y in zip(s.x, s.y, strict=True)
        }
        expected = {
            (k, i): letter
            for i, row in enumerate(evidence.CONTINUOUS_DIAGRAM)
            for k, letter in enumerate(row[: iteration + 1])
            if letter != " "
        }
        assert cells == expected
    reserved = next(s for s in lab.run(iteration=9).panels[1].series if s.name == "reserved")
    assert max(reserved.y) <= 80


def test_pool_of_80_changes_nothing_of_the_diagram_and_32_each_does():
    exact = timeline(evidence.six_request_run("continuous", memory="oracle", capacity=80))
    assert tuple(exact.row(i) for i in range(6)) == evidence.CONTINUOUS_DIAGRAM
    greedy = timeline(evidence.six_request_run("continuous", memory="max:32", capacity=80))
    assert greedy.seats.max() == 2


ANSWERS = {"5.1a": 24, "5.1b": 70 / 3, "5.2a": 0.5, "5.2b": 0.352, "5.3a": 294, "5.3b": 4080, "5.4a": 0.6,
           "5.4b": 1 / 3, "7.1": 5, "7.2a": 15, "7.2b": 20, "7.3": 0.5, "7.4": 34}  # fmt: skip


def test_answers_are_registered():
    assert set(ANSWERS) <= set(exercises())


@pytest.mark.parametrize(("id", "value"), ANSWERS.items())
def test_answers_of_the_solutions(id, value):
    assert check(id, value) == "right"
