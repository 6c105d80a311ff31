"""Arrival processes have unit rate, and the burstiness that their name promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcode.workload import unit_arrivals

SPECS = st.one_of(
    st.just("poisson"),
    st.just("deterministic"),
    st.floats(0.01, 100).map(lambda k: f"gamma:{k}"),
    st.tuples(st.floats(0.01, 1), st.floats(0.5, 1e4)).map(lambda p: f"on_off:{p[0]}:{p[1]}"),
)


@given(spec=SPECS, n=st.integers(1, 300), seed=st.integers(0, 2**63))
@settings(deadline=None)
def test_times_are_finite_sorted_and_not_negative(spec, n, seed):
    times = unit_arrivals(spec, n, np.random.default_rng(seed))
    assert times.shape == (n,) and np.isfinite(times).all()
    assert times[0] >= 0 and (np.diff(times) >= 0).all()


@pytest.mark.parametrize("spec", ["poisson", "gamma:0.1", "gamma:4", "on_off:0.2:50", "on_off:0.9:5"])
def test_mean_rate_is_one(spec):
    times = unit_arrivals(spec, 400_000, np.random.default_rng(1))
    # The count over a long time has a relative error of about sqrt(dispersion/n), 1 % for the burstiest here.
    assert len(times) / times[-1] == pytest.approx(1, rel=0.03)


@pytest.mark.parametrize("burstiness", [0.1, 0.5, 1.0, 4.0, 25.0])
def test_gamma_gaps_have_the_cv_of_their_burstiness(burstiness):
    times = unit_arrivals(f"gamma:{burstiness}", 400_000, np.random.default_rng(2))
    gaps = np.diff(times)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(1 / burstiness, rel=0.05)


def test_gamma_of_burstiness_one_is_poisson_in_distribution():
    gaps = np.diff(unit_arrivals("gamma:1", 200_000, np.random.default_rng(3)))
    for probability in (0.1, 0.5, 0.9, 0.99):
        assert np.quantile(gaps, probability) == pytest.approx(-np.log(1 - probability), rel=0.03)


def test_on_off_gaps_have_the_cv_of_an_interrupted_poisson_process():
    # Kuczura's interrupted Poisson process is a renewal process with hyperexponential gaps: CV^2 = 1 + 2 a
    # w/(a' + w)^2 for rate a while on, and switching rates w on -> off and a' off -> on.
    share, burst = 0.2, 50.0
    rate, off, on = 1 / share, 1 / (burst * share), 1 / (burst * (1 - share))
    expected = 1 + 2 * rate * off / (on + off) ** 2
    gaps = np.diff(unit_arrivals(f"on_off:{share}:{burst}", 1_000_000, np.random.default_rng(4)))
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(expected, rel=0.05)


def test_on_off_with_the_source_always_on_is_poisson():
    gaps = np.diff(unit_arrivals("on_off:1:50", 200_000, np.random.default_rng(5)))
    assert gaps.std() / gaps.mean() == pytest.approx(1, rel=0.02)


def test_deterministic_is_one_a_second_from_zero():
    assert unit_arrivals("deterministic", 4, np.random.default_rng(0)).tolist() == [0, 1, 2, 3]


def test_defaults_are_those_that_the_documentation_states():
    rng = np.random.default_rng
    np.testing.assert_array_equal(unit_arrivals("gamma", 50, rng(0)), unit_arrivals("gamma:0.5", 50, rng(0)))
    np.testing.assert_array_equal(unit_arrivals("on_off", 50, rng(0)), unit_arrivals("on_off:0.2:50", 50, rng(0)))


@pytest.mark.parametrize(
    "spec",
    ["", "normal", "poisson:2", "gamma:x", "gamma:0", "gamma:-1", "gamma:nan", "gamma:inf", "gamma:1:2"],
)
def test_unknown_processes_and_bad_burstiness_are_refused(spec):
    with pytest.raises(ValueError, match=r"known are|must|is needed|numbers"):
        unit_arrivals(spec, 10, np.random.default_rng(0))


@pytest.mark.parametrize(
    "spec",
    [
        "on_off:0",
        "on_off:1.5",
        "on_off:nan",
        "on_off:0.2:0",
        "on_off:0.2:-1",
        "on_off:0.2:inf",
        "on_off:1:2:3",
    ],
)
def test_bad_shares_and_bursts_are_refused(spec):
    with pytest.raises(ValueError, match=r"known are|must|is needed"):
        unit_arrivals(spec, 10, np.random.default_rng(0))
