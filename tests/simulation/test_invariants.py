"""What must hold for every workload under every policy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcode import simulate
from labcode.results.outcomes import FINISHED, REFUSED
from tests.simulation.random_cases import COSTS, GPU, MODEL, loads, options

RESERVING = ("max:256", "pow2", "oracle", "unlimited")


def check(run, max_bs: int) -> None:
    """Assert everything that does not depend on the policy."""
    rec, load, s = run.record, run.load, run.record.segments
    done = rec.outcome == FINISHED
    # Every request has a final state, and a reason if it was refused.
    assert ((rec.outcome == FINISHED) | (rec.outcome == REFUSED)).all()
    assert set(np.flatnonzero(rec.outcome == REFUSED)) == set(rec.reasons)
    assert all(rec.reasons.values())
    # Causality.
    assert (rec.admitted[done] >= load.arrival[done] - 1e-9).all()
    assert (rec.first_token[done] > rec.admitted[done]).all()
    assert (rec.last_token[done] >= rec.first_token[done]).all()
    assert np.isnan(rec.first_token[~done]).all()
    # Tokens are conserved.  Every position is computed once, and once more each time that a preemption lost it; the
    # last token of an answer takes no position.
    computed = s["prefill_tokens"].sum() + (s["n_decode"].astype(np.int64) * s["steps"]).sum()
    assert computed == (load.prompt + load.output - 1)[done].sum() + rec.recomputed.sum()
    if not rec.preemptions.any():
        assert s["prefill_tokens"].sum() == load.prompt[done].sum()
    assert (s["n_decode"].astype(np.int64) * s["steps"]).sum() == rec.span_count.sum()
    counted = np.zeros(len(load), dtype=np.int64)
    np.add.at(counted, rec.span_request, rec.span_count + 1)
    assert (counted[done] == load.output[done]).all() and (counted[~done] == 0).all()
    for request in np.flatnonzero(done)[:5]:
        times = run.token_times(int(request))
        assert len(times) == load.output[request]
        assert (np.diff(times) > 0).all()
        assert times[0] == rec.first_token[request]
        assert times[-1] == pytest.approx(rec.last_token[request], rel=1e-9)
    values, weights = run.itl()
    assert weights.sum() == pytest.approx((load.output[done] - 1).sum())
    assert (values > 0).all()
    # Time goes forward, without overlap; seats and memory are never exceeded.
    assert (s["end"] > s["start"]).all() and (s["start"][1:] >= s["end"][:-1]).all()
    assert (s["n_prefill"] + s["n_decode"] <= max_bs).all()
    assert (s["kv_used"] <= s["kv_reserved"]).all() or run_is_unlimited(run)
    assert (s["kv_reserved"] <= rec.capacity).all()


def run_is_unlimited(run) -> bool:
    return bool((run.record.segments["kv_reserved"] == 0).all())


@settings(max_examples=400, deadline=None)
@given(loads(), options())
def test_invariants_of_the_continuous_engine(load, chosen):
    check(simulate(load, **chosen), chosen["max_bs"])


@settings(max_examples=150, deadline=None)
@given(loads(), st.sampled_from(list(COSTS)), st.sampled_from([1, 3, 16]), st.sampled_from(RESERVING))
def test_invariants_of_the_static_engine(load, cost, max_bs, memory):
    chosen = dict(model=MODEL, gpu=GPU, engine="static", max_bs=max_bs, memory=memory, cost=COSTS[cost], capacity=900)
    check(simulate(load, **chosen), max_bs)


@settings(max_examples=300, deadline=None)
@given(loads(), options(memories=RESERVING))
def test_orcas_fcfs_property(load, chosen):
    """Of two requests the earlier one has never run fewer iterations, unless it is done (Yu et al. 2022)."""
    chosen["order"] = "fcfs"
    run = simulate(load, **chosen)
    served = np.flatnonzero(run.record.outcome == FINISHED)
    assert (np.diff(run.record.admitted[served]) >= 0).all()
    if chosen["prefill"] == "chunked":
        return
    # With every iteration counted as a token: at each step end, tokens of an unfinished earlier request >= the later's.
    times = {int(i): run.token_times(int(i)) for i in served[:12]}
    for end in run.record.segments["end"]:
        got = [(i, int(np.searchsorted(t, end + 1e-9))) for i, t in times.items()]
        for (i, earlier), (_, later) in zip(got, got[1:], strict=False):
            assert earlier >= later or earlier == len(times[i])


@settings(max_examples=200, deadline=None)
@given(
    loads(),
    st.sampled_from(["paper", "smooth", "linear", "own"]),
    st.sampled_from(["max:256", "oracle", "unlimited"]),
    st.sampled_from(["mixed", "prefill_first"]),
)
def test_one_seat_is_the_sequential_engine(load, cost, memory, prefill):
    """L32: the same time stamps from two engines that share no scheduling code."""
    chosen = dict(model=MODEL, gpu=GPU, memory=memory, cost=COSTS[cost], capacity=500)
    one = simulate(load, max_bs=1, prefill=prefill, **chosen)
    sequential = simulate(load, engine="sequential", **chosen)
    for name in ("admitted", "first_token", "finished"):
        np.testing.assert_allclose(getattr(one.record, name), getattr(sequential.record, name), rtol=1e-9, atol=1e-12)


@settings(max_examples=150, deadline=None)
@given(loads(), options())
def test_a_custom_memory_needs_only_three_methods(load, chosen):
    """The engine works with try_admit, grow and free alone, and gives back exactly what was taken."""

    class Slots:
        def __init__(self):
            self.held = {}

        def try_admit(self, request, positions):
            if sum(self.held.values()) + positions + 1 > 600:
                return False
            self.held[request.id] = positions
            return True

        def grow(self, request, positions):
            if sum(self.held.values()) - self.held[request.id] + positions > 1000:
                return False
            self.held[request.id] = positions
            return True

        def free(self, request):
            del self.held[request.id]

    memory = Slots()
    run = simulate(load, **(chosen | {"memory": memory}))
    assert not memory.held
    assert ((run.record.outcome == FINISHED) | (run.record.outcome == REFUSED)).all()
