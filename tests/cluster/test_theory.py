"""Routers held against an independent library, request by request, and against the supermarket model."""

from __future__ import annotations

import numpy as np
import pytest
import simpy

from labcode import workload
from labcode.cluster import simulate_cluster
from labcode.cost import linear

STEP, TOKENS = 1e-3, 100


def exponential_like(n: int, servers: int, utilisation: float, seed: int):
    """Return Poisson requests with answers of geometric length, which is as near to exponential as tokens come."""
    rng = np.random.default_rng(seed)
    gaps = rng.exponential(STEP * TOKENS / (servers * utilisation), n)
    return workload.from_arrays(np.cumsum(gaps), 1, rng.geometric(1 / TOKENS, n))


def joined_shortest(load, servers: int) -> tuple[np.ndarray, np.ndarray]:
    """Waiting times and servers by SimPy: join the shortest queue, ties go round."""
    env = simpy.Environment()
    desks = [simpy.Resource(env, 1) for _ in range(servers)]
    waited, chosen = np.full(len(load), np.nan), np.full(len(load), -1)

    def customer(i, desk):
        with desk.request() as turn:
            yield turn
            waited[i] = env.now - load.arrival[i]
            yield env.timeout(STEP * load.output[i])

    def door():
        last = -1
        for i, arrival in enumerate(load.arrival):
            yield env.timeout(arrival - env.now)
            sizes = [desk.count + len(desk.queue) for desk in desks]
            last = min(range(servers), key=lambda k: (sizes[k], (k - last - 1) % servers))
            chosen[i] = last
            env.process(customer(i, desks[last]))

    env.process(door())
    env.run()
    return waited, chosen


def fleet(load, servers: int, router: str, seed: int = 0):
    return simulate_cluster(
        load, servers, router, router_seed=seed, memory="unlimited", max_bs=1, cost=linear(STEP, 0.0)
    )


def test_the_shortest_queue_as_simpy_has_it():
    load = exponential_like(1500, 4, 0.9, 3)
    waited, chosen = joined_shortest(load, 4)
    run = fleet(load, 4, "least_requests")
    np.testing.assert_array_equal(run.replica, chosen)
    np.testing.assert_allclose(run.requests["waited"], waited, atol=1e-9)
    assert waited.max() > 0.1, "somebody waits, or nothing was compared"


@pytest.mark.slow
def test_two_choices_as_in_the_supermarket_model():
    """Mitzenmacher (2001): the mean time in the system tends to the sum of rho^(2^i - 2), in mean services."""
    servers, utilisation = 60, 0.8
    means = []
    for seed in range(3):
        table = fleet(exponential_like(8_000, servers, utilisation, seed), servers, "power_of_two", seed).requests
        means.append((table["finished"] - table["arrival"]).to_numpy()[2000:].mean() / (STEP * TOKENS))
    theory = sum(utilisation ** (2**i - 2) for i in range(1, 30))
    assert abs(np.mean(means) - theory) < 0.05 * theory
    assert np.mean(means) < 0.5 / (1 - utilisation), "by lot it would be M/M/1"
