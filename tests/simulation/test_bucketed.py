"""Length buckets: two triggers, one bucket a batch, and the static engine as a special case."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcode import simulate, workload
from labcode.cost import StepShape
from labcode.simulation.batches import BatchRules
from tests.simulation.random_cases import COSTS, GPU, MODEL, loads


class Second:
    def step_time(self, shape: StepShape) -> float:
        return 1.0


def bucketed(load, edges=(), max_wait=0.0, max_bs=4, cost=None, **rules):
    return simulate(
        load,
        MODEL,
        GPU,
        engine="bucketed",
        max_bs=max_bs,
        memory="unlimited",
        cost=cost or Second(),
        batch=BatchRules(**({"padded": True} | rules), edges=edges, max_wait=max_wait),
    )


def test_an_edge_belongs_to_the_bucket_below_it():
    rules = BatchRules(padded=True, edges=(64, 128))
    assert [rules.bucket(p) for p in (1, 64, 65, 128, 129, 10_000)] == [0, 0, 1, 1, 2, 2]


def test_a_full_bucket_leaves_before_its_wait_is_over():
    run = bucketed(workload.from_arrays([0, 1, 2], 10, 1), max_wait=100.0, max_bs=3)
    assert run.requests["admitted"].tolist() == [2, 2, 2]


def test_the_wait_ends_for_an_unfilled_bucket_even_if_nobody_comes():
    run = bucketed(workload.from_arrays([0.0, 0.5], 10, 1), max_wait=3.0, max_bs=3)
    assert run.requests["admitted"].tolist() == [3, 3]


def test_a_batch_never_mixes_buckets_and_the_oldest_due_bucket_goes_first():
    load = workload.from_arrays([0, 0, 0, 0], [100, 10, 100, 10], 1)
    run = bucketed(load, edges=(50,), max_wait=0.0)
    assert run.requests["admitted"].tolist() == [0, 1, 0, 1]


def test_more_buckets_mean_waiting_alone_at_low_load():
    """Six requests a second apart, one length each: a single bucket fills, six buckets all wait out their
    time."""
    load = workload.from_arrays([0, 1, 2, 3, 4, 5], [10, 20, 30, 40, 50, 60], 1)
    one = bucketed(load, max_wait=4.0, max_bs=3)
    six = bucketed(load, edges=(10, 20, 30, 40, 50), max_wait=4.0, max_bs=3)
    assert one.requests["waited"].tolist() == [2, 1, 0, 2, 1, 0]
    assert six.requests["waited"].tolist() == [4] * 6


def test_padding_costs_what_the_longest_prompt_costs():
    load = workload.from_arrays([0, 0, 0], [64, 64, 256], 1)
    padded, plain = bucketed(load), bucketed(load, padded=False)
    assert padded.steps["prefill_tokens"].tolist() == [3 * 256]
    assert plain.steps["prefill_tokens"].tolist() == [64 + 64 + 256]


def test_what_cannot_fit_is_refused_with_a_reason_and_the_rest_runs():
    load = workload.from_arrays([0, 0, 0], [10, 500, 10], 2)
    run = simulate(
        load,
        MODEL,
        GPU,
        engine="bucketed",
        max_bs=4,
        memory="oracle",
        capacity=100,
        cost=Second(),
        batch=BatchRules(padded=True),
    )
    assert run.requests["outcome"].tolist() == ["finished", "refused", "finished"]
    assert "501 tokens" in run.requests["reason"][1]


@settings(max_examples=60, deadline=None)
@given(
    loads(),
    st.sampled_from([1, 2, 5]),
    st.sampled_from(list(COSTS)),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_one_bucket_without_a_wait_is_the_static_engine(load, max_bs, cost, padded, keep, early):
    options = {
        "model": MODEL,
        "gpu": GPU,
        "max_bs": max_bs,
        "memory": "oracle",
        "capacity": 900,
        "cost": COSTS[cost],
    }
    ours = simulate(load, engine="bucketed", batch=BatchRules(padded, keep, early), **options)
    static = simulate(load, engine="static", batch=BatchRules(padded, keep, early), **options)
    for column in ("admitted", "first_token", "finished"):
        np.testing.assert_array_equal(ours.requests[column], static.requests[column])
    assert ours.steps.equals(static.steps)


@settings(max_examples=60, deadline=None)
@given(
    loads(),
    st.lists(st.integers(1, 200), max_size=5, unique=True),
    st.sampled_from([0.0, 1e-3, 0.1]),
    st.sampled_from([1, 2, 5]),
    st.booleans(),
)
def test_batches_keep_their_rules(load, edges, max_wait, max_bs, step_by_step):
    rules = BatchRules(padded=True, edges=tuple(sorted(edges)), max_wait=max_wait)
    run = simulate(
        load,
        MODEL,
        GPU,
        engine="bucketed",
        max_bs=max_bs,
        memory="unlimited",
        batch=rules,
        cost=COSTS["paper"],
        step_by_step=step_by_step,
    )
    table = run.requests
    assert (table["outcome"] == "finished").all()
    prefills = run.steps[run.steps["n_prefill"] > 0]
    busy = np.column_stack([run.steps["start"], run.steps["end"]])
    assert (busy[1:, 0] >= busy[:-1, 1] - 1e-9).all()  # one batch at a time
    for start, batch in table.groupby("admitted"):
        assert len(batch) <= max_bs
        assert len({rules.bucket(p) for p in batch["prompt_tokens"]}) == 1
        oldest = batch["arrival"].min()
        # Sent off because it was full or because its head had waited long enough, and not before anybody
        # arrived.
        assert len(batch) == max_bs or start >= oldest + max_wait - 1e-8
        assert batch["arrival"].max() <= start + 1e-8
    assert len(prefills) == table["admitted"].nunique()


@settings(max_examples=40, deadline=None)
@given(
    loads(),
    st.sampled_from([(), (5,), (20, 100)]),
    st.sampled_from([0.0, 2e-3]),
    st.sampled_from(list(COSTS)),
)
def test_leaping_equals_stepping(load, edges, max_wait, cost):
    # Waits off the arrival grid's multiples, so that no rounding decides who is on time.
    runs = [
        simulate(
            load,
            MODEL,
            GPU,
            engine="bucketed",
            max_bs=3,
            memory="unlimited",
            cost=COSTS[cost],
            batch=BatchRules(padded=True, edges=edges, max_wait=max_wait),
            step_by_step=s,
        )
        for s in (False, True)
    ]
    for column in ("admitted", "first_token", "finished"):
        np.testing.assert_allclose(runs[0].requests[column], runs[1].requests[column], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("change", "words"), [
    ({"edges": (64, 64)}, "ascend"), ({"edges": (128, 64)}, "ascend"), ({"edges": (0,)}, "at least 1"),
    ({"max_wait": -1.0}, "max_wait"), ({"max_wait": float("nan")}, "finite"),
])  # fmt: skip
def test_bad_rules_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        BatchRules(**({"edges": (64,), "max_wait": 1.0} | change))


def test_the_front_door_says_what_belongs_to_whom():
    load = workload.fixed(n=2)
    rules = BatchRules(padded=True, edges=(64,))
    with pytest.raises(ValueError, match="needs rules, as in BatchRules"):
        simulate(load, engine="bucketed", max_bs=4)
    with pytest.raises(ValueError, match="belong to engine='bucketed'"):
        simulate(load, engine="static", max_bs=4, batch=rules)
    with pytest.raises(ValueError, match="belong to engine='bucketed'"):
        simulate(load, engine="sequential", max_bs=4, batch=rules)
    with pytest.raises(ValueError, match="batches of one, which need no rules"):
        simulate(load, engine="sequential", max_bs=4, batch=BatchRules(padded=True))
    with pytest.raises(ValueError, match="belong to the request-level engines"):
        simulate(load, engine="continuous", max_bs=4, batch=rules)
    with pytest.raises(ValueError, match="cannot preempt"):
        simulate(load, engine="bucketed", max_bs=4, memory="paged", batch=rules)
