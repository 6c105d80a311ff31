"""Workload and Request: what they hold, and what they refuse."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcode import SLO, simulate, workload
from labcode.workload import Request, Workload

arrivals = st.lists(st.floats(0, 1e6), min_size=2, max_size=30).map(sorted)


def small(**columns):
    return workload.from_arrays(**({"arrival": [0.0, 1.0, 4.0], "prompt": [5, 6, 7], "output": [1, 2, 3]} | columns))


def test_requests_carry_every_column():
    load = small(max_tokens=[8, 9, 10], tenant=["a", "b", "a"], deadline=[2.0, np.nan, 9.0])
    assert load.requests() == [
        Request(0, 0.0, 5, 1, 8, "a", 2.0),
        Request(1, 1.0, 6, 2, 9, "b", None),
        Request(2, 4.0, 7, 3, 10, "a", 9.0),
    ]
    assert list(load) == load.requests() and len(load) == 3
    assert load.to_frame().columns.tolist() == [
        "arrival",
        "prompt",
        "output",
        "max_tokens",
        "tenant",
        "deadline",
    ]


def test_defaults_of_a_request():
    assert small().requests()[0] == Request(0, 0.0, 5, 1, None, "", None)


def test_one_value_stands_for_all():
    load = workload.from_arrays([0, 1], 9, 4, max_tokens=16, tenant="t", deadline=3.0)
    assert load.requests()[1] == Request(1, 1.0, 9, 4, 16, "t", 3.0)


def test_rate_of_given_arrivals_is_gaps_over_length():
    assert small().rate == 2 / 4
    assert np.isnan(workload.from_arrays([3.0], 1, 1).rate)
    assert workload.from_arrays([3.0, 3.0], 1, 1).rate == np.inf


@given(times=arrivals, rate=st.floats(1e-3, 1e3))
def test_at_rate_keeps_the_pattern(times, rate):
    load = workload.from_arrays(times, 10, 10)
    if load.rate == np.inf or load.rate > 1e9:
        return
    scaled = load.at_rate(rate)
    # Every time by the same factor: gaps keep their proportions.
    np.testing.assert_allclose(scaled.arrival * rate, load.arrival * load.rate, rtol=1e-12, atol=1e-12)
    gaps, length = len(load) - 1, scaled.arrival[-1] - scaled.arrival[0]
    assert gaps / length == pytest.approx(rate, rel=1e-6)


THREE = {"arrival": np.array([0.0, 0.25, 1.5]), "prompt": [900, 40, 300], "output": [20, 30, 1]}


@pytest.mark.parametrize("origin", [0.0, 3600.0, 1e6, 1.7e9, 4e9])
def test_numbers_do_not_depend_on_the_origin_of_the_clock(origin):
    def load(shift):
        deadline = THREE["arrival"] + [9.0, np.nan, 2.0] + shift
        return workload.from_arrays(**THREE | {"arrival": THREE["arrival"] + shift}, deadline=deadline)

    here, there = load(0.0), load(origin)
    assert there.origin == (origin if origin >= 1e6 else 0.0)
    np.testing.assert_array_equal(there.origin + there.arrival, THREE["arrival"] + origin)
    np.testing.assert_array_equal(there.deadline - there.arrival, here.deadline - here.arrival)
    assert there.rate == here.rate and there.head(2).origin == there.origin
    np.testing.assert_allclose(there.at_rate(3.0).arrival - there.at_rate(3.0).arrival[0], here.at_rate(3.0).arrival)
    one, other = (simulate(each).summary(SLO()) for each in (here, there))
    moved = {"window_start_s", "window_end_s"}
    for key in one.keys() - moved:
        np.testing.assert_allclose(other[key], one[key], rtol=1e-6, err_msg=key)
        if origin >= 1e6:
            np.testing.assert_array_equal(other[key], one[key], err_msg=key)


@given(
    st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 4000), st.integers(1, 50)), min_size=1, max_size=8),
    st.integers(10**6, 8 * 10**9),
)
@settings(deadline=None, max_examples=40)
def test_any_origin_gives_the_same_summary(rows, origin):
    times, prompt, output = (np.array(column) for column in zip(*sorted(rows)))
    first = float(times[0] // 64)
    summaries = [
        simulate(workload.from_arrays(times / 64 - first + shift, prompt, output)).summary(SLO())
        for shift in (0.0, float(origin))
    ]
    np.testing.assert_array_equal(*(list(summary.values()) for summary in summaries))


@pytest.mark.parametrize("origin", [1.7e12, 1.7e15, 1.7e18])
def test_a_clock_without_microseconds_is_refused(origin):
    with pytest.raises(ValueError, match=r"arrival = .* too coarse for latencies.*subtract the start first"):
        workload.from_arrays(**THREE | {"arrival": THREE["arrival"] + origin})
    with pytest.raises(ValueError, match=r"rate = 1e-12.*too small.* too coarse"):
        workload.chat(4, 1.0, 0).at_rate(1e-12)


def test_at_rate_moves_a_deadline_with_its_arrival():
    load = small(deadline=[2.0, 3.0, np.nan])
    moved = load.at_rate(5.0)
    np.testing.assert_allclose(moved.deadline - moved.arrival, [2.0, 2.0, np.nan])


@pytest.mark.parametrize("rate", [0, -1.0, float("nan"), float("inf"), "x", None])
def test_at_rate_refuses_rates_that_are_none(rate):
    with pytest.raises(ValueError, match="rate = "):
        small().at_rate(rate)


@pytest.mark.parametrize("times", [[1.0], [2.0, 2.0]])
def test_at_rate_needs_a_rate_to_start_from(times):
    with pytest.raises(ValueError, match="whose own rate is"):
        workload.from_arrays(times, 1, 1).at_rate(2.0)


def test_head_is_the_first_requests():
    load = workload.chat(20, 2.0, 0)
    head = load.head(5)
    assert len(head) == 5 and head.rate == 2.0 and len(load.head(100)) == 20
    np.testing.assert_array_equal(head.at_rate(3.0).arrival, load.at_rate(3.0).arrival[:5])
    with pytest.raises(ValueError, match="n = 0"):
        load.head(0)


def test_nothing_can_be_changed_by_accident():
    given_times = np.array([0.0, 1.0])
    load = workload.from_arrays(given_times, 1, 1)
    given_times[0] = 0.5
    assert load.arrival[0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        load.arrival[0] = 2.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        load.name = "other"


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"arrival": []}, "at least one request"),
        ({"arrival": [0, 2, 1]}, r"arrival = 1\.0 in row 2"),
        ({"arrival": [-1, 0, 1]}, r"arrival = -1\.0 in row 0"),
        ({"arrival": [0, np.nan, 1]}, "arrival = nan in row 1"),
        ({"arrival": [0, 1, np.inf]}, "arrival = inf in row 2"),
        ({"arrival": ["a", "b", "c"]}, "arrival: numbers are needed"),
        ({"arrival": [[0, 1, 2]]}, "arrival: one value a request"),
        ({"prompt": [1, 0, 1]}, "prompt = 0 in row 1"),
        ({"output": [1, 1, 0]}, "output = 0 in row 2"),
        ({"output": [1, -1, 0]}, "output = -1 in row 1"),
        ({"output": [1, 2.5, 3]}, r"output = 2\.5 in row 1"),
        ({"output": [1, np.nan, 3]}, "output = nan in row 1"),
        ({"output": [1, 2]}, "output: 2 values"),
        ({"output": None}, "output = None"),
        ({"max_tokens": [1, 2, 0]}, "max_tokens = 0 in row 2"),
        ({"deadline": [1, np.inf, 2]}, "deadline = inf in row 1"),
        ({"tenant": ["a"]}, "tenant: 1 values"),
    ],
)
def test_bad_columns_are_named_with_their_row(columns, said):
    with pytest.raises(ValueError, match=said):
        small(**columns)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"arrival": -1.0}, "arrival = "),
        ({"arrival": float("nan")}, "arrival = nan"),
        ({"prompt": 0}, "prompt = 0"),
        ({"output": 0}, "output = 0"),
        ({"max_tokens": 0}, "max_tokens = 0"),
        ({"id": -1}, "id = -1"),
        ({"deadline": float("inf")}, "deadline = inf"),
    ],
)
def test_a_bad_request_is_refused(fields, said):
    with pytest.raises(ValueError, match=said):
        Request(**({"id": 0, "arrival": 0.0, "prompt": 1, "output": 1} | fields))


def test_huge_token_counts_survive():
    assert Workload(np.array([0.0]), np.array([2**40]), np.array([2**40])).prompt[0] == 2**40
