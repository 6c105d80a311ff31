"""The summary of a run: whom it counts, over which window, and who is on target."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from labcode import SLO, simulate, workload
from labcode.results.metrics import summarise
from labcode.results.outcomes import OUTCOMES
from labcode.results.run import Run


def stopped(load, stop_at):
    """A run that knows when it was told to stop."""
    run = simulate(load, stop_at=stop_at)
    return Run(load, run.record, run.cost, stop_at)


def test_a_run_that_was_cut_off_counts_those_who_had_come():
    load = workload.chat(n=100, rate=8, seed=1)
    run = stopped(load, 5.0)
    summary = run.summary(SLO())
    assert (load.arrival <= 5).sum() == 38
    assert summary["submitted"] == 38 == sum(summary[name] for name in OUTCOMES)
    assert summary["submitted_per_s"] == pytest.approx(7.6) and summary["duration_s"] == 5
    assert (summary["window_start_s"], summary["window_end_s"]) == (0, 5)
    assert summary["finished"] == 22 and summary["unfinished"] == 16 and summary["finished_per_s"] == pytest.approx(4.4)
    assert summary["slo_of_submitted"] == pytest.approx(22 / 38) == run.attainment(SLO())
    over = summary.table()["over"]
    assert "had arrived by 5 s" in over["submitted"] and "0 to 5 s" in over["duration_s"]


def test_whom_nobody_stopped_is_counted_whole():
    load = workload.chat(n=30, rate=8, seed=1)
    whole, late = simulate(load).summary(SLO()), stopped(load, 1e6).summary(SLO())
    assert whole == pytest.approx(late, nan_ok=True) and whole["submitted"] == 30
    assert whole["window_start_s"] == load.arrival[0] and "last token" in whole.table().loc["duration_s", "over"]


def test_a_run_that_stops_before_anybody_comes_has_no_data():
    run = stopped(workload.from_arrays([3.0, 4.0], 10, 10), 1.0)
    summary = run.summary(SLO())
    assert summary["submitted"] == 0 and summary["submitted_per_s"] == 0
    assert math.isnan(summary["slo_of_submitted"]) and math.isnan(run.attainment(SLO()))
    assert math.isnan(summary["ttft_p50_s"])


ROW = {"outcome": "finished", "output_tokens": 10, "arrival": 0.0, "finished": 1.0, "ttft": 0.1, "tpot": 0.1}


@pytest.mark.parametrize(
    ("changes", "slo", "met"),
    [
        ({}, SLO(1.0, 1.0, itl=1.0, e2e=1.0), True),
        ({"outcome": "failed"}, SLO(None, None), False),
        ({"outcome": "unknown"}, SLO(None, None), False),
        ({"ttft": np.nan}, SLO(1.0, None), False),
        ({"ttft": np.nan}, SLO(None, 1.0), True),
        ({"finished": np.nan}, SLO(1.0, 1.0, e2e=9.0), False),
        ({"tpot": np.nan}, SLO(1.0, 1.0), False),
        ({"tpot": np.nan, "output_tokens": np.nan}, SLO(1.0, 1.0), False),
        ({"tpot": np.nan, "output_tokens": 1}, SLO(1.0, 1.0), True),
        ({"itl_max": np.nan}, SLO(1.0, 1.0, itl=9.0), False),
        ({"itl_max": np.nan, "output_tokens": 1}, SLO(1.0, 1.0, itl=9.0), True),
        ({"itl_max": 2.0}, SLO(1.0, 1.0, itl=1.0), False),
        ({"ttft": 1.5}, SLO(1.0, 1.0), False),
    ],
)
def test_no_data_is_not_on_time(changes, slo, met):
    table = pd.DataFrame([ROW | {"itl_max": 0.2} | changes])
    assert slo.met(table).tolist() == [met]
    assert slo.met({name: column.to_numpy() for name, column in table.items()}).tolist() == [met]


def test_every_outcome_has_a_key_and_a_meaning():
    rows = [ROW | {"outcome": name, "first_token": 0.1, "prompt_tokens": 5, "waited": 0.0} for name in OUTCOMES]
    summary = summarise(pd.DataFrame(rows))
    assert [summary[name] for name in OUTCOMES] == [1] * 7
    assert (summary.table()["over"] != "").all() and (summary.table()["unit"] != "").all()
