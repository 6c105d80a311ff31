"""Prefill and decode apart: by hand on one request, conservation, and the price of the way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcode import SLO, workload
from labcode.cluster import simulate_disaggregated
from labcode.cost import linear
from labcode.scheduler.preemption import Link
from tests.simulation.random_cases import loads, options


def test_one_request_by_hand():
    """One step of prefill, 2 s on the way, and a step for each of the three further tokens."""
    load = workload.from_arrays([1.0], 100, 4)
    run = simulate_disaggregated(load, 1, 1, Link(bandwidth=50.0, bytes_per_token=1.0), cost=linear(0.1, 0.0))
    row = run.requests.iloc[0]
    assert row["first_token"] == pytest.approx(1.1)
    assert row["finished"] == pytest.approx(1.1 + 2.0 + 0.3)
    assert row["tpot"] == pytest.approx(2.3 / 3)
    assert row["itl_max"] == pytest.approx(2.1)
    assert run.decode.runs[0].record.segments["prefill_tokens"].sum() == 1, "the prompt is not computed again"


@settings(max_examples=40, deadline=None)
@given(loads(declared=True), options(("oracle", "unlimited", "paged:3")), st.integers(1, 3), st.integers(1, 3))
def test_nobody_is_lost(load, chosen, prefill, decode):
    chosen.pop("prefill"), chosen.pop("token_budget", None)
    run = simulate_disaggregated(load, prefill, decode, **chosen)
    table = run.requests
    done = (table["outcome"] == "finished").to_numpy()
    assert (done | (table["outcome"] == "refused").to_numpy()).all()
    assert np.isfinite(table["finished"].to_numpy()[done]).all()
    single = load.output == 1
    assert table["tpot"].to_numpy()[single & done].size == 0 or np.isnan(table["tpot"].to_numpy()[single & done]).all()
    tokens = sum(len(r.load) for r in run.prefill.runs if r) + (
        0 if run.decode is None else int(run.decode.load.output[run.decode.requests["outcome"] == "finished"].sum())
    )
    assert tokens >= load.output[done].sum()


def test_who_is_preempted_computes_its_prompt_again():
    load = workload.from_arrays(np.zeros(6), 60, 60)
    run = simulate_disaggregated(load, 1, 1, memory="paged:1", capacity=420, cost=linear(1e-3, 1e-6))
    assert (run.requests["outcome"] == "finished").all()
    lost = run.requests["recomputed_tokens"].sum()
    assert lost > 0
    computed = run.decode.runs[0].record.segments["prefill_tokens"].sum()
    assert computed >= 6 + lost, "a cache that was dropped is gone, wherever it came from"


def test_nobody_waits_for_another_ones_prompt():
    """The reason for the split: the longest gap between tokens shrinks; a slow way takes it back."""
    load = workload.long_context(n=200, rate=6.0, seed=2)
    slo = SLO(ttft=5.0, tpot=None, itl=0.06)
    quick = simulate_disaggregated(load, 2, 2, Link(200e9, 131072.0), memory="oracle")
    slow = simulate_disaggregated(load, 2, 2, Link(1e9, 131072.0), memory="oracle")
    assert quick.attainment(slo) > slow.attainment(slo)
    assert quick.summary(slo)["submitted"] == 200
    np.testing.assert_array_less(quick.transfer, slow.transfer[: len(quick.transfer)].max())
