"""The engine against queueing theory and against other people's simulators, under the assumptions that each needs.

With steps of one fixed length and geometric output lengths, a single seat is an M/G/1 queue; with a cost that is
purely proportional to the batch, iteration-level scheduling is processor sharing; with a cost in between, it is a birth
and death process; and a static engine that only prefills is a batch-service queue.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from labcode import simulate, workload
from labcode.cost import roofline as costs
from labcode.queueing.bulk import batch_queue

pytestmark = pytest.mark.slow

STEP = 1e-3  # s
TOKENS = 100.0  # mean output length; S = STEP * TOKENS is the mean service time


def poisson_load(rate: float, n: int, seed: int, lengths: str = "geometric") -> workload.Workload:
    """Return Poisson arrivals with one-token prompts and output lengths of mean `TOKENS`."""
    rng = np.random.default_rng(seed)
    arrival = np.cumsum(rng.exponential(1 / rate, n))
    output = rng.geometric(1 / TOKENS, n) if lengths == "geometric" else np.full(n, int(TOKENS))
    return workload.from_arrays(arrival, np.ones(n, dtype=int), output)


def replicated(measure, count: int = 16) -> tuple[float, float]:
    """Return mean and half width of the 99.9 % interval over independent repetitions."""
    values = np.array([measure(seed) for seed in range(count)])
    return values.mean(), stats.t.ppf(0.9995, count - 1) * values.std(ddof=1) / np.sqrt(count)


def settled(run, column) -> np.ndarray:
    """Return a column without the first tenth, in which the system is emptier than in the long run."""
    values = run.requests[column].to_numpy(dtype=float)
    return values[len(values) // 10 :]


@pytest.mark.parametrize("utilisation", [0.5, 0.8])
@pytest.mark.parametrize("lengths", ["geometric", "constant"])
def test_a_single_seat_waits_as_pollaczek_and_khinchine_say(utilisation, lengths):
    rate = utilisation / (STEP * TOKENS)
    second = STEP**2 * TOKENS**2 * ((2 - 1 / TOKENS) if lengths == "geometric" else 1)
    expected = rate * second / (2 * (1 - utilisation))
    cost = costs.linear(STEP, 0.0)

    def waited(seed):
        run = simulate(poisson_load(rate, 60_000, seed, lengths), max_bs=1, cost=cost, memory="unlimited")
        return settled(run, "waited").mean()

    mean, half = replicated(waited)
    assert abs(mean - expected) < half
    assert half < 0.12 * expected, "an interval that says something"


def test_the_tail_of_a_single_seat_is_that_of_m_m_1():
    """Geometric lengths of mean 100 are close to exponential: the 99th percentile is ln(100) mean sojourn times."""
    rate = 0.8 / (STEP * TOKENS)
    cost = costs.linear(STEP, 0.0)

    def tail(seed):
        run = simulate(poisson_load(rate, 100_000, seed), max_bs=1, cost=cost, memory="unlimited")
        return np.quantile(settled(run, "finished") - settled(run, "arrival"), 0.99)

    mean, half = replicated(tail)
    expected = np.log(100) * STEP * TOKENS / (1 - 0.8)
    assert abs(mean - expected) < half + 0.01 * expected


def test_the_sequential_engine_is_the_single_seat():
    load, cost = poisson_load(8.0, 3000, 0), costs.linear(STEP, 0.0)
    one = simulate(load, engine="sequential", cost=cost, memory="unlimited").requests
    other = simulate(load, max_bs=1, cost=cost, memory="unlimited").requests
    np.testing.assert_allclose(one["finished"], other["finished"], rtol=1e-9)


@pytest.mark.parametrize("lengths", ["geometric", "constant"])
def test_a_cost_proportional_to_the_batch_is_processor_sharing(lengths):
    """Mean sojourn S / (1 - utilisation), whatever the distribution of the lengths is."""
    utilisation = 0.7
    rate = utilisation / (STEP * TOKENS)
    cost = costs.linear(1e-12, STEP)

    def sojourn(seed):
        run = simulate(poisson_load(rate, 40_000, seed, lengths), max_bs=10_000, cost=cost, memory="unlimited")
        return (settled(run, "finished") - settled(run, "arrival")).mean()

    mean, half = replicated(sojourn)
    expected = STEP * TOKENS / (1 - utilisation)
    # Nobody joins in the middle of a step: up to one step of the batch is lost at the start.
    assert abs(mean - expected) < half + 0.02 * expected
    assert half < 0.06 * expected


def birth_and_death(rate: float, fixed: float, each: float, seats: int, top: int = 4000) -> float:
    """Return the mean number of requests when n of them finish at the rate n / (TOKENS (fixed + each n))."""
    n = np.arange(1, top + 1)
    seated = np.minimum(n, seats)
    departures = seated / (TOKENS * (fixed + each * seated))
    logs = np.concatenate([[0.0], np.cumsum(np.log(rate / departures))])
    weights = np.exp(logs - logs.max())
    assert weights[-1] < 1e-12, "cut off far enough out"
    return float((np.arange(top + 1) * weights).sum() / weights.sum())


@pytest.mark.parametrize(("seats", "rate"), [(8, 40.0), (64, 100.0)])
def test_continuous_batching_is_a_birth_and_death_process(seats, rate):
    """A step of ``fixed + each B``: the mean number in the system, and by Little's law the mean sojourn time."""
    fixed, each = 1e-3, 5e-5
    expected = birth_and_death(rate, fixed, each, seats) / rate
    cost = costs.linear(fixed, each)

    def sojourn(seed):
        run = simulate(poisson_load(rate, 40_000, seed), max_bs=seats, cost=cost, memory="unlimited")
        return (settled(run, "finished") - settled(run, "arrival")).mean()

    mean, half = replicated(sojourn)
    assert abs(mean - expected) < half + 0.015 * expected
    assert half < 0.05 * expected


@pytest.mark.parametrize("utilisation", [0.3, 0.8])
def test_static_batches_of_prefills_are_a_batch_service_queue(utilisation):
    fixed, each, seats = 2e-3, 5e-4, 16
    rate = utilisation * seats / (fixed + each * seats)
    expected = batch_queue(rate, fixed, each, seats)

    def sojourn(seed):
        rng = np.random.default_rng(seed)
        ones = np.ones(8_000, dtype=int)
        load = workload.from_arrays(np.cumsum(rng.exponential(1 / rate, len(ones))), ones, ones)
        run = simulate(load, engine="static", max_bs=seats, cost=costs.linear(fixed, each), memory="unlimited")
        return settled(run, "ttft").mean()

    mean, half = replicated(sojourn, 8)
    assert abs(mean - expected.W) < half + 0.002 * expected.W
    assert half < 0.1 * expected.W


@pytest.mark.peers
def test_simpy_given_the_same_requests_gives_the_same_times():
    simpy = pytest.importorskip("simpy")
    load = poisson_load(8.0, 4000, 5)
    ours = simulate(load, max_bs=1, cost=costs.linear(STEP, 0.0), memory="unlimited").requests
    environment = simpy.Environment()
    seat = simpy.Resource(environment, capacity=1)
    admitted, finished = np.empty(len(load)), np.empty(len(load))

    def request(i):
        yield environment.timeout(load.arrival[i])
        with seat.request() as turn:
            yield turn
            admitted[i] = environment.now
            yield environment.timeout(STEP * load.output[i])
        finished[i] = environment.now

    for i in range(len(load)):
        environment.process(request(i))
    environment.run()
    np.testing.assert_allclose(ours["admitted"], admitted, rtol=1e-9)
    np.testing.assert_allclose(ours["finished"], finished, rtol=1e-9)


@pytest.mark.peers
def test_ciw_with_random_numbers_of_its_own_agrees_within_the_intervals():
    ciw = pytest.importorskip("ciw")
    rate, count, n = 7.0, 10, 4000
    expected_service = STEP * TOKENS
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(rate)],
        service_distributions=[ciw.dists.Exponential(1 / expected_service)],
        number_of_servers=[1],
    )

    def theirs(seed):
        ciw.seed(seed)
        simulation = ciw.Simulation(network)
        simulation.simulate_until_max_customers(n, method="Finish")
        waits = [record.waiting_time for record in sorted(simulation.get_all_records(), key=lambda r: r.arrival_date)]
        return np.mean(waits[n // 10 :])

    def ours(seed):
        run = simulate(poisson_load(rate, n, seed), max_bs=1, cost=costs.linear(STEP, 0.0), memory="unlimited")
        return settled(run, "waited").mean()

    (mean, half), (their_mean, their_half) = replicated(ours, count), replicated(theirs, count)
    assert abs(mean - their_mean) < half + their_half
