"""An interrupted sweep resumes from what it wrote, and never from what belongs to another sweep."""

from __future__ import annotations

import multiprocessing

import pandas as pd
import pytest
from filelock import FileLock

from labcode import SLO, workload
from labcode.cost import hardware
from labcode.experiments import sweep
from labcode.experiments.grid import Seeds
from labcode.experiments.store import Store
from labcode.experiments.tasks import Item
from tests.experiments.cells import counted, small_chat

SEEDS = Seeds(0, 0, 0)
QUIET = {"progress": False}


def marks(folder, size):
    return len(list(folder.glob(f"{size}-*")))


def test_an_interrupted_sweep_goes_on_where_it_stopped(tmp_path):
    path = tmp_path / "sweep.csv"
    grid = {"size": [1, 2, 3, 4]}
    (tmp_path / "stop-at").write_text("3")
    with pytest.raises(KeyboardInterrupt):
        sweep(grid, function=counted, folder=str(tmp_path), seeds=1, path=path, **QUIET)
    (tmp_path / "stop-at").unlink()
    resumed = sweep(grid, function=counted, folder=str(tmp_path), seeds=1, path=path, **QUIET)
    assert [marks(tmp_path, size) for size in grid["size"]] == [1, 1, 2, 1], "only what was missing ran again"
    at_once = sweep(grid, function=counted, folder=str(tmp_path), seeds=1, **QUIET)
    pd.testing.assert_frame_equal(resumed, at_once, check_exact=True)


@pytest.mark.parametrize("cut", [1, 10, 30])
def test_a_row_that_was_cut_short_is_done_again(tmp_path, cut):
    path = tmp_path / "sweep.csv"
    grid = {"size": [1, 2, 3]}
    whole = sweep(grid, function=counted, folder=str(tmp_path), seeds=1, path=path, **QUIET)
    text = path.read_bytes()
    path.write_bytes(text[:-cut])
    again = sweep(grid, function=counted, folder=str(tmp_path), seeds=1, path=path, **QUIET)
    pd.testing.assert_frame_equal(again, whole, check_exact=True)
    assert [marks(tmp_path, size) for size in grid["size"]] == [1, 1, 2]
    assert path.read_bytes() == text


def test_a_finished_sweep_computes_nothing_and_a_larger_one_only_what_is_new(tmp_path):
    path = tmp_path / "sweep.csv"
    first = sweep({"rate": [4, 8]}, small_chat, seeds=2, slo=SLO(), path=path, **QUIET)
    again = sweep({"rate": [4, 8]}, small_chat, seeds=2, slo=SLO(), path=path, **QUIET)
    pd.testing.assert_frame_equal(first, again, check_exact=True)
    rows = len(path.read_text().splitlines())
    more = sweep({"rate": [8, 9]}, small_chat, seeds=3, slo=SLO(), path=path, **QUIET)
    assert len(path.read_text().splitlines()) == rows + 4  # 2 x 3 runs, two of which were there
    assert more["finished_per_s"][0] == first["finished_per_s"][2]


@pytest.mark.parametrize(
    "change", [{"max_bs": 2}, {"slo": SLO(ttft=0.1)}, {"seed": 1}, {"n": 39}, {"gpu": hardware.gpu("h200")}]
)
def test_other_options_are_another_sweep(tmp_path, change):
    path = tmp_path / "sweep.csv"
    first = {"slo": SLO(), "path": path, "seeds": 1, **QUIET}
    sweep({"rate": [4]}, small_chat, **first)
    changed = sweep({"rate": [4]}, small_chat, **{**first, **change})
    assert len(path.read_text().splitlines()) == 3, "nothing was taken for what it is not"
    alone = sweep({"rate": [4]}, small_chat, **{**first, **change, "path": None})
    pd.testing.assert_frame_equal(changed, alone, check_exact=True)


def write_rows(path, worker, rows):
    store = Store(path, ["size"])
    for row in range(rows):
        store.add(f"{worker}-{row}", Item(row, {"size": row}, SEEDS), {"size": row}, {"x": float(row)})


def test_two_processes_append_to_one_file(tmp_path):
    path = tmp_path / "sweep.csv"
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=write_rows, args=(path, worker, 20)) for worker in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]
    known = Store(path, ["size"]).known
    assert len(known) == 40 and known["a-7"] == {"x": 7.0}
    assert len(path.read_text().splitlines()) == 41


def test_a_row_of_another_process_is_kept_and_not_written_twice(tmp_path):
    path = tmp_path / "sweep.csv"
    one, other = Store(path, ["size"]), Store(path, ["size"])
    item = Item(0, {"size": 1}, SEEDS)
    one.add("first", item, {"size": 1}, {"x": 1.0})
    other.add("second", item, {"size": 2}, {"x": 2.0})
    other.add("first", item, {"size": 1}, {"x": 1.0})
    one.add("third", item, {"size": 3}, {"x": 3.0})
    assert list(Store(path, ["size"]).known) == ["first", "second", "third"]
    assert len(path.read_text().splitlines()) == 4
    with pytest.raises(ValueError, match="this cell gives y; the file has x"):
        Store(path, ["size"]).add("fourth", item, {"size": 4}, {"y": 4.0})


def test_a_file_that_stays_busy_is_refused(tmp_path):
    path = tmp_path / "sweep.csv"
    store = Store(path, ["size"], patience=0.05)
    with FileLock(f"{path}.lock"), pytest.raises(ValueError, match=r"sweep\.csv.*another process has held"):
        store.add("first", Item(0, {"size": 1}, SEEDS), {"size": 1}, {"x": 1.0})
    store.add("first", Item(0, {"size": 1}, SEEDS), {"size": 1}, {"x": 1.0})
    assert list(Store(path, ["size"]).known) == ["first"]


def test_a_file_with_a_byte_order_mark_and_windows_lines_is_read(tmp_path):
    path = tmp_path / "sweep.csv"
    write_rows(path, "a", 2)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    write_rows(path, "b", 1)
    assert Store(path, ["size"]).known == {"a-0": {"x": 0.0}, "a-1": {"x": 1.0}, "b-0": {"x": 0.0}}


def test_failed_cells_are_tried_again(tmp_path):
    path = tmp_path / "sweep.csv"

    def tame(size, seed):
        return {"length": size}

    with pytest.warns(UserWarning):
        sweep(
            {"size": [1, 2]}, load=None, function=lambda size, seed: {"x": 1 / (size - 2)}, seeds=1, path=path, **QUIET
        )
    assert len(path.read_text().splitlines()) == 2
    table = sweep({"size": [1, 2]}, function=tame, seeds=1, path=tmp_path / "other.csv", **QUIET)
    assert table["length"].tolist() == [1, 2]


def test_a_changed_function_of_the_same_name_is_not_taken_for_the_old_one(tmp_path):
    path = tmp_path / "sweep.csv"
    tables = []
    for body in ("size + 1", "size + 2", "size * 2"):
        namespace: dict = {}
        exec(f"def cell(size, seed): return {{'x': {body}}}", namespace)
        tables.append(sweep({"size": [5]}, function=namespace["cell"], seeds=1, path=path, **QUIET)["x"][0])
    assert tables == [6, 7, 10]


def test_the_file_of_another_grid_is_refused(tmp_path):
    path = tmp_path / "sweep.csv"
    sweep({"rate": [4]}, small_chat, seeds=1, path=path, **QUIET)
    with pytest.raises(ValueError, match="take another file"):
        sweep({"max_bs": [4]}, small_chat, seeds=1, path=path, **QUIET)


def test_what_cannot_be_recognised_later_is_refused(tmp_path):
    class Cost:
        def step_time(self, shape):
            return 1.0

    with pytest.raises(ValueError, match="cannot be recognised"):
        sweep({"rate": [4]}, small_chat, seeds=1, cost=Cost(), path=tmp_path / "sweep.csv", **QUIET)
    table = sweep({"rate": [4]}, small_chat, seeds=1, cost=Cost(), metrics=["finished"], **QUIET)
    assert table["finished"].tolist() == [40]


def test_two_fixed_workloads_are_told_apart(tmp_path):
    path = tmp_path / "sweep.csv"
    results = [sweep({"max_bs": [4]}, workload.chat(20, 4.0, seed), path=path, metrics=["duration_s"], **QUIET)
               for seed in (0, 1)]  # fmt: skip
    assert results[0]["duration_s"][0] != results[1]["duration_s"][0]
