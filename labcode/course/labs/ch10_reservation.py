"""Lab of chapter 10: reservations against pages, with and without a watermark, at equal memory."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from labcode import simulate, workload
from labcode.course.labs.shared_panels import Compared, over_time, said
from labcode.experiments.saturation import drain_rate
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.words import counted, percent
from labcode.results.metrics import percentile
from labcode.results.run import Run

WAYS: dict[str, dict[str, Any]] = {
    "max:8192": {"memory": "max:8192"},
    "declared": {"memory": "declared"},
    "pow2": {"memory": "pow2"},
    "oracle": {"memory": "oracle"},
    "pages": {"memory": "paged:16"},
    "pages, 1 % kept free": {"memory": "paged:16", "watermark": 0.01},
    "pages, 10 % kept free": {"memory": "paged:16", "watermark": 0.10},
}
COSTS = ("paper", "smooth", "measured")
LOADS = (0.7, 0.9, 1.0, 1.2)


@cache
def pace(way: str, cost: str) -> float:
    """Return the drain rate on the long-context load, requests/s: 1,500 requests, seed 0, an A100."""
    load = workload.long_context(n=1500, rate=1.0, seed=0)
    return drain_rate(load, gpu="a100-80", cost=cost, **WAYS[way])


@cache
def serve(way: str, load: float, cost: str) -> Run:
    """Serve 600 of those requests at a share `load` of what the oracle keeps up with."""
    requests = workload.long_context(n=600, rate=1.0, seed=0).at_rate(load * pace("oracle", cost))
    return simulate(requests, gpu="a100-80", cost=cost, **WAYS[way])


def compute(way: str, load: float, cost: str) -> Result:
    """Serve the same requests under this policy and under the oracle's reservation."""
    run, base = serve(way, load, cost), serve("oracle", load, cost)
    paces = tuple(pace(name, cost) for name in WAYS)
    segments, pool = run.record.segments, run.record.capacity
    length = segments["end"] - segments["start"]
    taken, written = segments["kv_reserved"] / pool, run.kv_used_mean() / pool
    share = float(np.sum(written * length) / np.sum(taken * length))
    preempted = int(run.record.preemptions.sum())
    again = float(run.record.recomputed.sum() / (run.load.prompt + run.load.output).sum())
    waits = percentile(run.record.first_token - run.load.arrival, 50)
    bars = Panel(
        "pace",
        "What the engine keeps up with, by policy",
        Axis("Policy"),
        Axis("Drain rate", "requests/s", limits=(0, 5)),
        (Series("drain rate", "bar", tuple(WAYS), paces),),
        marks=(Mark("hline", pace("oracle", cost), "oracle"),),
        text=f"This policy keeps up with {pace(way, cost):.2f} requests/s, the oracle with {pace('oracle', cost):.2f}.",
    )
    memory = Panel(
        "memory",
        "KV cache taken and written",
        Axis("Time", "s"),
        Axis("Share of the pool", limits=(0, 1.1)),
        (
            Series("taken", "line", *over_time(run, taken)),
            Series("written", "line", *over_time(run, written), role="alt1"),
        ),
        marks=(Mark("hline", 1.0, "the whole pool"),),
        text=f"Of what is taken {percent(share)} is written.",
    )
    both = Compared(run, base, "this policy", "pinned: oracle")
    return Result(
        (bars, memory, both.ttft_panel(f"Median {said(waits)}.", limit=2.0)),
        f"{way[0].upper() + way[1:]} at {100 * load:.0f} % of the oracle's pace: {counted(preempted, 'preemptions')} "
        f"among 600 requests, {percent(again, 1)} of the work done again, median TTFT {said(waits)}.",
    )


def _against_the_oracle(result: Result) -> float:
    """Return the drain rate of bare pages over the oracle's."""
    bars = result.panel("pace").curve("drain rate")
    return bars.at("pages") / bars.at("oracle")


LAB = Lab(
    "ch10-reservation",
    "Promised, or handed out",
    (
        Control("way", "Memory", tuple(WAYS), "declared"),
        Control("load", "Load, of the oracle's pace", LOADS, 0.9, "", percent),
        Control("cost", "Step times", COSTS, "measured"),
    ),
    compute,
    predict=Prediction(
        "Pages hand out 16 tokens at a time, an oracle reserves exactly what each request will use; the pool is the "
        "same, and there is always somebody waiting. Who keeps up with more?",
        ("the pages, by over 3 %", "neither, within 3 %", "the oracle, by over 3 %"),
        right=lambda result: graded(
            _against_the_oracle(result),
            (0.97, "the oracle, by over 3 %"),
            (1.03, "neither, within 3 %"),
            beyond="the pages, by over 3 %",
        ),
        why=lambda result: f"{result.panel('pace').text} {result.headline}",
        reveal={"way": "pages", "load": 1.2},
    ),
    numbers=("paper",),
)
