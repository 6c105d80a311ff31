"""Closed forms: arithmetic that the texts state, identities between models, and refusals."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labcode.course.evidence.queueing import mm1_tails
from labcode.queueing import (
    MD1,
    MG1,
    MG1PS,
    MM1,
    MMc,
    SharedServer,
    constant,
    decode_speed,
    empirical,
    exponential,
    mg1_tail,
)

loads = st.floats(0.02, 0.98)


def test_chapter_figures_of_mm1():
    figures = mm1_tails()
    assert figures["mean_80"] == pytest.approx(0.050, abs=1e-12)
    assert round(figures["p99_80"] * 1e3) == 230
    assert figures["mean_95"] == pytest.approx(0.200, abs=1e-12)
    assert round(figures["p99_95"] * 1e3) == 921


def test_p99_is_4_6_times_the_sojourn_mean_not_the_service_mean():
    queue = MM1(80, 100)
    assert queue.quantile(0.99) == pytest.approx(math.log(100) * queue.W)
    assert queue.quantile(0.99) > 4 * math.log(100) * queue.service_mean


@given(loads, st.floats(0.01, 100))
def test_mm1_states_sum_to_one_and_give_the_mean(rho, mu):
    queue = MM1(rho * mu, mu)
    p = np.array([queue.state_probability(n) for n in range(3000)])
    assert p.sum() == pytest.approx(1, abs=1e-9)
    assert p @ np.arange(3000) == pytest.approx(queue.L, rel=1e-6)
    assert queue.Lq == pytest.approx(queue.L - queue.utilisation, rel=1e-6, abs=1e-9)
    assert queue.Lq == pytest.approx(queue.utilisation**2 / (1 - queue.utilisation), rel=1e-9)


@given(loads, st.floats(0.001, 0.9999))
def test_quantile_inverts_the_tail(rho, q):
    for queue in (MM1(rho, 1), MMc(3 * rho, 1, 3)):
        assert queue.tail(queue.quantile(q)) == pytest.approx(1 - q, rel=1e-6)
    constant_service = MD1(rho, 1)
    t = constant_service.quantile(q)
    assert constant_service.tail(t + 1e-6) <= 1 - q + 1e-6 <= constant_service.tail(max(0, t - 1e-6)) + 1e-5


@given(loads)
def test_one_server_of_mmc_is_mm1(rho):
    many, one = MMc(rho, 1, 1), MM1(rho, 1)
    assert pytest.approx(one.W) == many.W
    assert many.wait_probability == pytest.approx(rho)
    assert many.tail(2.5) == pytest.approx(one.tail(2.5))


def test_erlang_c_of_a_textbook_case():
    # Two servers, offered load 1.5: C = 9/14 by hand from the definition.
    assert MMc(1.5, 1, 2).wait_probability == pytest.approx(9 / 14)


def test_mmc_tail_is_continuous_where_its_two_rates_meet():
    at = MMc(2.0, 1.0, 3).tail(1.7)  # spare rate equals the service rate
    assert MMc(2.0 + 1e-5, 1.0, 3).tail(1.7) == pytest.approx(at, abs=1e-4)


@given(loads, st.floats(0.01, 10))
def test_pollaczek_khinchine_between_its_two_ends(rho, mean):
    rate = rho / mean
    assert pytest.approx(MM1(rate, 1 / mean).W) == MG1(rate, mean, 1).W
    assert pytest.approx(MD1(rate, mean).W) == MG1(rate, mean, 0).W
    assert MG1(rate, mean, 0).Wq == pytest.approx(MM1(rate, 1 / mean).Wq / 2)


def test_mg1_from_samples_takes_the_two_moments():
    assert MG1.from_samples(0.1, [1, 3]) == MG1(0.1, 2.0, 0.25)


@given(st.floats(0.05, 0.97))
def test_md1_states_agree_with_the_mean(rho):
    queue = MD1(rho, 1)
    p = queue.state_probabilities(1500)
    assert p.min() >= 0
    assert p.sum() == pytest.approx(1, abs=1e-9)
    assert p @ np.arange(1500) == pytest.approx(queue.L, rel=1e-6)


@pytest.mark.parametrize("rho", [0.3, 0.8, 0.98])
def test_md1_tail_integrates_to_the_mean(rho):
    queue = MD1(rho, 1)
    step = 0.05 if rho < 0.9 else 0.25
    upper = queue.quantile(1 - 1e-6)
    grid = np.arange(step / 2, upper, step)  # midpoints
    assert step * sum(queue.tail(t) for t in grid) == pytest.approx(queue.W, rel=2e-3)


@pytest.mark.parametrize("rho", [0.3, 0.8, 0.95])
@pytest.mark.parametrize("t", [0.4, 3.0, 20.0])
def test_inversion_recovers_mm1(rho, t):
    assert mg1_tail(rho, exponential(1.0), 1.0, t) == pytest.approx(MM1(rho, 1).tail(t), abs=1e-6)
    assert mg1_tail(rho, exponential(1.0), 1.0, t, sojourn=False) == pytest.approx(MM1(rho, 1).wait_tail(t), abs=1e-6)


def test_inversion_agrees_with_franx_away_from_the_kinks():
    for t in (2.5, 5.5, 9.5):
        assert mg1_tail(0.8, constant(1.0), 1.0, t) == pytest.approx(MD1(0.8, 1).tail(t), abs=2e-3)


def test_empirical_transform_of_one_value_is_the_constant_one():
    z = np.array([0.3 + 1j, 2.0])
    assert np.allclose(empirical(np.array([1.5]))(z), constant(1.5)(z))


@given(loads, st.floats(0.1, 10))
def test_processor_sharing_has_the_mm1_mean_and_a_proportional_sojourn(rho, mean):
    share = MG1PS(rho / mean, mean)
    assert pytest.approx(MM1(rho / mean, 1 / mean).W) == share.W
    assert share.conditional(2 * mean) == pytest.approx(2 * share.W)
    assert share.state_probability(0) == pytest.approx(1 - rho)


@given(loads, st.integers(1, 20))
def test_constant_speed_shared_server_is_plain_processor_sharing(rho, limit):
    ours = SharedServer(rho, 1.0, (1.0,) * limit)
    assert pytest.approx(MG1PS(rho, 1).L) == ours.L
    assert ours.utilisation == pytest.approx(rho)
    assert ours.state_probabilities().sum() == pytest.approx(1)


@given(loads, st.integers(1, 30))
def test_shared_server_with_speed_n_up_to_c_is_mmc(rho, servers):
    # n exponential servers are a shared server whose speed is the number of them in use.
    ours = SharedServer(rho * servers, 1.0, tuple(range(1, servers + 1)))
    assert pytest.approx(MMc(rho * servers, 1.0, servers).L) == ours.L


def test_decode_speed_grows_towards_one_over_the_slope():
    speed = decode_speed(0.006, 0.00005, 200)
    assert speed[0] == pytest.approx(1 / 0.00605)
    assert all(a < b for a, b in itertools.pairwise(speed))
    assert speed[-1] < 1 / 0.00005
    assert decode_speed(0.006, 0.00005, 2, spent=0.5)[1] == pytest.approx(speed[1] / 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MM1(100, 100), "utilisation = 1"),
        (lambda: MM1(-1, 100), "MM1.arrival_rate = -1"),
        (lambda: MM1(1, float("nan")), "MM1.service_rate = nan"),
        (lambda: MMc(10, 1, 10), "utilisation = 1"),
        (lambda: MMc(1, 1, 0), "MMc.servers = 0"),
        (lambda: MG1(1, 2, 1), "utilisation = 2"),
        (lambda: MG1(0.1, 1, -1), "MG1.scv = -1"),
        (lambda: MG1.from_samples(0.1, [1]), "at least two"),
        (lambda: MG1.from_samples(0.1, [1, 0]), "above 0"),
        (lambda: MD1(1, 1.5), "utilisation = 1.5"),
        (lambda: MG1PS(1, 1), "utilisation = 1"),
        (lambda: MG1PS(0.5, 1).conditional(-1), "requirement = -1"),
        (lambda: SharedServer(2, 1, (1.0, 1.5)), "utilisation = 1.33333"),
        (lambda: SharedServer(2, 1, ()), "speed is empty"),
        (lambda: SharedServer(2, 1, (1.0, 0.0)), "speed with 2 present = 0.0"),
        (lambda: MM1(1, 2).quantile(1.0), "q = 1.0"),
        (lambda: MM1(1, 2).tail(-1), "t = -1"),
        (lambda: MM1(1, 2).state_probability(0.5), "n = 0.5"),
        (lambda: mg1_tail(1, constant(2.0), 2.0, 1.0), "utilisation = 2"),
        (lambda: decode_speed(1, 1, 5, spent=1.0), "spent = 1.0"),
    ],
)
def test_refusals_name_argument_and_value(make, message):
    with pytest.raises(ValueError, match=message):
        make()
