"""How long the engine takes: `make bench`. A lab redraws while a slider moves, so 600 requests stay far below 60 ms."""

from __future__ import annotations

from typing import Any

import pytest

from labcode import SLO, goodput, hardware, simulate, workload

SLIDER = 0.060    # seconds that a lab may spend on one setting


@pytest.mark.benchmark(group="simulate")
@pytest.mark.parametrize("rate", [4.0, 16.0, 64.0])
@pytest.mark.parametrize("engine", ["static", "continuous"])
def test_600_requests(benchmark: Any, engine: str, rate: float) -> None:
    load = workload.chat(n=600, rate=rate, seed=0)
    run = benchmark(simulate, load, engine=engine)
    assert len(run.requests) == 600
    assert benchmark.stats.stats.median < SLIDER


@pytest.mark.benchmark(group="simulate")
def test_10000_requests(benchmark: Any) -> None:
    load = workload.chat(n=10_000, rate=32.0, seed=0)
    run = benchmark.pedantic(simulate, (load,), {"memory": "oracle"}, rounds=3)
    assert len(run.requests) == 10_000


@pytest.mark.benchmark(group="metrics")
def test_summary_of_600_requests(benchmark: Any) -> None:
    run = simulate(workload.chat(n=600, rate=16.0, seed=0))
    seen = benchmark(run.summary, slo=SLO(ttft=1.0, tpot=0.05))
    assert seen["submitted"] == 600
    assert benchmark.stats.stats.median < SLIDER


@pytest.mark.benchmark(group="goodput")
def test_goodput_by_bisection(benchmark: Any) -> None:
    load = workload.chat(n=600, rate=1.0, seed=0)
    found = benchmark.pedantic(goodput, (load, SLO(ttft=1.0, tpot=0.05)), {"memory": "oracle"}, rounds=3)
    assert found.rate > 0


@pytest.mark.benchmark(group="hardware")
def test_price_of_a_step(benchmark: Any) -> None:
    model, gpu = hardware.model("llama3-8b"), hardware.gpu("h100")
    works = [hardware.SeqWork(1, 1024)] * 256
    assert benchmark(hardware.step_cost, model, gpu, works).time > 0
