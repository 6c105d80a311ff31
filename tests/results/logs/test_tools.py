"""Result files of vLLM's benchmark and of GuideLLM, in the form that those tools document."""

from __future__ import annotations

import json

import numpy as np
import pytest

from labcode import SLO
from labcode.results.logs import from_guidellm, from_vllm

VLLM = {
    "date": "20261129-120000",
    "backend": "vllm",
    "num_prompts": 4,
    "duration": 10.0,
    "completed": 3,
    "input_lens": [100, 200, 300, 50],
    "output_lens": [3, 1, 5, 0],
    "start_times": [1001.0, 1000.0, 1002.0, 1003.0],
    "ttfts": [0.2, 0.1, 0.5, 0.0],
    "itls": [[0.1, 0.3], [], [0.2, 0.2], []],
    "generated_texts": ["", "", "", ""],
    "errors": ["", "", "", "Traceback ...\nConnectionResetError: reset by peer"],
}


def without(content, *keys, **changed):
    return {key: value for key, value in (content | changed).items() if key not in keys}


def test_vllm_columns():
    log = from_vllm(VLLM)
    table = log.requests
    assert table.index.tolist() == ["1", "0", "2", "3"]  # in order of their starts
    assert table["arrival"].tolist() == [0, 1, 2, 3]
    assert table.loc["0", "tpot"] == pytest.approx(0.2) and table.loc["0", "itl_max"] == 0.3
    assert table.loc["0", "finished"] == pytest.approx(1.6)
    assert np.isnan(table.loc["1", "tpot"]) and table.loc["1", "outcome"] == "finished"
    # Five tokens in three pieces: TPOT over four tokens, and no ITL.
    assert table.loc["2", "tpot"] == pytest.approx(0.1) and np.isnan(table.loc["2", "itl_max"])
    assert not log.per_token
    seconds, tokens = log.chunk_intervals()
    assert seconds.tolist() == [0.1, 0.3, 0.2, 0.2]
    np.testing.assert_array_equal(tokens, [1, 1, np.nan, np.nan])
    assert log.intervals["request"].tolist() == [1, 1, 2, 2]


def test_vllm_failure_has_no_latency_but_counts():
    log = from_vllm(VLLM)
    failed = log.requests.loc["3"]
    assert failed["outcome"] == "failed" and failed["reason"] == "ConnectionResetError: reset by peer"
    assert np.isnan(failed["ttft"])  # the file says 0.0
    summary = log.summary(SLO(ttft=0.3, tpot=1.0))
    assert summary["slo_of_submitted"] == 0.5 and summary["slo_of_finished"] == pytest.approx(2 / 3)
    assert summary["finished_per_s"] == pytest.approx(0.3) and summary["ttft_p50_s"] == 0.2


def test_vllm_agrees_with_the_tools_own_arithmetic():
    # benchmark_serving computes tpot as (latency - ttft) / (output_len - 1), latency being ttft + sum(itls).
    table = from_vllm(VLLM).requests
    for i, (ttft, gaps, output) in enumerate(zip(VLLM["ttfts"], VLLM["itls"], VLLM["output_lens"], strict=True)):
        if output > 1:
            assert table.loc[str(i), "tpot"] == pytest.approx((ttft + sum(gaps) - ttft) / (output - 1))


def test_vllm_pieces_without_text_make_intervals_and_no_itl():
    log = from_vllm(without(VLLM, output_lens=[2, 1, 3, 0]))
    assert log.requests.loc["0", ["chunks", "output_tokens"]].tolist() == [3, 2]
    assert log.requests.loc["0", "tpot"] == pytest.approx(0.4)  # two tokens, from the first to the last piece
    assert not log.per_token and len(log.chunk_intervals()[0]) == 4


def test_vllm_failure_without_a_reason_is_a_failure():
    log = from_vllm(without(VLLM, errors=["", "", "", ""]))
    assert log.requests.loc["3", "outcome"] == "failed" and log.requests.loc["3", "reason"]


def test_vllm_per_token_streams_have_an_itl():
    log = from_vllm(without(VLLM, output_lens=[3, 1, 3, 0]))
    assert log.per_token
    assert log.itl()[0].tolist() == [0.1, 0.3, 0.2, 0.2]


def test_vllm_without_start_times_has_no_common_clock():
    log = from_vllm(without(VLLM, "start_times"))
    assert log.requests["arrival"].tolist() == [0, 0, 0, 0]
    assert log.requests.loc["0", "ttft"] == 0.2 and log.duration == 10.0


def test_vllm_failure_in_the_middle_of_a_stream_keeps_what_came():
    log = from_vllm(without(VLLM, errors=["broken pipe", "", "", "x"]))
    cut = log.requests.loc["0"]
    assert cut["outcome"] == "failed" and cut["ttft"] == 0.2 and np.isnan(cut["finished"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (without(VLLM, "itls"), "itls missing; was the benchmark run with --save-detailed"),
        (without(VLLM, ttfts=[0.1]), "different length"),
        (without(VLLM, ttfts=[0.2, -0.1, 0.5, 0.0]), "request 1: ttfts = -0.1"),
        (without(VLLM, itls=[[0.1, -0.1], [], [], []]), "request 0: itls = -0.1"),
        (without(VLLM, itls=[0.1, [], [], []]), "request 0: itls = 0.1: a list is needed"),
        (without(VLLM, ttfts=None), "ttfts = None: a list is needed"),
        (without(VLLM, duration=None), "duration = None"),
        (
            without(VLLM, start_times=[1.7e12, 1.7e12, 1.7e12, 1.7e12]),
            "start_times = 17000.*subtract the start",
        ),
        (without(VLLM, input_lens=[1.5, 1, 1, 1]), "request 0: input_lens = 1.5"),
        (without(VLLM, start_times=[0, -1, 0, 0]), r"start_times\[1\] = -1"),
        (without(VLLM, duration=0), "duration = 0"),
        (without(VLLM, duration=10**400), "duration: a finite number is needed"),
        (without(VLLM, ttfts=[10**400, 0.1, 0.5, 0.0]), "request 0: ttfts: a finite number"),
        (without(VLLM, errors=[3, "", "", ""]), "errors = 3"),
        ({key: [] if isinstance(value, list) else value for key, value in VLLM.items()}, "no requests"),
    ],
)
def test_bad_vllm_files_are_named(content, said):
    with pytest.raises(ValueError, match=said):
        from_vllm(content)


def guide(request_id, targeted, start, first, last, prompt, output, **more):
    timings = {
        "targeted_start": targeted,
        "request_start": start,
        "first_token_iteration": first,
        "last_token_iteration": last,
        "token_iterations": output,
        "request_end": last,
    }
    return {
        "type_": "generative_request_stats",
        "request_id": request_id,
        "info": {"status": "completed", "timings": timings, "error": None} | more,
        "prompt_tokens": prompt,
        "output_tokens": output,
        "request_start_time": start,
    }


GUIDELLM = {
    "metadata": {"version": 1},
    "benchmarks": [
        {
            "type_": "generative_benchmark",
            "requests": {
                "successful": [
                    guide("s1", 100.0, 100.5, 101.0, 103.0, 64, 5),
                    guide("s2", 101.0, 101.0, 101.25, 101.25, 32, 1),
                ],
                "incomplete": [guide("i1", 102.0, 102.0, 102.5, 103.5, 64, 3)],
                "errored": [guide("e1", 102.0, 102.0, None, None, 64, 0, error="HTTP 503")],
            },
        }
    ],
}


def test_guidellm_columns_are_this_books():
    log = from_guidellm(GUIDELLM)
    table = log.requests
    assert table.loc["s1", "ttft"] == 0.5
    assert table.loc["s1", "tpot"] == 0.5  # (103 - 101)/4: the first token is left out
    assert np.isnan(table.loc["s2", "tpot"])
    assert table.loc["i1", "outcome"] == "unfinished" and np.isnan(table.loc["i1", "finished"])
    assert table.loc["e1", ["outcome", "reason"]].tolist() == ["failed", "HTTP 503"]
    assert table["arrival"].min() == 0
    summary = log.summary(SLO(ttft=1.0, tpot=1.0))
    assert summary["slo_of_submitted"] == 0.5 and summary["slo_of_finished"] == 1
    assert np.isnan(summary["itl_p50_s"]) and np.isnan(summary["chunk_interval_p50_s"])
    for question in (log.itl, log.chunk_intervals):
        with pytest.raises(ValueError, match="no times between the first and the last token"):
            question()


def test_the_planned_clock_counts_the_wait_in_the_client():
    assert from_guidellm(GUIDELLM, clock="planned").requests.loc["s1", "ttft"] == 1.0


def test_reports_are_read_from_files(tmp_path):
    for read, content in ((from_vllm, VLLM), (from_guidellm, GUIDELLM)):
        path = tmp_path / "result.json"
        path.write_text(json.dumps(content))
        np.testing.assert_array_equal(read(path).requests["ttft"], read(content).requests["ttft"])
    path.write_text("[]")
    with pytest.raises(ValueError, match="a JSON object is needed"):
        from_vllm(path)
    path.write_text("{")
    with pytest.raises(ValueError, match="not JSON"):
        from_guidellm(path)


def changed(group, index, **timings):
    content = json.loads(json.dumps(GUIDELLM))
    content["benchmarks"][0]["requests"][group][index]["info"]["timings"].update(timings)
    return content


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({}, "benchmarks missing"),
        ({"benchmarks": []}, "benchmarks missing or empty"),
        ({"benchmarks": [{}]}, r"benchmarks\[0\].requests missing"),
        ({"benchmarks": [None]}, r"benchmarks\[0\].requests missing"),
        ({"benchmarks": [{"requests": {"successful": []}}]}, "holds no requests"),
        ({"benchmarks": [{"requests": {"successful": [{}]}}]}, "successful request 0: info.timings missing"),
        (changed("successful", 0, request_end=99.0), "successful request 0: out of order.*end 99"),
        (changed("successful", 0, last_token_iteration=100.7), "successful request 0: out of order"),
        (changed("incomplete", 0, first_token_iteration=99.0), "incomplete request 0: out of order"),
        (changed("successful", 0, request_start="early"), "request_start = 'early'"),
    ],
)
def test_bad_guidellm_reports_are_named(content, said):
    with pytest.raises(ValueError, match=said):
        from_guidellm(content)


def test_benchmark_and_clock_are_checked():
    with pytest.raises(ValueError, match="benchmark = 1"):
        from_guidellm(GUIDELLM, benchmark=1)
    with pytest.raises(ValueError, match="known are sent, planned"):
        from_guidellm(GUIDELLM, clock="server")
