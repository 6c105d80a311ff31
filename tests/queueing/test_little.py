"""Little's area: the chapter's example, the finite-window identity on anything, and bad records."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labcode.course.evidence.queueing import little_by_hand, little_in_words
from labcode.queueing import little, staircase

intervals = st.lists(st.tuples(st.floats(0, 50), st.floats(0, 30), st.booleans()), min_size=1, max_size=25)
windows = st.tuples(st.floats(-5, 60), st.floats(0.01, 40)).map(lambda w: (w[0], w[0] + w[1]))


def test_chapter_example():
    assert little_by_hand() == {"area": 4.0, "mean_number": 4 / 3, "rate": 2 / 3, "mean_time": 2.0}
    assert little_in_words() == 8.0


def test_boundary_terms_by_hand():
    # One came before the window, one lies inside, one leaves after it, one never leaves.
    seen = little([0, 2, 3, 4], [2, 3, 9, math.nan], (1, 5))
    assert seen.area == 1 + 1 + 2 + 1
    assert (seen.carried_in, seen.arrived, seen.departed, seen.unfinished) == (1, 3, 2, 1)
    assert (seen.present_at_start, seen.present_at_end, seen.touching) == (1, 2, 4)
    assert math.isnan(seen.mean_time)
    assert math.isnan(seen.carried_out)
    finished = little([0, 2, 3], [2, 3, 9], (1, 5))
    assert finished.carried_out == 4
    assert finished.gap == pytest.approx((1 - 4) / 4)


def rows(data):
    arrivals = np.array([a for a, _, _ in data])
    departures = np.array([math.nan if never else a + s for a, s, never in data])
    return arrivals, departures


@given(intervals, windows)
def test_area_is_the_integral_of_the_staircase(data, window):
    arrivals, departures = rows(data)
    seen = little(arrivals, departures, window)
    times, count = staircase(arrivals, departures)
    edges = np.concatenate((times, [math.inf]))
    overlap = np.maximum(0, np.minimum(edges[1:], window[1]) - np.maximum(edges[:-1], window[0]))
    assert seen.area == pytest.approx(float(count @ overlap), abs=1e-9)
    assert count.min() >= 0


@given(intervals, windows)
def test_finite_window_identity(data, window):
    arrivals, departures = rows([(a, s, False) for a, s, _ in data])
    seen = little(arrivals, departures, window)
    time_of_arrived = seen.arrived * seen.mean_time if seen.arrived else 0.0
    assert seen.area == pytest.approx(time_of_arrived + seen.carried_in - seen.carried_out, abs=1e-9)
    if seen.arrived:
        assert seen.mean_number == pytest.approx(seen.rate * seen.mean_time + seen.gap, abs=1e-9)


@given(intervals, st.floats(0.1, 0.9))
def test_areas_of_two_windows_add_up(data, where):
    arrivals, departures = rows(data)
    cut = 90 * where
    parts = [little(arrivals, departures, w).area for w in ((0, cut), (cut, 90))]
    assert sum(parts) == pytest.approx(little(arrivals, departures, (0, 90)).area)


def test_default_window_spans_the_record():
    seen = little([1, 2], [4, math.nan])
    assert (seen.start, seen.end, seen.area) == (1, 4, 5)


def test_a_window_with_nobody_has_no_mean_time():
    seen = little([0], [1], (2, 3))
    assert (seen.area, seen.arrived) == (0, 0)
    assert math.isnan(seen.mean_time)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (([0, 1], [1]), "two flat lists"),
        (([0, math.nan], [1, 2]), r"arrivals\[1\]"),
        (([0, 5], [1, 2]), r"departures\[1\] = 2.0: lies before arrivals\[1\] = 5.0"),
        (([0], [1], (3, 3)), "window"),
        (([], []), "arrivals is empty"),
        (([0], [1], (0, math.inf)), "window end"),
    ],
)
def test_bad_records_are_named(args, message):
    with pytest.raises(ValueError, match=message):
        little(*args)
