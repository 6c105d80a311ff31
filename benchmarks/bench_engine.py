"""Speed of the engine.  Asserted are ratios within one run; the times themselves are pytest-benchmark's to report."""

from __future__ import annotations

import pytest

from benchmarks.measure import field_runs, leaps, loads, scale_apart, search
from labcode import SLO, simulate, workload


@pytest.mark.parametrize("name", ["chat, 600 requests", "uniform trace, 2 requests/s", "uniform trace, 8 requests/s"])
def test_leaps(benchmark, name):
    if name not in loads():
        pytest.skip("the trace is not here (set LABCODE_SHARED_DATA to its folder)")
    load, options = loads()[name]
    benchmark(simulate, load, **options)
    found = leaps(load, options, repeat=4)
    benchmark.extra_info.update(found)
    assert found["stepping"] > 10 * found["compiled"]
    assert found["stepping"] > found["readable"]


@pytest.mark.parametrize("name", list(field_runs()))
def test_what_the_field_runs(benchmark, name):
    load, options, bound = field_runs()[name]
    benchmark(simulate, load, **options)
    assert benchmark.stats.stats.min < bound


@pytest.mark.parametrize("name", ["chat, 600 requests", "uniform trace, 2 requests/s"])
def test_step_by_step(benchmark, name):
    if name not in loads():
        pytest.skip("the trace is not here (set LABCODE_SHARED_DATA to its folder)")
    load, options = loads()[name]
    benchmark.pedantic(simulate, (load,), {**options, "step_by_step": True}, rounds=3)


@pytest.mark.parametrize("memory", ["oracle", "max:8192"])
def test_goodput_search(benchmark, memory):
    load = workload.chat(600, 16.0, 0)
    runs, made = benchmark.pedantic(search, (load, SLO()), {"memory": memory}, rounds=1)
    assert made <= 12
    assert runs <= 13, "12, and something for the noise of a busy machine"


def test_slider_state(benchmark):
    benchmark(lambda: simulate(workload.chat(600, 16.0, 0)).summary(SLO()))
    assert benchmark.stats.stats.min < 0.06


def test_cost_of_a_request_does_not_grow(benchmark):
    def sizes():
        return [scale_apart(n, repeat) for n, repeat in ((1_000, 60), (30_000, 15), (1_000_000, 5))]

    found = benchmark.pedantic(sizes, rounds=1)
    each = [(f["simulate"] + f["judge"]) / f["requests"] for f in found]
    assert max(each) < 1.8 * min(each), "1.5, and something for the noise of a busy machine"
    million = found[-1]
    assert sum(million[key] for key in ("draw", "simulate", "judge", "summarise")) < 30
    assert million["peak_bytes"] < 2**30
