"""Algorithm 1 against the engine, and Orca's evaluation against what the paper says of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from labcode import simulate, workload
from labcode.cost import StepShape
from labcode.course.evidence.orca_evaluation import (
    Machine,
    compare,
    faster_transformer,
    largest_rate,
    lone_target,
    normalised,
    orca,
)
from labcode.scheduler.kv_cache import Reservation
from labcode.simulation.algorithm1 import OrcaScheduler
from labcode.simulation.pipeline import in_flight
from tests.simulation.random_cases import COSTS, GPU, MODEL, loads


class Second:
    def step_time(self, shape: StepShape) -> float:
        return 1.0


@settings(max_examples=100, deadline=None)
@given(loads(), st.sampled_from([1, 2, 5, 40]), st.sampled_from([200, 420, 3000]), st.sampled_from(list(COSTS)))
def test_one_worker_is_the_engine(load, max_bs, slots, cost):
    assume((load.prompt + load.output).max() <= slots)
    ours = OrcaScheduler(load, COSTS[cost], max_bs, slots).serve()
    # The paper reserves a slot for the last token as well, which is never written.
    memory = Reservation(slots, lambda request: request.prompt + request.max_tokens)
    engine = simulate(load, MODEL, GPU, max_bs=max_bs, memory=memory, capacity=slots, cost=COSTS[cost]).requests
    for column in ("admitted", "first_token", "finished"):
        np.testing.assert_allclose(getattr(ours, column), engine[column], rtol=1e-9, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(loads(), st.sampled_from([1, 2, 5]), st.integers(1, 4), st.sampled_from([420, 3000]))
def test_several_workers_serve_everyone_in_iteration_level_order(load, max_bs, n_workers, slots):
    served = OrcaScheduler(load, COSTS["own"], max_bs, slots, n_workers).serve()
    assert np.isfinite(served.finished).all()
    assert (served.first_token > load.arrival).all()
    assert (np.diff(served.admitted) >= -1e-12).all()  # first come, first served


@pytest.mark.parametrize("n_workers", [1, 2, 3])
def test_workers_in_flight_equal_the_pipeline_model(n_workers):
    """Same lanes, same order, no prefill to speak of: both event models give the same times."""
    outputs = [3, 7, 2, 5, 4, 6, 1, 8]
    load = workload.from_arrays([0.0] * 8, 1, outputs)
    served = OrcaScheduler(load, Second(), 2, 10_000, n_workers).serve()
    run = in_flight(outputs, n_workers, 2, lambda b: 1.0 / n_workers)
    np.testing.assert_allclose(served.finished, run.finished)


def test_declared_caps_are_what_is_reserved():
    load = workload.from_arrays([0, 0], 10, 5, max_tokens=40)
    served = OrcaScheduler(load, Second(), 8, 99).serve()
    assert served.admitted.tolist() == [0, 5]  # 50 slots each: the second waits although 15 would do
    with pytest.raises(ValueError, match="n_slots is 49"):
        OrcaScheduler(load, Second(), 8, 49)


def test_faster_transformer_by_hand():
    """Two requests at once: the batch returns as a whole, after the longer one; the shortest prompt rules the
    first step."""
    machine = Machine(1)
    load = workload.from_arrays([0.0, 0.0], [32, 40], [1, 4])
    plain = faster_transformer(load, 2, machine, shortest_prefix=False)
    assert plain[0] == plain[1]
    lone = faster_transformer(load.head(1), 1, machine, shortest_prefix=False)
    # 12 iterations (8 tokens of prompt and 4 of output) instead of 4.
    slow = faster_transformer(load, 2, machine, shortest_prefix=True)
    assert slow[0] / lone[0] == pytest.approx(12, rel=0.05)
    assert plain[0] / lone[0] == pytest.approx(4, rel=0.05)


def test_equal_requests_leave_the_baseline_no_handicap_but_its_partitions():
    load = workload.from_arrays([0.0] * 8, 64, 16)
    one = Machine(1)
    np.testing.assert_allclose(faster_transformer(load, 8, one), orca(load, 8, one), rtol=1e-6)


def test_baseline_size_is_bounded_by_its_allocation():
    machine = Machine()
    with pytest.raises(ValueError, match="max_bs = 24"):
        faster_transformer(workload.fixed(n=2), 24, machine)


def test_the_target_is_twice_a_lone_request():
    machine = Machine(2)
    alone = workload.fixed(n=1, prompt=128, output=32)
    assert lone_target(machine) == pytest.approx(2 * normalised(alone, faster_transformer(alone, 1, machine))[0])
    assert lone_target(Machine(2)) == pytest.approx(2 * lone_target(Machine(1)))


def test_largest_rate_brackets_the_target():
    machine = Machine(1)
    load, target = workload.orca_paper(n=300, rate=1, seed=2), lone_target(machine)
    rate = largest_rate(lambda at: faster_transformer(at, 4, machine), load, target)
    for factor, within in ((1.0, True), (1.03, False)):
        at = load.at_rate(rate * factor)
        assert bool(np.median(normalised(at, faster_transformer(at, 4, machine))) <= target) is within
    assert largest_rate(lambda at: faster_transformer(at, 4, machine), load, target / 4) == 0.0


@pytest.mark.slow
def test_ledger_L33_as_the_paper_ranks_them():
    seen = compare(n=1000, orca_sizes=(32,))
    assert seen["ratio"] > 5
    # The paper: larger batches do not help FasterTransformer; the best settings are max_bs 1 and 8.
    assert seen["ft_best"] == seen["ft_1"]
    assert seen["ft_8"] >= seen["ft_2"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_ledger_L33_for_every_seed(seed):
    """At five times the best rate of the baseline, Orca still keeps the target."""
    machine, load = Machine(2), workload.orca_paper(n=500, rate=1, seed=seed)
    target = lone_target(machine)
    best = max(
        largest_rate(lambda at, s=s: faster_transformer(at, s, machine), load, target, ratio=1.1) for s in (1, 2, 8, 16)
    )
    at = load.at_rate(5 * best)
    assert np.median(normalised(at, orca(at, 32, machine))) <= target
