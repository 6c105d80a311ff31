"""The front door refuses bad input before any work, serves what can be served, and a run always ends."""

from __future__ import annotations

import json
import math
import time

import numpy as np
import pytest

from labcode import SLO, goodput, simulate, workload
from labcode.__main__ import main
from labcode.simulation.batches import BatchRules

LOAD = workload.chat(n=20, rate=16.0, seed=0)

BAD = [
    (dict(model="gpt-5"), r"model = 'gpt-5': known are .*llama3-8b"),
    (dict(gpu="tpu"), r"gpu = 'tpu': known are .*h100"),
    (dict(gpu="0xh100"), "count = 0"),
    (dict(engine="magic"), "engine = 'magic': known are continuous, static"),
    (dict(memory="min:3"), "memory = 'min:3': known are"),
    (dict(memory="max:0"), "memory = 'max:0'"),
    (dict(memory="max:"), "memory = 'max:'"),
    (dict(memory="paged:0"), "memory = 'paged:0'"),
    (dict(memory=object()), "try_admit, grow and free"),
    (dict(order="lifo"), "order = 'lifo': known are"),
    (dict(order="sjf:-1"), "sigma = -1"),
    (dict(order="sjf:x"), "'sjf:x'"),
    (dict(order="deadline"), "no deadlines"),
    (dict(order=lambda request: "soon"), r"order\(request 0\) = 'soon'"),
    (dict(order=lambda request: math.nan), r"order\(request 0\) = nan"),
    (dict(prefill="never"), "prefill = 'never': known are"),
    (dict(prefill="chunked", token_budget=10), "token_budget .* = 10: must be at least 256"),
    (dict(token_budget=10), "token_budget .* = 10: must be at least 256"),
    (dict(token_budget="padded:x"), "token_budget = 'padded:x': a number"),
    (dict(cost="cheap"), "cost = 'cheap': known are"),
    (dict(cost=object()), r"step_time\(shape\)"),
    (dict(max_bs=0), "max_bs = 0: must be at least 1"),
    (dict(max_bs=2.5), "max_bs = 2.5: a whole number"),
    (dict(max_bs=True), "max_bs = True"),
    (dict(max_bs=math.nan), "max_bs = nan"),
    (dict(capacity=-1), "capacity = -1"),
    (dict(stop_at=0), "stop_at = 0"),
    (dict(stop_at=math.nan), "stop_at = nan"),
    (dict(model="llama3-70b"), "needs 141.2 GB of weights"),
    (dict(engine="static", order="sjf"), "first come, first served"),
    (dict(engine="static", memory="paged"), "cannot preempt"),
    (dict(batch=BatchRules()), "belong to the request-level engines"),
    (dict(engine="static", batch=BatchRules(edges=(5,))), "belong to engine='bucketed'"),
    (dict(engine="static", token_budget=512), "token_budget and executor None"),
    (dict(expire="soon"), "expire = 'soon': known are"),
    (dict(predictor="magic"), "predictor = 'magic': known are"),
    (dict(watermark=0.1), "only memory='paged' has one"),
    (dict(memory="paged", watermark=1.5), r"watermark = 1.5: must lie in \(0, 1\]"),
    (dict(stop_at="soon"), "stop_at = 'soon': a number is needed"),
    (dict(capacity=1 << 70), "capacity = "),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_options_name_the_argument(options, message):
    with pytest.raises(ValueError, match=message):
        simulate(LOAD, **options)


def test_declared_limits_need_senders_who_declare():
    silent = workload.from_arrays(LOAD.arrival, LOAD.prompt, LOAD.output)
    with pytest.raises(ValueError, match="senders declare nothing"):
        simulate(silent, memory="declared")


def test_a_workload_is_needed():
    with pytest.raises(ValueError, match=r"load = .*Workload is needed"):
        simulate([1, 2, 3])


@pytest.mark.parametrize("options", [dict(attainment=0), dict(attainment=1.1), dict(tolerance=0), dict(max_bs=-3)])
def test_bad_goodput(options):
    with pytest.raises(ValueError, match=r"attainment|tolerance|max_bs"):
        goodput(LOAD, **options)


@pytest.mark.parametrize("limit", ["ttft", "tpot", "itl", "e2e"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "1"])
def test_bad_slo(limit, value):
    with pytest.raises(ValueError, match=rf"SLO\.{limit}"):
        SLO(**{limit: value})


RESERVING = ("max:1600", "max:8192", "pow2", "oracle")
PAIRS = [("continuous", "paged"), *((e, m) for e in ("continuous", "static", "sequential") for m in RESERVING)]


@pytest.mark.parametrize(("engine", "memory"), PAIRS)
@pytest.mark.parametrize("step_by_step", [False, True])
def test_what_never_fits_is_refused_and_the_next_is_served(memory, engine, step_by_step):
    """A prompt of 3000 in a pool of 1600 tokens, then one of 100."""
    load = workload.from_arrays([0.0, 0.1], [3000, 100], [10, 10])
    run = simulate(load, memory=memory, engine=engine, capacity=1600, step_by_step=step_by_step)
    frame = run.requests
    if memory == "max:8192":
        assert list(frame["outcome"]) == ["refused", "refused"]
        assert "8192 tokens of KV cache, the whole pool has 1600" in frame["reason"][1]
        return
    assert list(frame["outcome"]) == ["refused", "finished"]
    assert "1600" in frame["reason"][0] and not frame["reason"][1]
    assert np.isnan(frame["admitted"][0]) and np.isnan(frame["ttft"][0])
    assert run.summary(SLO())["slo_of_submitted"] == 0.5
    assert run.summary(SLO())["slo_of_finished"] == 1.0


def test_all_refused_is_no_data_not_zero():
    run = simulate(workload.fixed(n=5, rate=1.0, prompt=3000, output=10), capacity=1600, memory="oracle")
    summary = run.summary(SLO())
    assert summary["refused"] == 5 and summary["finished"] == 0
    for key in ("ttft_p50_s", "ttft_p99_s", "tpot_mean_s", "itl_p99_s", "e2e_p50_s", "mean_batch", "slo_of_finished"):
        assert math.isnan(summary[key]), key
    assert summary["slo_of_submitted"] == 0
    assert len(run.steps) == 0 and len(run.token_times(0)) == 0
    assert goodput(workload.fixed(n=5, rate=1.0, prompt=3000, output=10), capacity=1600, memory="oracle").rate == 0


def test_one_token_outputs_have_no_tpot():
    load = workload.from_arrays([0.0, 0.0, 0.0], [10, 10, 10], [1, 1, 5])
    run = simulate(load)
    assert list(np.isnan(run.requests["tpot"])) == [True, True, False]
    summary = run.summary(SLO())
    assert summary["tpot_mean_s"] == pytest.approx(run.requests["tpot"][2])
    assert summary["slo_of_submitted"] == 1
    _values, weights = run.itl()
    assert weights.sum() == 4
    alone = simulate(load.head(2)).summary(SLO())
    assert math.isnan(alone["tpot_p50_s"]) and math.isnan(alone["itl_max_s"])


def test_hopeless_overload_ends_quickly():
    start = time.perf_counter()
    run = simulate(workload.chat(n=2000, rate=1e9, seed=1), max_bs=1, memory="unlimited")
    assert (run.requests["outcome"] == "finished").all()
    assert time.perf_counter() - start < 30


def test_a_custom_order_is_a_function_of_the_request():
    load = workload.from_arrays([0.0] * 4, [10, 40, 20, 30], [5] * 4)
    run = simulate(load, max_bs=1, order=lambda request: -request.prompt)
    assert list(np.argsort(run.requests["admitted"])) == [1, 3, 2, 0]


def test_attainment_agrees_with_the_whole_summary():
    for options in (dict(), dict(memory="oracle", max_bs=8), dict(engine="static", max_bs=4)):
        run = simulate(workload.chat(n=200, rate=40.0, seed=3), **options)
        for slo in (
            SLO(),
            SLO(0.1, 0.01),
            SLO(None, 0.02),
            SLO(1.0, None),
            SLO(1.0, 0.05, itl=0.03),
            SLO(None, None, e2e=2.0),
        ):
            assert run.attainment(slo) == run.summary(slo)["slo_of_submitted"]


def test_goodput_brackets_its_rate():
    load = workload.chat(n=300, rate=1.0, seed=0)
    found = goodput(load, SLO())
    assert found.low == found.rate < found.high <= found.low * 1.02
    assert found.attainment_low >= 0.9 > found.attainment_high
    low, high = (simulate(load.at_rate(rate)).attainment(SLO()) for rate in (found.low, found.high))
    assert low >= 0.9 > high
    assert goodput(load, SLO(1e-9, 0.05)).rate == 0
    assert goodput(load.head(3), SLO(60, 1)).rate == math.inf


def test_command_line(capsys, tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0.5,100,20\n0.7,50,1\n")
    assert main(["run", "--trace", str(trace), "--json", "--requests", str(tmp_path / "out.csv")]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["finished"] == 2 and summary["tpot_mean_s"] > 0
    assert (tmp_path / "out.csv").read_text().count("\n") == 3
    assert main(["run", "--n", "50"]) == 0
    out = capsys.readouterr().out
    assert "finished within the SLO / duration" in out and "no data" not in out
    assert main(["run", "--rate", "-3"]) == 2
    assert "--rate = -3.0: must be above 0" in capsys.readouterr().err
    assert main(["run", "--trace", str(tmp_path / "none.csv")]) == 2
    trace.write_text("arrival_s,prompt_tokens\n0.5,100\n")
    assert main(["run", "--trace", str(trace)]) == 2
    assert "output_tokens" in capsys.readouterr().err
