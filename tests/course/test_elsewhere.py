"""Where conclusions of chapters 8 and 12 turn: the tables that say so."""

from __future__ import annotations

import pytest

from labcode import SLO, workload
from labcode.course.evidence import elsewhere
from labcode.course.evidence.fairness import break_even
from labcode.experiments.saturation import drain_rate


@pytest.mark.slow
def test_what_chunks_gain_depends_on_load_budget_and_price():
    ratio = elsewhere.chunks_elsewhere(seeds=1)
    smooth = ratio["smooth, H100"]
    assert smooth["chat, 256 places", 512] == pytest.approx(1.0, abs=0.03)
    assert smooth["long context, 256 places", 512] > 1.05
    assert smooth["conversations, 256 places", 512] < 0.97 < 1.0 < smooth["conversations, 256 places", 1024]
    assert ratio["paper, H100"]["conversations, 256 places", 512] > 1.05
    assert ratio["measured, A100"]["conversations, 256 places", 512] == pytest.approx(1.0, abs=0.04)


@pytest.mark.slow
def test_a_large_static_batch_catches_up_with_a_long_promise():
    ratios = elsewhere.static_elsewhere((5.0, 60.0), n=2500, seeds=1)["ratio"].tolist()
    assert ratios[0] > 5 and ratios[1] < 0.97


@pytest.mark.slow
def test_a_tight_tpot_ends_below_the_drain_rate():
    loose, tight = elsewhere.tpot_elsewhere((0.050, 0.015), seeds=1)["ratio"]
    assert tight < 0.85 < loose


def test_what_is_borne_is_neither_above_the_drain_rate_nor_above_the_promise():
    load, options = workload.chat(400, 1.0, 0), {"memory": "max:8192", "max_bs": 16}
    loose, tight = (elsewhere.borne(load, SLO(ttft=limit, tpot=0.05), **options) for limit in (1e3, 0.05))
    assert tight < loose == pytest.approx(drain_rate(load, **options))


def test_the_bandwidth_grows_with_ungrouped_heads_and_with_the_gpu():
    table = elsewhere.swap_bandwidths(("llama3-8b", "llama2-7b"), ("a100-80", "b200"))
    assert (table.loc["llama2-7b"] > 3 * table.loc["llama3-8b"]).all()
    assert (table["b200"] > 5 * table["a100-80"]).all()
    assert table.loc["llama3-8b", "a100-80"] == break_even(1024, gpu="a100-80") / 1e9


@pytest.mark.slow
def test_shares_err_by_what_is_in_flight():
    table = elsewhere.shares_by_places((4, 128), n=800)
    for queue in ("drr", "vtc"):
        error = (table[f"B's share, {queue} (%)"] - 50).abs()
        assert error[4] < 2 < 5 < error[128]
