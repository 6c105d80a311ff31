"""Reports that lack a part: what is there is taken, what is not is no data, and the summary says how many lack what."""

from __future__ import annotations

import copy
import json
from itertools import chain

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcode import SLO
from labcode.results.logs import OUTCOMES, from_events, from_guidellm, from_vllm
from tests.results.logs.test_tools import GUIDELLM, VLLM, changed, guide, without

LATENCIES = ("ttft", "tpot", "itl_max")
SHARES = ("slo_of_submitted", "slo_of_finished")


def whole_answers(**columns):
    """A vLLM result of two requests whose answers of 1000 tokens came as a whole."""
    given = {"input_lens": [10, 10], "output_lens": [1000, 1000], "ttfts": [0.0, 0.0], "itls": [[], []]}
    return given | {"errors": ["", ""], "start_times": [5.0, 6.0], "duration": 4.0} | columns


def report(*, duration=None, **groups):
    return {"benchmarks": [{"requests": groups} | ({} if duration is None else {"duration": duration})]}


def test_an_answer_that_came_as_a_whole_has_no_times_and_is_not_on_target():
    log = from_vllm(whole_answers())
    assert log.requests["outcome"].tolist() == ["finished", "finished"]
    assert log.requests[[*LATENCIES, "finished", "first_token"]].isna().all(axis=None)
    summary = log.summary(SLO())
    assert summary["finished"] == 2 and summary["partial"] == 2 and next(iter(summary)) == "partial"
    assert [summary[key] for key in SHARES] == [0, 0] and summary["goodput_per_s"] == 0
    for key in ("ttft_p50_s", "ttft_mean_s", "tpot_p50_s", "e2e_p50_s", "itl_p50_s", "chunk_interval_p50_s"):
        assert np.isnan(summary[key]), key
    assert summary.notes == (
        "2 of 2 without a time to first token",
        "2 of 2 without times between tokens",
        "2 of 2 without an end",
    )
    assert summary.table().index[0] == "partial" and "2 of 2 without an end" in summary.table().loc["partial", "over"]
    for slo in (SLO(ttft=None, tpot=1.0), SLO(None, None, e2e=100.0), SLO(ttft=9.0, tpot=None)):
        assert log.summary(slo)["slo_of_submitted"] == 0


def test_a_whole_answer_with_a_ttft_keeps_ttft_and_end_and_has_no_tpot():
    log = from_vllm(whole_answers(ttfts=[2.0, 2.0], output_lens=[1000, 1]))
    assert log.requests["ttft"].tolist() == [2.0, 2.0] and log.requests["finished"].tolist() == [2.0, 3.0]
    assert log.requests["tpot"].isna().all()
    assert log.summary(SLO(ttft=5.0))["slo_of_submitted"] == 0.5  # the other has one token: nothing between tokens
    assert log.summary()["partial"] == 1


def test_a_ttft_of_zero_beside_gaps_is_no_ttft():
    log = from_vllm(whole_answers(output_lens=[3, 3], itls=[[0.1, 0.3], [0.2, 0.2]], ttfts=[0.0, 0.5]))
    first = log.requests.iloc[0]
    assert np.isnan(first["ttft"]) and np.isnan(first["finished"]) and first["itl_max"] == 0.3
    assert first["tpot"] == pytest.approx(0.2)  # the gaps are there
    assert log.summary(SLO())["slo_of_submitted"] == 0 and log.summary(SLO(ttft=1, tpot=1))["slo_of_submitted"] == 0.5


def test_gaps_that_are_all_zero_were_not_seen():
    log = from_vllm(whole_answers(output_lens=[3, 3], itls=[[0.0, 0.0], [0.2, 0.0]], ttfts=[0.5, 0.5]))
    assert np.isnan(log.requests["tpot"].iloc[0]) and log.requests["tpot"].iloc[1] == pytest.approx(0.1)
    assert log.itl()[0].tolist() == [0.2, 0.0] and np.isnan(log.requests["chunks"].iloc[0])
    log = from_vllm(whole_answers(output_lens=[3, 1], itls=[[None, 0.0], []], ttfts=[0.5, 0.5]))
    assert len(log.chunk_intervals()[0]) == 0 and np.isnan(log.requests["finished"].iloc[0])


def test_vllm_nulls_are_missing_and_refuse_nothing():
    nan = float("nan")
    log = from_vllm(
        without(
            VLLM,
            ttfts=[None, 0.1, 0.5, None],
            itls=[[0.1, 0.3], None, [0.2, nan], []],
            output_lens=[3, None, 3, None],
            input_lens=[100, 200, None, 50],
            errors=[None, None, "", ""],
            start_times=[1001.0, 1000.0, None, 1003.0],
        )
    )
    table = log.requests
    assert table.index.tolist() == ["1", "0", "3", "2"]  # without a start: last
    assert np.isnan(table.loc["0", "ttft"]) and table.loc["0", "tpot"] == pytest.approx(0.2)
    assert table.loc["1", ["outcome", "ttft"]].tolist() == ["finished", 0.1] and np.isnan(
        table.loc["1", "output_tokens"]
    )
    assert table.loc["2", ["tpot", "finished", "itl_max"]].isna().all()  # the gap that is missing may be the largest
    assert table.loc["3", "outcome"] == "unknown"
    assert sorted(log.chunk_intervals()[0]) == [0.1, 0.2, 0.3]
    summary = log.summary(SLO())
    assert summary["submitted"] == 4 and summary["unknown"] == 1 and summary["partial"] == 3
    assert "1 of 4 without a start" in summary.notes and "1 of 4 without a number of output tokens" in summary.notes


def test_a_success_without_a_number_of_tokens_keeps_its_times():
    log = from_vllm(without(VLLM, output_lens=[3, 0, 5, 0]))
    assert log.requests.loc["1", "ttft"] == 0.1 and np.isnan(log.requests.loc["1", "output_tokens"])


def test_without_start_times_the_summary_says_so():
    assert "no start_times" in from_vllm(without(VLLM, "start_times")).summary().notes[-1]
    assert not any("start_times" in note for note in from_vllm(VLLM).summary().notes)


@pytest.mark.parametrize(("group", "outcome"), [("incomplete", "unfinished"), ("errored", "failed")])
def test_a_request_that_was_cut_off_has_as_many_tokens_as_pieces_came(group, outcome):
    cut = guide("i1", 102.0, 102.0, 102.5, 103.5, 64, None)
    cut["info"]["timings"]["token_iterations"] = 7
    log = from_guidellm(report(successful=[guide("s1", 100.0, 100.0, 101.0, 103.0, 64, 5)], **{group: [cut]}))
    row = log.requests.loc["i1"]
    assert (row["output_tokens"], row["outcome"], row["ttft"]) == (7, outcome, 0.5)
    assert log.summary(SLO(9, 9))["slo_of_submitted"] == 0.5


def test_a_success_that_was_not_streamed_has_an_end_and_no_ttft():
    content = changed("successful", 0, first_token_iteration=None, last_token_iteration=None, request_end=103.5)
    log = from_guidellm(content)
    row = log.requests.loc["s1"]
    assert np.isnan(row["ttft"]) and np.isnan(row["tpot"]) and row["finished"] - row["arrival"] == 3.0
    summary = log.summary(SLO(ttft=5.0, tpot=5.0))
    assert summary["slo_of_submitted"] == 0.25 and log.summary(SLO(None, None, e2e=3.0))["slo_of_finished"] == 1
    assert summary["partial"] == 1
    assert summary.notes == ("1 of 4 without a time to first token", "1 of 4 without times between tokens")


def test_the_windows_of_benchmarks_are_their_own():
    done = guide("s", 0.0, 0.0, 1.0, 1.5, 8, 5)
    error = guide("e", 0.0, 0.0, None, None, 8, None)
    error["info"]["timings"]["request_end"] = 61.0
    summary = from_guidellm(report(successful=[done], errored=[error], duration=61.0)).summary()
    assert summary["finished_per_s"] == pytest.approx(1 / 61) and summary["duration_s"] == 61
    assert "duration" in summary.table().loc["duration_s", "over"]
    # Without a duration the end of the error still counts: the log saw it.
    assert from_guidellm(report(successful=[done], errored=[error])).summary()["duration_s"] == 61
    # A window that ends before the requests do is kept, as the tool reports it, and said.
    short = from_guidellm(report(successful=[done], errored=[error], duration=10.0)).summary()
    assert short["finished_per_s"] == 0.1 and "go on until 61 s" in short.notes[-1]


def test_entries_without_times_stay_in_the_denominator():
    content = copy.deepcopy(GUIDELLM)
    requests = content["benchmarks"][0]["requests"]
    requests["errored"][0]["info"] = None
    requests["incomplete"].append(None)
    requests["successful"].append({"request_id": "bare"})
    log = from_guidellm(content)
    summary = log.summary(SLO(9, 9))
    assert (summary["submitted"], summary["failed"], summary["unfinished"], summary["finished"]) == (6, 1, 2, 3)
    assert summary["slo_of_submitted"] == pytest.approx(2 / 6) and summary["partial"] == 2
    assert "2 of 6 without a start" in summary.notes


@pytest.mark.parametrize("info", [None, {}, {"timings": None}, []])
def test_a_report_without_any_times_names_what_is_missing(info):
    entry = guide("s", 0.0, 0.0, 1.0, 1.5, 8, 5) | {"info": info}
    with pytest.raises(ValueError, match=r"successful request 0: info\.timings missing"):
        from_guidellm(report(successful=[entry]))


def test_an_older_layout_is_told_which_versions_can_be_read():
    old = {"start_time": 1.0, "end_time": 2.0, "first_token_time": 1.1, "last_token_time": 1.9, "output_tokens": 4}
    with pytest.raises(ValueError, match=r"older layout; reports of GuideLLM 0\.4 and later"):
        from_guidellm(report(successful=[old]))


def test_results_with_a_byte_order_mark_are_read(tmp_path):
    for read, content in ((from_vllm, VLLM), (from_guidellm, GUIDELLM)):
        path = tmp_path / "result.json"
        path.write_text("\ufeff" + json.dumps(content), encoding="utf-8")
        np.testing.assert_array_equal(read(path).requests["ttft"], read(content).requests["ttft"])


def test_tokens_at_the_moment_of_submission_come_from_a_coarse_clock():
    asked = pd.DataFrame({"request": ["a", "b"], "submitted_s": [1.0, 1.0], "prompt_tokens": 4})
    came = pd.DataFrame({"request": ["a", "a", "b", "b"], "token": [1, 2, 1, 2], "time_s": [1.0, 1.0, 1.0, 2.0]})
    log = from_events(came, asked)
    assert log.requests["ttft"].isna().all() and np.isnan(log.requests.loc["a", "tpot"])
    assert log.requests.loc["b", "finished"] == 2.0 and log.requests.loc["b", "tpot"] == 1.0
    summary = log.summary(SLO())
    assert summary["slo_of_submitted"] == 0 and summary["partial"] == 2
    assert np.isnan(summary["ttft_p50_s"]) and summary["itl_p50_s"] == 1.0


def test_one_piece_of_several_tokens_has_no_tpot():
    asked = pd.DataFrame({"request": ["a"], "submitted_s": [1.0], "prompt_tokens": 4})
    log = from_events(pd.DataFrame({"request": ["a"], "tokens": [9], "time_s": [2.0]}), asked)
    assert log.requests["ttft"].tolist() == [1.0] and log.requests["tpot"].isna().all()
    assert log.summary(SLO())["slo_of_submitted"] == 0 and log.summary()["partial"] == 1


# Any clock ----------------------------------------------------------------------------------------------------

BINARY = st.integers(0, 64).map(lambda k: k / 16)  # seconds that every origin below holds exactly
FIGURES = ("window_start_s", "window_end_s")


def same(one, other):
    """Assert that two summaries agree but for where their windows lie."""
    left, right = ({key: v for key, v in s.items() if key not in FIGURES} for s in (one, other))
    assert left.keys() == right.keys()
    np.testing.assert_array_equal(list(left.values()), list(right.values()))
    assert one.notes == other.notes


@given(st.lists(st.tuples(BINARY, st.lists(BINARY, max_size=4)), min_size=1, max_size=5), st.data())
@settings(deadline=None, max_examples=40)
def test_event_logs_do_not_depend_on_their_origin(requests, data):
    origin = data.draw(st.sampled_from([0.0, 3600.0, 1e6, 1.7e9, 4e9]))
    names = [f"r{i}" for i in range(len(requests))]
    starts = [start for start, _ in requests]
    came = [
        (names[i], start + sum(gaps[: k + 1])) for i, (start, gaps) in enumerate(requests) for k in range(len(gaps))
    ]

    def read(shift, **options):
        asked = pd.DataFrame({"request": names, "submitted_s": np.array(starts) + shift, "prompt_tokens": 3})
        tokens = pd.DataFrame(came, columns=["request", "time_s"]).astype({"time_s": float}).assign(tokens=1)
        return from_events(tokens.assign(time_s=tokens["time_s"] + shift), asked, **options)

    same(read(0.0).summary(SLO()), read(origin).summary(SLO()))
    assert read(origin).origin == (origin + np.floor(min(starts)) if origin >= 1e6 else 0.0)
    assert read(origin).requests["arrival"].max() < 1e6
    window = (0.0, 100.0)
    shifted = tuple(edge + origin for edge in window)
    same(read(0.0, window=window).summary(SLO()), read(origin, window=shifted).summary(SLO()))


def test_event_logs_without_enough_precision_are_refused():
    asked = pd.DataFrame({"request": ["a"], "submitted_s": [1.7e12], "prompt_tokens": 3})
    came = pd.DataFrame({"request": ["a"], "token": [1], "time_s": [1.7e12 + 1]})
    with pytest.raises(ValueError, match=r"the last time = 1700000000001\.0.*subtract the start first"):
        from_events(came, asked)


MAYBE_TIME = st.none() | st.just(0.0) | st.sampled_from([0.0625, 0.5, 2.0])


@st.composite
def partial_results(draw):
    n = draw(st.integers(1, 6))

    def column(of):
        return draw(st.lists(of, min_size=n, max_size=n))

    return {
        "input_lens": column(st.none() | st.integers(1, 9)),
        "output_lens": column(st.none() | st.integers(0, 9)),
        "ttfts": column(MAYBE_TIME),
        "itls": column(st.none() | st.lists(MAYBE_TIME, max_size=4)),
        "errors": column(st.none() | st.sampled_from(["", "", "", "reset"])),
        "start_times": column(st.none() | BINARY),
        "duration": 16.0,
    }


def never_a_silent_zero(log, entries):
    """Assert what holds of every log, however little it holds."""
    table = log.requests
    assert len(table) == entries
    for name in LATENCIES:
        assert not (table[name] <= 0).any(), name
    assert not (table["finished"] - table["arrival"] <= 0).any()
    for slo in (SLO(1e6, 1e6), SLO(None, 1e6), SLO(1e6, None), SLO(None, None, e2e=1e6)):
        summary = log.summary(slo)
        met = slo.met(table)
        assert summary["slo_of_submitted"] * entries == pytest.approx(met.sum())
        assert sum(summary[name] for name in OUTCOMES) == summary["submitted"] == entries
        blind = table["outcome"] == "finished"
        for limit, name in ((slo.ttft, "ttft"), (slo.e2e, "finished")):
            if limit is not None:
                assert not met[(blind & table[name].isna()).to_numpy()].any()
        if slo.tpot is not None:
            assert not met[(table["tpot"].isna() & (table["output_tokens"] != 1)).to_numpy()].any()
        lacking = blind & (table["ttft"].isna() | table["finished"].isna() & table["arrival"].notna())
        assert (table["lacks"][lacking & (table["output_tokens"] != 0)] != "").all()
        assert summary["partial"] == (table["lacks"] != "").sum() and bool(summary["partial"]) <= bool(summary.notes)
        for key, value in summary.items():
            if key.endswith("_s") and key.startswith(("ttft", "tpot", "e2e")):
                assert np.isnan(value) or value > 0, key


@pytest.mark.slow
@given(partial_results())
@settings(deadline=None, max_examples=100)
def test_partial_vllm_results_never_give_a_silent_zero(content):
    never_a_silent_zero(from_vllm(content), len(content["ttfts"]))


@st.composite
def partial_reports(draw):
    def entry():
        times = sorted(draw(st.lists(BINARY, min_size=5, max_size=5)))
        keys = ("targeted_start", "request_start", "first_token_iteration", "last_token_iteration", "request_end")
        timings = {key: draw(st.sampled_from([time, time, None])) for key, time in zip(keys, times)}
        timings["token_iterations"] = draw(st.none() | st.integers(0, 5))
        info = draw(st.sampled_from([{"timings": timings}] * 6 + [None, {}]))
        tokens = {
            "prompt_tokens": draw(st.none() | st.integers(0, 9)),
            "output_tokens": draw(st.none() | st.integers(0, 9)),
        }
        return {"info": info} | tokens

    groups = {
        group: [entry() for _ in range(draw(st.integers(0, 3)))] for group in ("successful", "incomplete", "errored")
    }
    groups["successful"].append(guide("whole", 0.0, 0.0, 1.0, 2.0, 4, 5))
    return groups


def shifted_report(groups, shift):
    groups = copy.deepcopy(groups)
    for entry in chain(*groups.values()):
        timings = (entry["info"] or {}).get("timings") or {}
        for key in timings.keys() - {"token_iterations"}:
            timings[key] = None if timings[key] is None else timings[key] + shift
        if "request_start_time" in entry:
            entry["request_start_time"] += shift
    return report(**groups)


@pytest.mark.slow
@given(partial_reports(), st.sampled_from(["sent", "planned"]), st.sampled_from([3600.0, 1.7e9]))
@settings(deadline=None, max_examples=100)
def test_partial_guidellm_reports_never_give_a_silent_zero_and_have_no_origin(groups, clock, origin):
    log = from_guidellm(report(**groups), clock=clock)
    never_a_silent_zero(log, sum(map(len, groups.values())))
    same(log.summary(SLO()), from_guidellm(shifted_report(groups, origin), clock=clock).summary(SLO()))


def test_guidellm_reports_without_enough_precision_are_refused():
    with pytest.raises(ValueError, match="subtract the start first"):
        from_guidellm(shifted_report(GUIDELLM["benchmarks"][0]["requests"], 1.7e15))


# Any damage ---------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=3) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def places(content, path=()):
    """Return the paths of every part of a JSON value."""
    yield path
    inside = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in inside:
        yield from places(value, (*path, key))


@pytest.mark.slow
@given(st.sampled_from([(from_vllm, VLLM), (from_guidellm, GUIDELLM)]), st.data())
@settings(deadline=None, max_examples=300)
def test_a_damaged_result_is_read_or_refused_by_name(reader, data):
    read, content = reader
    content = copy.deepcopy(content)
    *path, last = data.draw(st.sampled_from([place for place in places(content) if place]))
    parent = content
    for key in path:
        parent = parent[key]
    if data.draw(st.booleans()):
        parent[last] = data.draw(JSON)
    else:
        del parent[last]
    try:
        log = read(content)
    except ValueError as error:
        assert str(error).startswith(("vllm result", "guidellm report"))
        return
    summary = log.summary(SLO())
    assert sum(summary[name] for name in OUTCOMES) == summary["submitted"] == len(log.requests)
    assert not (log.requests[list(LATENCIES)] <= 0).any(axis=None)
