"""A run exported for a trace viewer is read back and compared with the run, slice by slice."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

from labcode import simulate, workload
from labcode.results.trace_export import ENGINE, REQUESTS, draw, trace_events


def read(run, tmp_path, **options):
    path = run.to_chrome_trace(tmp_path / "run.json", **options)
    content = json.loads(path.read_text())
    assert content["displayTimeUnit"] == "ms"
    return content["traceEvents"]


def slices(events, pid, kinds):
    return [e for e in events if e["ph"] == "X" and e["pid"] == pid and e["cat"] in kinds]


@pytest.fixture
def run():
    return simulate(workload.chat(80, 20.0, 0), memory="max:8192", max_bs=8)


def test_every_event_has_what_the_format_asks_for(run, tmp_path):
    events = read(run, tmp_path)
    for event in events:
        assert {"ph", "ts", "pid", "tid", "name"} <= set(event)
        assert event["ph"] in "XCMi"
        assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0
        if event["ph"] == "C":
            assert all(isinstance(value, int) and value >= 0 for value in event["args"].values())
    timed = [event["ts"] for event in events if event["ph"] != "M"]
    assert timed == sorted(timed)
    names = {e["args"]["name"] for e in events if e["ph"] == "M"}
    assert names == {"Engine", "Requests"}


def test_the_engine_is_shown_segment_by_segment(run, tmp_path):
    shown = slices(read(run, tmp_path), ENGINE, ("prefill", "decode"))
    assert len(shown) == len(run.steps)
    starts = np.array([e["ts"] for e in shown]) * 1e-6
    ends = np.array([e["ts"] + e["dur"] for e in shown]) * 1e-6
    np.testing.assert_allclose(starts, run.steps["start"], atol=1e-9)
    np.testing.assert_allclose(ends, run.steps["end"], atol=1e-9)
    assert (starts[1:] >= ends[:-1] - 1e-12).all(), "one step after the other"
    assert sum(e["args"]["steps"] for e in shown) == run.steps["steps"].sum()


def test_every_request_is_shown_with_its_phases_inside(run, tmp_path):
    events = read(run, tmp_path)
    whole = {e["name"]: e for e in slices(events, REQUESTS, ("request",))}
    assert len(whole) == 80
    for i, request in run.requests.iterrows():
        slice_ = whole[f"request {i}"]
        assert slice_["ts"] == pytest.approx(request["arrival"] * 1e6, abs=1e-3)
        assert slice_["ts"] + slice_["dur"] == pytest.approx(request["finished"] * 1e6, abs=2e-3)
        phases = [e for e in events if e["ph"] == "X" and e["args"].get("request") == i]
        expected = ["waiting"] * (request["waited"] > 0) + ["prefill"] + ["decode"] * (request["output_tokens"] > 1)
        assert [e["name"] for e in phases] == expected
        assert sum(e["dur"] for e in phases) == pytest.approx(slice_["dur"], abs=1e-2)
        assert all(e["tid"] == slice_["tid"] for e in phases)
        if request["waited"] > 0:
            assert phases[0]["dur"] == pytest.approx(request["waited"] * 1e6, abs=2e-3)


def test_requests_on_one_row_do_not_overlap_and_rows_are_few(run, tmp_path):
    shown = slices(read(run, tmp_path), REQUESTS, ("request",))
    for row in {e["tid"] for e in shown}:
        here = [e for e in shown if e["tid"] == row]
        assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-9 for a, b in pairwise(here))
    edges = sorted([(e["ts"], 1) for e in shown] + [(e["ts"] + e["dur"], -1) for e in shown], key=lambda edge: edge)
    most = max(np.cumsum([step for _, step in edges]))
    assert len({e["tid"] for e in shown}) == most


def test_counters_follow_the_record(run, tmp_path):
    counters = [e for e in read(run, tmp_path) if e["ph"] == "C" and e["name"] == "sequences"]
    assert [e["args"]["decoding"] for e in counters] == [*run.steps["n_decode"], 0]
    cache = [e for e in read(run, tmp_path) if e["ph"] == "C" and e["name"].startswith("KV")]
    assert [e["args"]["used"] + e["args"]["reserved"] for e in cache][:-1] == run.steps["kv_reserved"].tolist()


def test_refused_and_unfinished_requests_are_shown_as_such(tmp_path):
    load = workload.from_arrays([0.0, 0.1, 5.0], [100, 9000, 50], [2000, 10, 10])
    events = read(simulate(load, memory="max:8192", stop_at=1.0), tmp_path)
    marks = [e for e in events if e["ph"] == "i"]
    assert len(marks) == 1 and marks[0]["name"] == "request 1 refused"
    assert "exceed the context limit" in marks[0]["args"]["reason"]
    names = [e["name"] for e in slices(events, REQUESTS, ("request", "waiting", "prefill", "decode"))]
    assert names.count("decode") == 1 and "request 0" in names and "request 2" in names


def test_only_the_first_requests_on_demand(run, tmp_path):
    events = read(run, tmp_path, most=5)
    assert len(slices(events, REQUESTS, ("request",))) == 5
    assert len(slices(events, ENGINE, ("prefill", "decode"))) < len(run.steps)
    assert len(trace_events(run, most=10_000)) == len(trace_events(run))
    with pytest.raises(ValueError, match="most = 0"):
        run.to_chrome_trace(tmp_path / "none.json", most=0)
    assert not (tmp_path / "none.json").exists()


def test_what_is_drawn_is_what_the_file_says(run, tmp_path):
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.use("Agg")
    axes = Figure().subplots(2, 1)
    draw(read(run, tmp_path, most=10), axes)
    spans = [path.get_extents() for collection in axes[1].collections for path in collection.get_paths()]
    first = slices(read(run, tmp_path, most=10), ENGINE, ("prefill", "decode"))[0]
    assert min(box.x0 for box in spans) == pytest.approx(first["ts"] * 1e-6)
    labels = {text.get_text() for text in axes[0].texts}
    assert labels == {str(i) for i in range(10)}
