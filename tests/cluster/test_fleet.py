"""A fleet: one replica is `simulate`, both ways to run it agree, nobody is lost, and routers do what theory says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcode import SLO, simulate, workload
from labcode.cluster import ROUTERS, Router, simulate_cluster
from labcode.cost import linear
from tests.simulation.random_cases import ALL_MEMORIES, loads, options
from tests.simulation.test_leap_equals_step import TIMES, WHOLE

BLIND = ("round_robin", "random")


def assert_same(one, other) -> None:
    """Two runs of one engine: the same outcomes and steps, and times to 1e-9."""
    for name in ("outcome", "preemptions", "recomputed"):
        np.testing.assert_array_equal(getattr(one.record, name), getattr(other.record, name), name)
    for name in TIMES:
        np.testing.assert_allclose(getattr(one.record, name), getattr(other.record, name), 1e-9, 1e-12, err_msg=name)
    for name in WHOLE:
        np.testing.assert_array_equal(one.record.segments[name], other.record.segments[name], name)
    np.testing.assert_allclose(one.decode_ends, other.decode_ends, rtol=1e-9, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(loads(people=False, declared=True), options(ALL_MEMORIES), st.sampled_from(ROUTERS))
def test_one_replica_is_the_engine(load, chosen, router):
    fleet = simulate_cluster(load, 1, router, interleaved=True, **chosen)
    assert_same(fleet.runs[0], simulate(load, **chosen))


def test_who_comes_a_moment_after_a_step_does_not_hold_the_replica_up():
    """An arrival within the same instant as a step's end does not move the clock: the running ones go on from there."""
    load = workload.from_arrays([0.0, 0.0], [50, 60], [40, 90])
    ends = simulate(load, max_bs=2).record.segments["end"]
    late = workload.from_arrays([0.0, 0.0, float(ends[1]) + 3e-10], [50, 60, 20], [40, 90, 5])
    assert_same(simulate_cluster(late, 1, "least_requests", max_bs=2).runs[0], simulate(late, max_bs=2))


@settings(max_examples=60, deadline=None)
@given(loads(people=False, declared=True), options(ALL_MEMORIES), st.sampled_from(BLIND), st.integers(2, 5))
def test_side_by_side_is_one_after_the_other(load, chosen, router, replicas):
    quick = simulate_cluster(load, replicas, router, **chosen)
    slow = simulate_cluster(load, replicas, router, interleaved=True, **chosen)
    np.testing.assert_array_equal(quick.replica, slow.replica)
    for one, other in zip(quick.runs, slow.runs, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert_same(one, other)


@settings(max_examples=60, deadline=None)
@given(
    loads(people=True),
    options(expire=("never", "waiting", "always")),
    st.sampled_from(ROUTERS),
    st.integers(1, 4),
)
def test_nobody_is_lost(load, chosen, router, replicas):
    fleet = simulate_cluster(load, replicas, router, **chosen)
    table = fleet.requests
    assert table.index.tolist() == list(range(len(load)))
    assert not (table["outcome"] == "unfinished").any()
    np.testing.assert_array_equal(table["output_tokens"], load.output)
    np.testing.assert_array_equal(table["arrival"], load.arrival)
    assert (table["ttft"].dropna() > 0).all()
    assert fleet.shares().sum() == pytest.approx(1)


class Watching(Router):
    """Compares every report with what the finished run will say of the same moment."""

    def __init__(self):
        self.seen = []

    def choose(self, request, replicas):
        self.seen.append((request.arrival, [(one.requests, one.tokens) for one in replicas]))
        return request.id % len(replicas)


@pytest.mark.parametrize("memory", ["oracle", "paged:16"])
def test_a_report_is_of_the_present(memory):
    load = workload.chat(n=150, rate=40.0, seed=3)
    router = Watching()
    fleet = simulate_cluster(load, 3, router, memory=memory, max_bs=24)
    for time, reports in router.seen:
        for number, (requests, tokens) in enumerate(reports):
            run, mine = fleet.runs[number], fleet.replica == number
            arrived = load.arrival[mine] < time
            there = arrived & (run.record.finished > time)
            made = [int((run.token_times(i) <= time).sum()) for i in np.flatnonzero(there)]
            assert requests == there.sum()
            assert tokens == run.load.prompt[there].sum() + sum(made)


def waits(load, router, replicas, seed, **chosen) -> np.ndarray:
    """Return waiting times after the first tenth, in seconds."""
    fleet = simulate_cluster(load, replicas, router, router_seed=seed, memory="unlimited", max_bs=1, **chosen)
    return fleet.requests["waited"].to_numpy()[len(load) // 10 :]


@pytest.mark.slow
def test_a_random_split_of_a_poisson_stream_is_poisson():
    """Each of 4 replicas is M/M/1 (geometric lengths): W = rho/(mu - lambda); round robin and JSQ wait less."""
    step, tokens, utilisation = 1e-3, 100, 0.8
    means = {"random": [], "round_robin": []}
    for seed in range(8):
        rng = np.random.default_rng(seed)
        n, rate = 100_000, 4 * utilisation / (step * tokens)
        load = workload.from_arrays(np.cumsum(rng.exponential(1 / rate, n)), 1, rng.geometric(1 / tokens, n))
        for router, found in means.items():
            found.append(waits(load, router, 4, seed, cost=linear(step, 0.0)).mean())
    second = step**2 * tokens**2 * (2 - 1 / tokens)  # E[S^2], geometric
    theory = (utilisation / (step * tokens)) * second / (2 * (1 - utilisation))
    half = 4 * np.std(means["random"], ddof=1) / np.sqrt(8)
    assert abs(np.mean(means["random"]) - theory) < half < 0.15 * theory
    assert np.mean(means["round_robin"]) < 0.75 * theory, "Erlang gaps: less waiting than Poisson ones"


def test_two_choices_beat_lots_at_the_tail_and_all_reports_beat_two():
    rng = np.random.default_rng(5)
    n, k = 4000, 8
    load = workload.from_arrays(np.cumsum(rng.exponential(0.1 / k / 0.85, n)), 1, rng.geometric(0.01, n))
    cost = linear(1e-3, 0.0)
    p99 = {
        router: np.quantile(waits(load, router, k, 7, cost=cost), 0.99)
        for router in ("random", "power_of_two", "least_requests")
    }
    assert p99["power_of_two"] < 0.5 * p99["random"]
    assert p99["least_requests"] < p99["power_of_two"]


def test_a_prefix_is_found_where_it_lies():
    """Requests of four conversations: the prefix router keeps each where its cache is; lots scatter them."""
    rng = np.random.default_rng(0)
    n = 240
    who = rng.integers(0, 12, n)
    prefixes = [tuple(1000 * int(w) + j for j in range(60)) for w in who]
    load = replace(workload.from_arrays(np.cumsum(rng.exponential(0.05, n)), 1000, 50), prefix=prefixes)
    computed = {}
    for router in ("round_robin", "prefix"):
        fleet = simulate_cluster(load, 4, router, memory="shared:16")
        computed[router] = sum(int(run.record.segments["prefill_tokens"].sum()) for run in fleet.runs if run)
        assert (fleet.requests["outcome"] == "finished").all()
    assert computed["prefix"] < 0.6 * computed["round_robin"]
    together = SLO(ttft=1.0)
    assert simulate_cluster(load, 4, "prefix", memory="shared:16").attainment(together) > 0.9


@pytest.mark.parametrize("order", ["vtc", "drr:256", "sjf:0.5"])
def test_each_replica_has_its_own_queue(order):
    load = replace(workload.chat(n=120, rate=60.0, seed=4), tenant=np.resize(["a", "b", "b"], 120))
    quick = simulate_cluster(load, 2, "round_robin", order=order, max_bs=8)
    slow = simulate_cluster(load, 2, "round_robin", order=order, max_bs=8, interleaved=True)
    for one, other in zip(quick.runs, slow.runs, strict=True):
        assert_same(one, other)


def test_the_same_arrivals_whatever_the_router():
    load = workload.chat(n=60, rate=30.0, seed=1)
    tables = [simulate_cluster(load, 3, router).requests for router in ROUTERS]
    for table in tables[1:]:
        np.testing.assert_array_equal(table["arrival"], tables[0]["arrival"])
    summary = simulate_cluster(load, 3, "power_of_two").summary(SLO())
    assert summary["submitted"] == 60
    assert summary["itl_p50_s"] > 0


class Peeping(Router):
    oblivious = True

    def choose(self, request, replicas):
        return replicas[0].requests


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(replicas=0), "replicas"),
        (dict(router="best"), "router = 'best'"),
        (dict(router=Peeping()), "oblivious"),
        (dict(stop_at=3.0), "stop_at"),
        (dict(memory=object()), "by name"),
        (dict(router=type("Far", (Router,), {"choose": lambda self, request, replicas: 7})()), "chose 7"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        simulate_cluster(workload.chat(n=5), **{"replicas": 2, **arguments})


@pytest.mark.slow
def test_a_million_requests_over_64_replicas():
    load = workload.orca_paper(n=1_000_000, rate=64 * 20.0, seed=0)
    fleet = simulate_cluster(load, 64, "random", memory="oracle")
    assert sum(len(run.load) for run in fleet.runs) == 1_000_000
    assert fleet.attainment(SLO(ttft=1.0, tpot=0.05)) > 0.99
