"""`from_events`: exact numbers, invariants, and every way in which a log can be wrong."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcode import SLO
from labcode.course.evidence import logs as evidence
from labcode.results import metrics
from labcode.results.logs import from_events, summary_by


def asked(*rows, **columns):
    frame = pd.DataFrame(rows, columns=["request", "submitted_s", "prompt_tokens"])
    return frame.assign(**columns)


def came(*rows, column="token"):
    return pd.DataFrame(rows, columns=["request", column, "time_s"])


TWO = asked(("a", 0.0, 10), ("b", 1.0, 20))
TOKENS = came(("a", 1, 0.5), ("b", 1, 1.5), ("a", 2, 1.75), ("a", 3, 2.0))


def test_ttft_tpot_itl_of_two_interleaved_requests():
    log = from_events(TOKENS, TWO)
    a, b = log.requests.loc["a"], log.requests.loc["b"]
    assert (a["ttft"], a["tpot"], a["itl_max"], a["output_tokens"]) == (0.5, 0.75, 1.25, 3)
    assert (b["ttft"], b["output_tokens"], b["finished"]) == (0.5, 1, 1.5)
    assert np.isnan(b["tpot"]) and np.isnan(b["itl_max"])  # one token: nothing between tokens
    values, weights = log.itl()
    assert values.tolist() == [1.25, 0.25] and weights.tolist() == [1, 1]
    assert log.window == (0.0, 2.0)


def test_exercise_31_1():
    numbers = evidence.one_request()
    assert numbers == pytest.approx({"ttft": 0.3, "tpot": 0.02, "end_to_end": 0.9, "waited": 0.1}, rel=1e-12)


def test_the_window_of_1000_requests():
    numbers = evidence.thousand_requests()
    assert (numbers["submitted_per_s"], numbers["finished_per_s"], numbers["goodput_per_s"]) == (10, 8.5, 7)
    assert numbers["slo_of_finished"] == pytest.approx(700 / 850, rel=1e-15)
    assert numbers["slo_of_submitted"] == 0.7


def test_files_and_frames_give_the_same(tmp_path):
    TOKENS.to_csv(tmp_path / "tokens.csv", index=False)
    TWO.to_csv(tmp_path / "asked.csv", index=False)
    from_files = from_events(tmp_path / "tokens.csv", str(tmp_path / "asked.csv"))
    pd.testing.assert_frame_equal(from_files.requests, from_events(TOKENS, TWO).requests)


def test_indices_may_start_at_zero():
    zero = TOKENS.assign(token=TOKENS["token"] - 1)
    pd.testing.assert_frame_equal(from_events(zero, TWO).requests, from_events(TOKENS, TWO).requests)


def test_submissions_are_sorted_by_time_and_keep_their_tokens():
    log = from_events(TOKENS, TWO.iloc[::-1])
    assert log.requests.index.tolist() == ["a", "b"]
    assert log.intervals["request"].tolist() == [0, 0]
    assert log.requests.loc["a", "tpot"] == 0.75


def test_pieces_of_several_tokens_have_no_itl():
    log = from_events(came(("a", 1, 0.5), ("a", 4, 0.9), ("b", 1, 1.5), column="tokens"), TWO)
    a = log.requests.loc["a"]
    assert (a["output_tokens"], a["chunks"]) == (5, 2)
    assert a["tpot"] == pytest.approx(0.1)  # from the first to the last token, four tokens later
    assert np.isnan(a["itl_max"]) and not log.per_token
    with pytest.raises(ValueError, match=r"request a got 5 tokens in 2 pieces.*chunk_intervals"):
        log.itl()
    seconds, tokens = log.chunk_intervals()
    assert seconds == pytest.approx([0.4]) and tokens.tolist() == [4]
    summary = log.summary(SLO(tpot=0.2))
    assert np.isnan(summary["itl_p99_s"]) and summary["chunk_interval_p50_s"] == pytest.approx(0.4)
    with pytest.raises(ValueError, match="chunk intervals, not ITL"):
        log.summary(SLO(itl=1.0))


def test_pieces_of_one_token_each_are_tokens():
    chunked = TOKENS.rename(columns={"token": "tokens"}).assign(tokens=1)
    pd.testing.assert_frame_equal(from_events(chunked, TWO).requests, from_events(TOKENS, TWO).requests)


def test_outcomes_are_inferred_only_where_none_is_stated():
    three = asked(("a", 0.0, 10), ("b", 1.0, 20), ("c", 2.0, 5))
    assert from_events(TOKENS, three).requests["outcome"].tolist() == ["finished", "finished", "unknown"]
    stated = three.assign(outcome=["cancelled", "", "rejected"], reason=["left", None, "queue full"])
    log = from_events(TOKENS, stated)
    assert log.requests["outcome"].tolist() == ["cancelled", "finished", "refused"]
    assert log.requests["reason"].tolist() == ["left", "", "queue full"]
    assert np.isnan(log.requests.loc["a", "finished"])  # it has output, but it did not end


def test_a_failed_request_stays_in_the_denominator_and_has_no_latency():
    three = asked(("a", 0.0, 10), ("b", 1.0, 20), ("c", 2.0, 5), outcome=["", "", "failed"])
    summary = from_events(TOKENS, three).summary(SLO(ttft=1.0, tpot=1.0))
    assert summary["failed"] == 1 and summary["submitted"] == 3
    assert summary["slo_of_submitted"] == pytest.approx(2 / 3) and summary["slo_of_finished"] == 1
    assert summary["ttft_max_s"] == 0.5


def test_a_log_in_which_nothing_came_has_no_data_and_no_zero():
    nothing = came().astype({"time_s": float})
    log = from_events(nothing, TWO, window=(0.0, 10.0))
    summary = log.summary(SLO())
    assert summary["unknown"] == 2 and summary["goodput_per_s"] == 0 and summary["slo_of_submitted"] == 0
    for key in (
        "ttft_p50_s",
        "tpot_p50_s",
        "e2e_p99_s",
        "itl_p50_s",
        "chunk_interval_p50_s",
        "slo_of_finished",
    ):
        assert np.isnan(summary[key]), key


def test_slices_add_up_to_the_whole():
    tenants = TWO.assign(tenant=["x", "y"])
    log = from_events(TOKENS, tenants)
    by_tenant = log.slices("tenant", SLO(ttft=1.0, tpot=0.5))
    assert by_tenant.index.tolist() == ["x", "y"]
    whole = log.summary(SLO(ttft=1.0, tpot=0.5))
    for key in ("submitted", "finished", "goodput_per_s", "output_tokens_per_s"):
        assert by_tenant[key].sum() == pytest.approx(whole[key])
    by_length = log.slices("prompt_tokens", edges=(15.0,))
    assert by_length["ttft_p50_s"].tolist() == [0.5, 0.5] and by_length["submitted"].tolist() == [1, 1]
    with pytest.raises(ValueError, match="by = 'model': the columns are"):
        log.slices("model")
    with pytest.raises(ValueError, match="must ascend"):
        summary_by(log.requests, "prompt_tokens", edges=(2.0, 1.0))


@given(data=st.data())
@settings(deadline=None, max_examples=60)
def test_what_adds_up_adds_up(data):
    n = data.draw(st.integers(1, 6))
    rows, submissions = [], []
    for i in range(n):
        start = data.draw(st.floats(0, 100))
        submissions.append((f"r{i}", start, data.draw(st.integers(1, 9))))
        time = start
        for gap in data.draw(st.lists(st.floats(1e-6, 10), max_size=8)):
            time += gap
            rows.append((f"r{i}", 1 if time == start + gap else data.draw(st.integers(1, 4)), time))
    by_time = sorted(range(len(rows)), key=lambda k: rows[k][2])
    log = from_events(came(*[rows[k] for k in by_time], column="tokens"), asked(*submissions))
    done = log.requests[log.requests["outcome"] == "finished"]
    tpot = done["tpot"].fillna(0.0)
    np.testing.assert_allclose(
        done["ttft"] + (done["output_tokens"] - 1) * tpot,
        np.where(done["output_tokens"] > 1, done["finished"], done["first_token"]) - done["arrival"],
        atol=1e-9,
    )
    assert log.requests["output_tokens"].sum() == sum(size for _, size, _ in rows)
    # Intervals of a request fill the time from its first to its last piece.
    filled = log.intervals.groupby("request")["seconds"].sum()
    for row, total in filled.items():
        request = log.requests.iloc[int(row)]
        assert total == pytest.approx(request["finished"] - request["first_token"], abs=1e-9)
    assert len(log.intervals) == len(rows) - len(done)


BAD_TOKENS = [
    (came(("a", 2, 0.5)), "row 0: token = 2: the first token is missing"),
    (came(("a", 1, 0.5), ("b", 2, 1.5)), "row 1: token = 2: the first token is missing"),
    (came(("a", 1, 0.5), ("a", 1, 0.6)), "row 1: token = 1: this token came already"),
    (came(("a", 1, 0.5), ("a", 3, 0.6)), "row 1: token = 3: out of order, token 2 is missing"),
    (came(("a", 1, 0.5), ("a", 2, 0.6), ("a", 3, 0.7), ("a", 1, 0.8)), "row 3: token = 1: out of order"),
    (came(("a", 1, 0.5), ("b", 1, 1.5), ("a", 2, 0.4)), "row 2: time_s = 0.4: earlier than the piece before"),
    (came(("a", 1, -0.5)), "row 0: time_s = -0.5: must not be negative"),
    (came(("a", 1, np.nan)), "row 0: time_s = nan: a finite time"),
    (came(("a", 1, "soon")), "row 0: time_s = soon: a number"),
    (came(("b", 1, 0.5)), "row 0: time_s = 0.5: before the request was submitted"),
    (came(("a", 1, 0.5), ("z", 1, 0.5)), "row 1: request = z: not in submissions"),
    (came(("a", 1.5, 0.5)), "row 0: token = 1.5: a whole number"),
    (came(("a", -1, 0.5)), "row 0: token = -1: must be at least 0"),
    (came(("a", 0, 0.5), column="tokens"), "row 0: tokens = 0: must be at least 1"),
    (came(("a", 1, 0.5)).rename(columns={"token": "index"}), "one of the columns token"),
    (came(("a", 1, 0.5)).assign(tokens=1), "one of the columns token"),
    (came(("a", 1, 0.5)).drop(columns="time_s"), "column time_s missing"),
]


@pytest.mark.parametrize(("tokens", "said"), BAD_TOKENS)
def test_bad_tokens_are_named_by_row(tokens, said):
    with pytest.raises(ValueError, match=said):
        from_events(tokens, TWO)


@pytest.mark.parametrize(
    ("submissions", "said"),
    [
        (asked(), "submissions: no requests"),
        (asked(("a", 0.0, 10), ("a", 1.0, 10)), "row 1: request = a: submitted twice"),
        (asked(("a", 0.0, 10), (None, 1.0, 10)), "row 1: request = (None|nan): a name"),
        (asked(("a", -1.0, 10)), "row 0: submitted_s = -1.0: must not be negative"),
        (asked(("a", 0.0, 0)), "row 0: prompt_tokens = 0"),
        (TWO.drop(columns="prompt_tokens"), "column prompt_tokens missing"),
        (TWO.assign(outcome="done"), "row 0: outcome = done: known are finished"),
        (TWO.assign(outcome="refused"), "row 0: outcome = refused: but tokens"),
        (TWO.assign(admitted_s=[0.1, 0.2]), "row 1: admitted_s = 0.2: before it was submitted"),
    ],
)
def test_bad_submissions_are_named_by_row(submissions, said):
    with pytest.raises(ValueError, match=said):
        from_events(TOKENS, submissions)


def test_a_finished_request_needs_its_first_token():
    three = asked(("a", 0.0, 10), ("b", 1.0, 20), ("c", 2.0, 5), outcome="finished")
    with pytest.raises(ValueError, match="row 2: outcome = finished: but its first token is missing"):
        from_events(TOKENS, three)


def test_files_name_their_lines(tmp_path):
    path = tmp_path / "tokens.csv"
    path.write_text("request,token,time_s\na,1,0.5\n\na,2,0.1\n")
    with pytest.raises(ValueError, match=r"tokens\.csv, line 4: time_s = 0\.1: earlier"):
        from_events(path, TWO)
    path.write_text("")
    with pytest.raises(ValueError, match=r"tokens\.csv: the file is empty"):
        from_events(path, TWO)


@pytest.mark.parametrize(
    ("window", "said"),
    [
        ((0.0, 1.9), "outside it"),
        ((0.5, 9.0), "outside it"),
        ((3.0, 3.0), "after the start"),
        ((0, np.inf), "end = inf"),
    ],
)
def test_the_window_must_hold_what_happened(window, said):
    with pytest.raises(ValueError, match=said):
        from_events(TOKENS, TWO, window=window)


@pytest.mark.parametrize("source", [None, 3, [("a", 1, 0.5)]])
def test_a_source_is_a_path_or_a_frame(source):
    with pytest.raises(ValueError, match=r"tokens = .*: the path of a CSV or a DataFrame"):
        from_events(source, TWO)


def test_metrics_offers_it_and_names_every_key():
    log = metrics.from_events(TOKENS, TWO)
    table = log.summary(SLO()).table()
    assert table.loc["submitted", "value"] == 2
    assert (table["over"] != "").all()
