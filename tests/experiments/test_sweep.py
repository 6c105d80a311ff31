"""A sweep's table: what is in it, common random numbers, equal results whoever computes them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

from labcode import SLO, simulate, workload
from labcode.experiments import interval, paired, seeds_of, sweep
from tests.experiments.cells import deadly, draw, fragile, small_chat

QUIET = {"progress": False}


def test_a_row_for_every_cell_and_repetition_in_the_order_of_the_grid():
    table = sweep({"rate": [4, 16], "memory": ["oracle", "max:8192"]}, small_chat, seeds=3, **QUIET)
    assert len(table) == 2 * 2 * 3
    assert table["rate"].tolist() == [4] * 6 + [16] * 6
    assert table["memory"].tolist() == (["oracle"] * 3 + ["max:8192"] * 3) * 2
    assert table["repetition"].tolist() == [0, 1, 2] * 4
    assert (table["submitted"] == 40).all() and (table["error"] == "").all()


def test_a_row_holds_what_simulate_says_for_the_seed_it_names():
    table = sweep({"max_bs": [4]}, small_chat, seeds=2, slo=SLO(), rate=12.0, n=30, **QUIET)
    for row in table.itertuples():
        run = simulate(workload.chat(30, 12.0, row.workload_seed), max_bs=4)
        expected = run.summary(SLO())
        assert all(getattr(row, key) == value for key, value in expected.items() if not np.isnan(value))


def test_every_cell_meets_the_same_requests_in_the_same_repetition():
    table = sweep({"memory": ["oracle", "max:8192"], "rate": [4, 9]}, small_chat, seeds=4,
                  metrics=lambda run: {"prompts": run.load.prompt.sum(), "shape": run.load.arrival[-1] * run.load.rate},
                  **QUIET)  # fmt: skip
    spread = table.groupby("repetition")[["prompts", "shape"]].std()
    assert np.allclose(spread, 0)
    assert table["prompts"].nunique() == 4, "repetitions differ among themselves"


def test_more_repetitions_leave_the_first_ones_as_they_are():
    assert seeds_of(8)[:3] == seeds_of(3)
    assert len({s.workload for s in seeds_of(1000)} | {s.policy for s in seeds_of(1000)}) == 2000
    assert seeds_of(3, entropy=1)[0] != seeds_of(3)[0]


def test_seeds_may_be_given_themselves():
    table = sweep({"rate": [8]}, small_chat, seeds=[7, 3], metrics=["duration_s"], **QUIET)
    assert table["workload_seed"].tolist() == [7, 3]
    run = simulate(workload.chat(40, 8.0, 3))
    assert table["duration_s"][1] == run.summary()["duration_s"]


def test_load_itself_can_be_swept_and_is_shown_by_name():
    table = sweep({"load": [workload.chat, workload.long_context]}, n=20, rate=2.0, seeds=1, metrics=["steps"], **QUIET)
    assert table["load"].tolist() == ["chat", "long_context"]
    assert table["steps"].nunique() == 2


def test_a_fixed_workload_is_run_once_unless_the_policy_itself_draws():
    load = workload.chat(40, 8.0, 0)
    assert len(sweep({"max_bs": [1, 2]}, load, metrics=["steps"], **QUIET)) == 2
    guessed = sweep({"order": ["sjf:1.0"]}, load, seeds=6, max_bs=2, metrics=["waited_mean_s"], **QUIET)
    assert guessed["waited_mean_s"].nunique() > 1
    with pytest.raises(ValueError, match="every repetition is the same run"):
        sweep({"max_bs": [1, 2]}, load, seeds=5, **QUIET)


def test_threads_and_processes_give_the_very_same_table():
    grid = {"size": [1, 2, 5, 100], "shift": [0.0, 1.0]}
    serial = sweep(grid, function=draw, seeds=3, **QUIET)
    with ThreadPoolExecutor(2) as threads:
        pd.testing.assert_frame_equal(
            sweep(grid, function=draw, seeds=3, executor=threads, **QUIET), serial, check_exact=True
        )


@pytest.mark.slow
def test_a_pool_of_processes_gives_the_very_same_table():
    grid = {"rate": [4, 16], "order": ["fcfs", "sjf:0.5"]}
    serial = sweep(grid, small_chat, seeds=2, max_bs=4, **QUIET)
    pooled = sweep(grid, small_chat, seeds=2, max_bs=4, executor="processes", **QUIET)
    pd.testing.assert_frame_equal(pooled, serial, check_exact=True)


@pytest.mark.slow
def test_dask_gives_the_very_same_table():
    distributed = pytest.importorskip("dask.distributed")
    grid = {"rate": [4, 16], "memory": ["oracle", "max:8192"]}
    serial = sweep(grid, small_chat, seeds=2, **QUIET)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        remote = sweep(grid, small_chat, seeds=2, executor=client.get_executor(), **QUIET)
        # Dask's own pickler also takes a function that is defined right here.
        local = sweep({"n": [10]}, lambda seed, n: workload.chat(n, 1.0, seed), seeds=1, metrics=["finished"],
                      executor=client.get_executor(), **QUIET)  # fmt: skip
    pd.testing.assert_frame_equal(remote, serial, check_exact=True)
    assert local["finished"].tolist() == [10]


@pytest.mark.parametrize("executor", ["serial", "threads"])
def test_a_cell_that_raises_is_reported_and_loses_no_other(executor):
    pool = ThreadPoolExecutor(2) if executor == "threads" else executor
    with pytest.warns(
        UserWarning, match=r"2 of 6 runs failed.*size=2, repetition 0: ZeroDivisionError: two is not allowed"
    ):
        table = sweep({"size": [1, 2, 3]}, function=fragile, seeds=2, executor=pool, **QUIET)
    assert table["size"].tolist() == [1, 1, 2, 2, 3, 3]
    assert table["error"].ne("").tolist() == [False, False, True, True, False, False]


def test_a_cell_that_simulate_refuses_is_reported_with_its_reason():
    with pytest.warns(UserWarning, match="1 of 2 runs failed"):
        table = sweep({"memory": ["oracle", "max"]}, small_chat, seeds=1, metrics=["finished"], **QUIET)
    assert table["finished"].fillna(-1).tolist() == [40, -1]
    assert "memory = 'max': known are" in table["error"][1]


@pytest.mark.slow
def test_a_cell_that_kills_its_process_takes_only_itself_down():
    with pytest.warns(UserWarning, match="1 of 4 runs failed"):
        table = sweep({"size": [1, 2, 3, 4]}, function=deadly, seeds=1, executor="processes", **QUIET)
    assert table["error"].str.startswith("BrokenProcessPool").tolist() == [False, True, False, False]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"grid": {}}, "at least one option"),
        ({"grid": [1]}, "a mapping from option name"),
        ({"grid": {"rate": []}}, r"grid\['rate'\] = \[\]: at least one value"),
        ({"grid": {"memory": "oracle"}}, r"write \['oracle'\]"),
        ({"grid": {"max_bs": 4}}, r"write \[4\]"),
        ({"grid": {"batches": [1]}}, "'batches': known are load, model, gpu, engine, max_bs"),
        ({"grid": {"seed": [1]}}, "'seed': known are"),
        ({"grid": {"n": [1]}, "load": workload.fixed(5, 1.0)}, "'n': known are"),
        ({"load": None}, "load is missing"),
        ({"load": 3}, "load = 3: a Workload, or a function"),
        ({"load": lambda: 3}, "must take a seed"),
        ({"executor": "cluster"}, "'cluster': known are serial, processes"),
        ({"executor": 4}, "executor = 4: an object with the method submit"),
        ({"executor": ThreadPoolExecutor}, "an object with the method submit"),
        (
            {"executor": "processes", "load": lambda seed: workload.chat(10, 1.0, seed)},
            "cannot be sent to another process",
        ),
        ({"seeds": 0}, "seeds = 0: must be at least 1"),
        ({"seeds": []}, "at least one is needed"),
        ({"seeds": [1, 1]}, "the same seed twice"),
        ({"seeds": [-1]}, r"seeds\[0\] = -1"),
        ({"slo": 1.0}, "slo = 1.0: an SLO is needed"),
        ({"metrics": "steps"}, r"write \['steps'\]"),
        ({"max_bs": 3}, "max_bs: given in the grid and as a fixed option"),
        ({"function": draw}, "function: replaces load"),
        ({"function": 1, "load": None}, "something to call is needed"),
        ({"function": draw, "load": None}, "'max_bs': known are size, shift"),
        ({"path": "results.parquet"}, "the name of a .csv file"),
    ],
)
def test_bad_input_is_named_before_any_work(arguments, message):
    def never(seed):
        raise AssertionError("work was done")

    call = {"grid": {"max_bs": [1, 2]}, "load": never, **QUIET, **arguments}
    with pytest.raises(ValueError, match=message):
        sweep(**call)


def test_an_unknown_metric_or_a_result_that_is_no_number_fails_its_cells_only():
    with pytest.warns(UserWarning, match="metrics = 'latency': known are submitted"):
        sweep({"max_bs": [1]}, small_chat, seeds=1, metrics=["latency"], **QUIET)
    with pytest.warns(UserWarning, match="a number was expected"):
        sweep({"size": [1]}, function=lambda size, seed: {"x": "one"}, seeds=1, **QUIET)
    with pytest.warns(UserWarning, match="'size', as another column is"):
        sweep({"size": [1]}, function=lambda size, seed: {"size": 1}, seeds=1, **QUIET)


def test_intervals_cover_the_truth_as_often_as_they_say():
    table = sweep({"size": [4]}, function=draw, seeds=2000, metrics=None, **QUIET)
    covered = 0
    for start in range(0, 2000, 10):
        part = table.iloc[start : start + 10]
        row = interval(part, "mean").iloc[0]
        covered += row["low"] <= 0.5 <= row["high"]
    # 200 intervals of 95 %: 190 expected, standard deviation 3.
    assert 178 <= covered <= 199


def test_a_paired_difference_is_free_of_what_both_have_in_common():
    table = sweep({"shift": [0.0, 0.25], "size": [3, 4]}, function=draw, seeds=5, **QUIET)
    difference = paired(table, "mean", "shift", 0.0, 0.25)
    assert difference["size"].tolist() == [3, 4]
    assert np.allclose(difference[["mean", "low", "high"]], 0.25)
    assert (interval(table, "mean")["high"] - interval(table, "mean")["low"] > 0.05).all()


def test_one_repetition_has_no_interval_and_failed_cells_are_counted():
    with pytest.warns(UserWarning):
        table = sweep({"size": [1, 2]}, function=lambda size, seed: {"x": 1 / (size - 2)}, seeds=1, **QUIET)
    shown = interval(table, "x")
    assert shown["mean"].tolist()[0] == -1 and shown[["low", "high"]].isna().all(axis=None)
    assert shown["missing"].tolist() == [0, 1]
