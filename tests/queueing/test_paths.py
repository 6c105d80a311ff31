"""Sample paths: by hand, against a slow reference, and against theory and two simulators."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labcode.queueing import (
    MD1,
    MG1,
    MG1PS,
    MM1,
    MMc,
    SharedServer,
    decode_speed,
    fcfs,
    mg1_tail,
    poisson_arrivals,
    processor_sharing,
)

paths = st.lists(st.tuples(st.floats(0, 3), st.floats(0, 4)), min_size=1, max_size=30)


def draw(data):
    return np.cumsum([gap for gap, _ in data]), np.array([service for _, service in data])


def test_lindley_by_hand():
    assert fcfs([0, 1, 5], [2, 2, 1]).tolist() == [2, 4, 6]


def test_sharing_by_hand():
    # Alone for 1 s, then two share: the second has 1 s to do and the first 1 s left.
    assert processor_sharing([0, 1], [2, 1]).tolist() == [3, 3]
    assert processor_sharing([0, 0], [1, 3]).tolist() == [2, 4]


@given(paths)
def test_vectorised_lindley_is_the_recursion(data):
    arrivals, services = draw(data)
    free, expected = 0.0, []
    for a, s in zip(arrivals, services, strict=True):
        free = max(free, a) + s
        expected.append(free)
    assert fcfs(arrivals, services) == pytest.approx(np.array(expected))


@given(paths, st.integers(2, 4))
def test_more_servers_never_delay_anyone(data, servers):
    arrivals, services = draw(data)
    assert np.all(fcfs(arrivals, services, servers) <= fcfs(arrivals, services) + 1e-9)
    assert np.all(fcfs(arrivals, services, len(services)) == pytest.approx(arrivals + services))


@given(paths)
def test_work_conserving_disciplines_are_busy_at_the_same_times(data):
    arrivals, services = draw(data)
    shared, queued = processor_sharing(arrivals, services), fcfs(arrivals, services)
    assert shared.max() == pytest.approx(queued.max())
    assert np.all(shared >= arrivals + services - 1e-9)


def interval(values):
    """Mean and 99 % half-width of 20 independent runs (Student's t, 19 degrees)."""
    values = np.asarray(values)
    return values.mean(), 2.861 * values.std(ddof=1) / np.sqrt(len(values))


def check(values, theory, at_most):
    mean, half = interval(values)
    assert abs(mean - theory) <= half, f"{mean} +- {half} against {theory}"
    assert half <= at_most * theory, f"interval of +-{half} is too wide to test {theory}"


def sojourns(rho, draw_services, discipline, n, seed, servers=1):
    rng = np.random.default_rng(seed)
    arrivals = poisson_arrivals(rho * servers, n, rng)
    services = draw_services(rng, n)
    left = discipline(arrivals, services, servers) if discipline is fcfs else discipline(arrivals, services)
    return (left - arrivals)[n // 10 :]  # the first tenth is warm-up


SERVICES = {
    "exponential": (lambda rng, n: rng.exponential(1, n), 1.0),
    "constant": (lambda rng, n: np.ones(n), 0.0),
    "gamma": (lambda rng, n: rng.gamma(0.5, 2, n), 2.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("rho", [0.3, 0.8, 0.95, 0.98])
@pytest.mark.parametrize("name", SERVICES)
def test_single_server_means_and_tails(rho, name):
    services, scv = SERVICES[name]
    n = {0.3: 200_000, 0.8: 300_000, 0.95: 1_000_000, 0.98: 3_000_000}[
        rho
    ]  # the correlation time grows as 1 / (1 - rho)^2
    runs = [sojourns(rho, services, fcfs, n, seed) for seed in range(20)]
    wide = 0.06 if rho > 0.97 else 0.03
    check([run.mean() for run in runs], MG1(rho, 1, scv).W, wide)
    if name == "exponential":
        check([np.quantile(run, 0.99) for run in runs], MM1(rho, 1).quantile(0.99), 2 * wide)
    if name == "constant":
        check([np.quantile(run, 0.99) for run in runs], MD1(rho, 1).quantile(0.99), 2 * wide)
    if name == "gamma":
        t = 3 * MG1(rho, 1, scv).W
        theory = mg1_tail(rho, lambda z: (1 + 2 * z) ** -0.5, 1.0, t)
        check([np.mean(run > t) for run in runs], theory, 0.3)


@pytest.mark.slow
@pytest.mark.parametrize("name", SERVICES)
def test_processor_sharing_is_insensitive(name):
    services, _ = SERVICES[name]
    runs = [sojourns(0.8, services, processor_sharing, 60_000, seed) for seed in range(20)]
    check([run.mean() for run in runs], MG1PS(0.8, 1).W, 0.04)


@pytest.mark.slow
@pytest.mark.parametrize("rho", [0.7, 0.95])
def test_three_servers(rho):
    services, _ = SERVICES["exponential"]
    n = {0.7: 80_000, 0.95: 400_000}[rho]
    runs = [sojourns(rho, services, fcfs, n, seed, servers=3) for seed in range(20)]
    check([run.mean() for run in runs], MMc(3 * rho, 1, 3).W, 0.06)
    check([np.quantile(run, 0.99) for run in runs], MMc(3 * rho, 1, 3).quantile(0.99), 0.12)


def ciw_sojourns(rho, service, seed, servers=1, n=9_000):
    ciw = pytest.importorskip("ciw")
    ciw.seed(seed)
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(rho * servers)],
        service_distributions=[service(ciw)],
        number_of_servers=[servers],
    )
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_customers(n, method="Finish")
    records = sorted(simulation.get_all_records(), key=lambda r: r.arrival_date)[n // 6 :]
    return np.array([r.exit_date - r.arrival_date for r in records])


@pytest.mark.slow
@pytest.mark.peers
@pytest.mark.parametrize(
    ("service", "theory"),
    [
        (lambda ciw: ciw.dists.Exponential(1.0), MM1(0.8, 1)),
        (lambda ciw: ciw.dists.Deterministic(1.0), MD1(0.8, 1)),
    ],
    ids=["MM1", "MD1"],
)
def test_ciw_agrees_with_theory(service, theory):
    runs = [ciw_sojourns(0.8, service, seed) for seed in range(20)]
    check([run.mean() for run in runs], theory.W, 0.12)
    check([np.quantile(run, 0.99) for run in runs], theory.quantile(0.99), 0.25)


@pytest.mark.slow
@pytest.mark.peers
def test_ciw_agrees_on_three_servers():
    runs = [ciw_sojourns(0.8, lambda ciw: ciw.dists.Exponential(1.0), seed, servers=3) for seed in range(20)]
    check([run.mean() for run in runs], MMc(2.4, 1, 3).W, 0.10)


def ciw_departures(gaps, services):
    """Departures of given customers from a single server of Ciw, which takes both as sequences."""
    ciw = pytest.importorskip("ciw")
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Sequential([*gaps.tolist(), float("inf")])],
        service_distributions=[ciw.dists.Sequential(services.tolist())],
        number_of_servers=[1],
    )
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_customers(len(gaps), method="Finish")
    # In the order of arrival; a few of the last may still be inside when the count is reached.
    return [r.exit_date for r in sorted(simulation.get_all_records(), key=lambda r: r.arrival_date)]


@pytest.mark.slow
@pytest.mark.peers
def test_ciw_and_our_path_agree_customer_by_customer_in_heavy_traffic():
    rng = np.random.default_rng(3)
    gaps, services = rng.exponential(1.0, 4000), rng.exponential(0.98, 4000)
    theirs = ciw_departures(gaps, services)
    assert len(theirs) >= 3999
    assert theirs == pytest.approx(fcfs(np.cumsum(gaps), services)[: len(theirs)].tolist())


@pytest.mark.slow
@pytest.mark.peers
def test_ciw_and_our_processor_sharing_agree_customer_by_customer():
    ciw = pytest.importorskip("ciw")
    rng = np.random.default_rng(6)
    gaps, services = rng.exponential(1.0, 600), rng.gamma(0.5, 1.6, 600)
    arrivals = np.cumsum(gaps)
    ours = processor_sharing(arrivals, services)
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Sequential([*gaps.tolist(), float("inf")])],
        service_distributions=[ciw.dists.Sequential(services.tolist())],
        number_of_servers=[float("inf")],
    )
    simulation = ciw.Simulation(network, node_class=ciw.PSNode)
    simulation.simulate_until_max_time(float(ours.max()) + 1)
    records = sorted(simulation.get_all_records(), key=lambda r: r.arrival_date)
    assert len(records) == 600
    assert [r.exit_date for r in records] == pytest.approx(ours.tolist())


@pytest.mark.slow
@pytest.mark.peers
def test_simpy_and_our_path_agree_customer_by_customer():
    simpy = pytest.importorskip("simpy")
    rng = np.random.default_rng(4)
    arrivals, services = np.cumsum(rng.exponential(1.0, 2000)), rng.exponential(2.7, 2000)
    environment = simpy.Environment()
    desk = simpy.Resource(environment, capacity=3)
    left = np.full(len(arrivals), np.nan)

    def customer(i):
        yield environment.timeout(arrivals[i])
        with desk.request() as turn:
            yield turn
            yield environment.timeout(services[i])
        left[i] = environment.now

    for i in range(len(arrivals)):
        environment.process(customer(i))
    environment.run()
    assert left == pytest.approx(fcfs(arrivals, services, servers=3))


def shared_mean(rate, works, speed, rng):
    """Mean sojourn of a server with total speed speed[n - 1], equally shared by the n present, event by event."""
    arrivals = poisson_arrivals(rate, len(works), rng)
    left, came, sojourns, now, following = [], [], [], 0.0, 0
    while following < len(works) or left:
        pace = speed[min(len(left), len(speed)) - 1] / len(left) if left else 0.0
        leaves = now + min(left) / pace if left else np.inf
        comes = arrivals[following] if following < len(works) else np.inf
        step = min(leaves, comes) - now
        left = [work - pace * step for work in left]
        now += step
        if comes < leaves:
            left.append(works[following])
            came.append(now)
            following += 1
        else:
            gone = int(np.argmin(left))
            sojourns.append(now - came.pop(gone))
            left.pop(gone)
    return np.mean(sojourns)


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.0, 0.75, 1.2])
def test_shared_server_is_insensitive_to_the_distribution_of_the_work(sigma):
    # The decode loop of the paper GPU in units of its fixed cost, 30 seats.
    speed = decode_speed(1.0, 0.1, 30)
    theory = SharedServer(4.0, 1.0, tuple(speed)).W
    runs = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        works = rng.lognormal(-(sigma**2) / 2, sigma, 5000)  # mean 1 whatever sigma
        runs.append(shared_mean(4.0, works.tolist(), speed, rng))
    check(runs, theory, 0.05)


def test_refusals():
    with pytest.raises(ValueError, match="two flat lists"):
        fcfs([0, 1], [1])
    with pytest.raises(ValueError, match="in order of time"):
        processor_sharing([1, 0], [1, 1])
    with pytest.raises(ValueError, match="services at least 0"):
        fcfs([0], [-1])
    with pytest.raises(ValueError, match="servers = 0"):
        fcfs([0], [1], servers=0)
