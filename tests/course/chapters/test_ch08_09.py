"""What chapters 8 and 9 claim in their text."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labcode import SLO, simulate, workload
from labcode.cost import hardware
from labcode.course.exercises import check, exercises
from labcode.experiments.intervals import Interval, over_seeds, t_interval
from labcode.experiments.saturation import (
    drain_rate,
    fluid_bounds,
    fluid_goodput,
    ideal_decode,
    mean_context,
    waiting_at,
)
from labcode.experiments.seed_table import rounded, run_seeds, seed_table

BOOK = Path(__file__).resolve().parents[3] / "book"
# Intervals -----------------------------------------------------------------------------------------------------------


def test_t_interval_of_a_textbook_sample():
    """Mean 10, s = 2, n = 16: t(15) at 97.5 % is 2.1314."""
    draws = np.array([8.0, 12.0] * 8)
    draws = 10 + (draws - 10) * 2 / draws.std(ddof=1)
    interval = t_interval(draws)
    assert interval.mean == pytest.approx(10)
    assert interval.half == pytest.approx(2.1314 * 2 / 4, rel=1e-4)
    assert format(interval, ".2f") == "10.00 ± 1.07"
    assert 10.5 in interval and 11.5 not in interval


def test_t_interval_covers_the_mean_as_often_as_it_says():
    rng = np.random.default_rng(0)
    covered = [5.0 in t_interval(rng.normal(5, 2, 6), 0.9) for _ in range(2000)]
    assert np.mean(covered) == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize("values", [[1.0], [], [1.0, float("nan")], [1.0, float("inf")], [[1.0, 2.0]]])
def test_intervals_refuse_what_is_no_sample(values):
    with pytest.raises(ValueError, match="values"):
        t_interval(values)


def test_over_seeds_asks_each_seed_once():
    assert over_seeds(float, 5).mean == 2.0
    assert over_seeds(float, [1, 3]).mean == 2.0
    with pytest.raises(ValueError, match="Interval"):
        Interval(3.0, 4.0, 5.0, 2)


def test_seed_table_says_mean_and_half_width_with_two_digits_of_it():
    slo = SLO(ttft=1.0, tpot=0.05)
    runs = {rate: run_seeds(workload.chat, rate, slo, n=100, seeds=4, memory="oracle") for rate in (2, 20)}
    table = seed_table(runs, ["slo", "ttft_p50", "tokens"], index="req/s")
    assert table.shape == (2, 3) and table.index.name == "req/s"
    assert table.loc[2, "SLO met (%)"] == "100"
    exact = t_interval([1000 * run["ttft_p50_s"] for run in runs[20]])
    assert table.loc[20, "TTFT median (ms)"] == rounded(exact)
    assert rounded(Interval(26790.4, 21447.0, 32133.8, 10)) == "26,790 ± 5,343"
    assert rounded(Interval(0.1254, 0.1104, 0.1404, 10)) == "0.125 ± 0.015"
    with pytest.raises(ValueError, match="ttft_p75"):
        seed_table(runs, ["ttft_p75"])


# Sustainable rates ---------------------------------------------------------------------------------------------------


def test_drain_rate_of_one_seat_is_one_over_the_service_time():
    load = workload.fixed(n=40, rate=1.0, prompt=64, output=32)
    alone = simulate(workload.from_arrays([0.0], 64, 32)).requests["finished"][0]
    assert drain_rate(load, max_bs=1, memory="unlimited") == pytest.approx(1 / alone, rel=1e-9)
    with pytest.raises(ValueError, match="more requests than places"):
        drain_rate(workload.fixed(n=10), max_bs=64, memory="unlimited")


@given(st.integers(1, 512), st.integers(1, 8000))
def test_ideal_decode_is_what_the_step_costs(batch, context):
    cost = hardware.step_cost("llama3-8b", "h100", [hardware.SeqWork(1, context - 1)] * batch)
    assert ideal_decode(batch, context) == pytest.approx(batch / cost.time, rel=1e-9)


def test_mean_context_counts_every_decode_step():
    load = workload.from_arrays([0.0, 1.0], [10, 100], [3, 1])
    assert mean_context(load) == pytest.approx((11 + 12) / 2)


def test_the_lectures_ideal_limit_is_the_one_of_128_seats():
    context = mean_context(workload.chat(n=50_000, rate=1.0, seed=0))
    assert ideal_decode(128, context) == pytest.approx(12_656, rel=0.02)
    assert ideal_decode(256, context) > 1.3 * 12_656


@pytest.mark.slow
@pytest.mark.parametrize("seats", [64, 128, 256])
def test_the_saturated_engine_lies_between_the_bounds(seats):
    load = workload.chat(n=3000, rate=1.0, seed=0)
    bounds = fluid_bounds(load, seats)
    mixed = drain_rate(load, max_bs=seats, memory="unlimited")
    assert bounds.apart < mixed < bounds.smooth
    apart = drain_rate(load, max_bs=seats, memory="unlimited", prefill="prefill_first")
    assert apart == pytest.approx(bounds.apart, rel=0.08)


@given(st.floats(1, 100), st.integers(1000, 100_000), st.floats(0.1, 5), st.floats(0, 500))
def test_fluid_goodput_solves_its_equation_and_falls_to_the_drain_rate(drain, n, ttft, head):
    rate = fluid_goodput(drain, n, ttft, 0.9, head)
    assert rate >= drain
    if np.isfinite(rate):
        assert (0.9 * n - head) * (1 / drain - 1 / rate) == pytest.approx(ttft, rel=1e-6)
        assert fluid_goodput(drain, 2 * n, ttft, 0.9, head) <= rate


def test_waiting_counts_arrivals_less_admissions():
    run = simulate(workload.chat(n=200, rate=30.0, seed=1), max_bs=8)
    times = np.linspace(0, run.record.segments["end"][-1], 50)
    table = run.requests
    expected = [((table["arrival"] <= t) & (table["admitted"] > t)).sum() for t in times]
    assert waiting_at(run, times).tolist() == expected


@pytest.mark.slow
def test_longer_experiments_find_less_goodput_down_to_the_drain_rate():
    """The chapter's headline, seed by seed: 63 requests/s come from 600 requests."""
    from labcode import goodput

    for seed in range(4):
        found = [goodput(workload.chat(n, 1.0, seed), memory="oracle").rate for n in (600, 1200, 3000, 10_000)]
        keeps_up = drain_rate(workload.chat(10_000, 1.0, seed), memory="oracle")
        assert found[0] > found[1] > found[2] > found[3] * 0.99
        assert found[0] > 1.2 * keeps_up
        assert found[3] == pytest.approx(keeps_up, rel=0.06)


def test_the_line_grows_by_rate_minus_drain_rate():
    load = workload.chat(n=10_000, rate=1.0, seed=0)
    keeps_up = drain_rate(load, memory="oracle")
    run = simulate(load.at_rate(1.3 * keeps_up), memory="oracle")
    last = run.load.arrival[-1]
    half, full = waiting_at(run, [last / 2, last])
    assert (full - half) / (last / 2) == pytest.approx(0.3 * keeps_up, rel=0.2)


# Knobs ---------------------------------------------------------------------------------------------------------------


def test_little_turns_places_into_a_rate():
    """Chapter 9: C / R, measured inside the run, is the drain rate."""
    load = workload.chat(3000, 1.0, 0)
    requests = simulate(load.at_rate(1e6), memory="max:8192").requests.iloc[1000:2500]
    residence = (requests.finished - requests.admitted).mean()
    assert 52 / residence == pytest.approx(drain_rate(load, memory="max:8192"), rel=0.02)


def test_a_random_order_gets_most_of_the_gain_in_attainment_and_none_in_the_mean():
    slo = SLO(ttft=1.0, tpot=0.05)
    placebo = np.random.default_rng(7).random(600)
    gains, means = [], []
    for seed in range(10):
        load = workload.chat(600, 40, seed)
        run = {
            name: simulate(load, memory="oracle", max_bs=64, order=order)
            for name, order in (("fcfs", "fcfs"), ("sjf", "sjf"), ("random", lambda r: placebo[r.id]))
        }
        met = {name: one.attainment(slo) for name, one in run.items()}
        gains.append((met["random"] - met["fcfs"]) / (met["sjf"] - met["fcfs"]))
        wait = {name: float((one.record.first_token - load.arrival).mean()) for name, one in run.items()}
        means.append((wait["random"] - wait["fcfs"]) / wait["fcfs"])
        assert wait["sjf"] < 0.65 * wait["fcfs"]
    assert np.mean(gains) > 0.6
    assert 0.0 in t_interval(means)


def test_ageing_is_a_plain_key():
    """Output less the waiting time and output plus the arrival order any two requests alike, at any moment."""
    load = workload.chat(200, 5.0, 3)
    static = load.output + 30 * load.arrival
    for now in (load.arrival[-1], 1e4):
        assert np.array_equal(np.argsort(static), np.argsort(load.output - 30 * (now - load.arrival)))


def test_a_chunk_bounds_the_longest_pause():
    load = workload.chat(600, 48, 0)
    whole, chunks = (simulate(load, memory="oracle", **way).requests.itl_max.max()
                     for way in ({}, {"prefill": "chunked", "token_budget": 512}))  # fmt: skip
    assert whole > 0.08 and chunks < 0.015


# Exercises and pages -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("id", "value"),
    [("8.1a", 7), ("8.1b", 3), ("8.1c", 8), ("8.1d", 4), ("8.2a", 4626), ("8.2b", 5982), ("8.2c", 5668),
     ("8.2d", 6011), ("8.2e", 1364), ("8.3a", 9190), ("8.3b", 1225), ("8.4a", 9000), ("8.4b", 200), ("8.4c", 30),
     ("8.4d", 1335), ("9.1a", 0.20), ("9.1b", 5314), ("9.1c", 0.999), ("9.2a", 0.0), ("9.2b", 135), ("9.3", 623),
     ("9.4a", 0.75), ("9.4b", 0.183), ("9.5a", 40.0), ("9.5b", 57.1)],
)  # fmt: skip
def test_the_answers_that_the_text_gives_are_right(id, value):
    assert check(id, value) == "right"


def test_every_exercise_of_the_chapters_is_registered():
    for name, prefix in (("08-continuous-batching", "8."), ("09-knobs", "9.")):
        if not (BOOK / f"{name}.ipynb").is_file():
            pytest.skip(f"{name} is not there")
        notebook = json.loads((BOOK / f"{name}.ipynb").read_text(encoding="utf-8"))
        text = "".join("".join(cell["source"]) for cell in notebook["cells"])
        for id in exercises():
            if id.startswith(prefix):
                assert f"`{id}`" in text or f'"{id}"' in text, id
        assert all(not cell.get("outputs") for cell in notebook["cells"])
