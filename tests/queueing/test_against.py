"""Theory against the simulator, and the labs of chapter 3 over their whole grids."""

import math

import numpy as np
import pytest

from labcode import workload
from labcode.course.evidence.queueing_compare import (
    alone_time,
    measured,
    offline_rate,
    predicted,
    served_by_curve,
    service_curve,
)
from labcode.course.labs import find
from labcode.simulate import simulate


@pytest.fixture(scope="module")
def load():
    return workload.chat(n=2000, rate=16.0, seed=0)


def test_alone_time_is_the_sequential_engine(load):
    few = workload.chat(n=40, rate=0.001, seed=3)  # so rare that nobody ever meets another
    table = simulate(few, engine="sequential", memory="unlimited", max_bs=1).requests
    assert alone_time(few) == pytest.approx((table.finished - table.arrival).to_numpy(), rel=1e-9)


def test_a_single_server_formula_misses_the_sojourn_by_an_order_of_magnitude(load):
    offline = offline_rate(load)
    for rate in (4, 16, 32):
        real, theory = measured(load.at_rate(rate)), predicted(load, rate, offline)
        for name in ("M/M/1", "M/G/1", "processor sharing"):
            assert theory[name][0] < real.mean / 20


@pytest.mark.parametrize(("rate", "within"), [(1, 0.03), (8, 0.03), (16, 0.04), (32, 0.08), (40, 0.15)])
def test_the_service_curve_comes_close_at_mean_and_tail(load, rate, within):
    real = measured(load.at_rate(rate))
    mean, p99 = predicted(load, rate, offline_rate(load))["service curve"]
    assert mean == pytest.approx(real.mean, rel=within)
    assert p99 == pytest.approx(real.p99, rel=2 * within)


def test_a_single_server_that_answers_one_at_a_time_would_drown_below_one_request_a_second(load):
    assert 0.4 < 1 / alone_time(load).mean() < 0.8


def test_theories_without_a_steady_state_say_nothing(load):
    theory = predicted(load, 60.0, offline_rate(load))
    assert all(math.isnan(mean) and math.isnan(p99) for mean, p99 in theory.values())


def test_little_holds_on_the_simulator(load):
    seen = measured(load.at_rate(16)).little
    assert seen.mean_number == pytest.approx(seen.rate * seen.mean_time + seen.gap)
    assert abs(seen.gap) < 0.03 * seen.mean_number


def test_service_curve_rises_with_the_batch(load):
    decode, excess = service_curve(load, 200)
    assert np.all(np.diff(decode) > 0)
    assert np.all(excess > 0)
    curve = served_by_curve(load, 16.0, 200)
    assert np.all(np.diff(curve.speed) > 0)
    with pytest.raises(ValueError, match="rate = 1000"):
        served_by_curve(load, 1000.0)


def test_lab_of_utilisation_says_what_the_chapter_says():
    lab = find("ch03-utilisation")
    assert "p99 230 ms" in lab.run(rho=0.8, queue="M/M/1").headline
    assert "p99 921 ms" in lab.run(rho=0.95, queue="M/M/1").headline
    for rho in (0.3, 0.8, 0.95):
        p99 = [lab.run(rho=rho, queue=q).panels[0].marks[0].at[1] for q in ("M/D/1", "M/M/1", "M/G/1, spread service")]
        assert p99 == sorted(p99)


def test_lab_of_littles_law_balances_in_every_window():
    lab = find("ch03-little")
    for params in lab.states():
        mean, product, before, after = lab.run(**params).panels[2].series[0].y
        assert mean == pytest.approx(product + before + after)
