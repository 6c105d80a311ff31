"""Lab of chapter 09: what six ways of handing out KV cache make of the same pool, under a long-context load."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from labcode import simulate, workload
from labcode.course.labs.shared_panels import over_time, running, said
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.words import percent
from labcode.results.metrics import SLO, percentile
from labcode.results.run import Run

GOAL = SLO(ttft=2.0, tpot=0.050)
#: Name -> (role, how memory is given out).
POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    "max:8192": ("baseline", {"memory": "max:8192"}),
    "declared": ("muted", {"memory": "declared"}),
    "pow2": ("alt1", {"memory": "pow2"}),
    "oracle": ("alt2", {"memory": "oracle"}),
    "blocks, watermark 1 %": ("ours", {"memory": "paged:16", "watermark": 0.01}),
    "unlimited": ("alt3", {"memory": "unlimited"}),
}
RATES = (2, 4, 6, 8, 10, 12, 14, 16)


@cache
def serve(rate: float, memory: str) -> Run:
    """Serve 600 long-context requests at a rate."""
    return simulate(workload.long_context(n=600, rate=1.0, seed=2).at_rate(rate), **POLICIES[memory][1])


def compute(rate: float, memory: str) -> Result:
    """Serve the same requests under this policy, and under the others for comparison."""
    run = serve(rate, memory)
    segments, pool = run.record.segments, run.record.capacity
    length = segments["end"] - segments["start"]
    held, written = segments["kv_reserved"] / pool, run.kv_used_mean() / pool
    time, taken_line = over_time(run, held)
    _, written_line = over_time(run, written)
    mean_held, mean_written = (float(np.average(column, weights=length)) for column in (held, written))
    unlimited = memory == "unlimited"
    memory_panel = Panel(
        "memory",
        "KV cache taken and written",
        Axis("Time", "s"),
        Axis("Share of the pool", limits=(0, 1.6)),
        (
            Series("taken", "line", () if unlimited else time, () if unlimited else taken_line),
            Series("written", "line", time, written_line, role="alt1"),
        ),
        marks=(Mark("hline", 1.0, "the whole pool"),),
        text=f"On average {percent(mean_written)} of the pool is written"
        + ("." if unlimited else f", {percent(mean_held)} is taken."),
    )
    batch = float(np.average(running(run), weights=length))
    batch_panel = Panel(
        "batch",
        "Sequences that run together",
        Axis("Time", "s"),
        Axis("Sequences", limits=(0, 260)),
        (
            Series("this policy", "line", *over_time(run, running(run))),
            Series(
                "pinned: 8192 each",
                "line",
                *over_time(serve(rate, "max:8192"), running(serve(rate, "max:8192"))),
                role="baseline",
            ),
        ),
        marks=(Mark("hline", 256, "places"),),
        text=f"{batch:.0f} sequences on average.",
    )
    share = run.attainment(GOAL)
    curves = tuple(
        Series(name, "line", RATES, tuple(serve(r, name).attainment(GOAL) for r in RATES), role=role)
        for name, (role, _) in POLICIES.items()
    )
    rate_panel = Panel(
        "goodput",
        "Within the SLO, by arrival rate",
        Axis("Arrival rate", "requests/s"),
        Axis("Share of submitted requests", limits=(0, 1.05)),
        curves,
        marks=(Mark("hline", 0.9, "goal 90 %"), Mark("point", (rate, share), "now")),
        text=f"{percent(share)} within TTFT 2 s and TPOT 50 ms. One draw, 600 requests.",
    )
    median = percentile(run.record.first_token - run.load.arrival, 50)
    return Result(
        (memory_panel, batch_panel, rate_panel),
        f"{memory[0].upper()}{memory[1:]} at {rate:g} requests/s: {batch:.0f} sequences together, "
        f"{percent(mean_written)} of the pool written, "
        f"median TTFT {said(median)}, {percent(share)} within the SLO.",
    )


def _written(result: Result) -> float:
    """Return what is written of what is taken, over the run."""
    memory = result.panel("memory")
    return float(np.sum(memory.curve("written").y) / np.sum(memory.curve("taken").y))


LAB = Lab(
    "ch09-reservation",
    "Taken is not used",
    (
        Control("rate", "Arrival rate", RATES, 8, "requests/s"),
        Control("memory", "KV reservation", tuple(POLICIES), "max:8192"),
    ),
    compute,
    predict=Prediction(
        "Prompts of about 2,000 tokens, answers of about 500, and 8192 tokens reserved for each. Of what is taken, "
        "what share ever holds anything, on average?",
        ("about 80 %", "about half", "about a quarter", "about 5 %"),
        right=lambda result: graded(
            _written(result),
            (0.12, "about 5 %"),
            (0.38, "about a quarter"),
            (0.65, "about half"),
            beyond="about 80 %",
        ),
        why=lambda result: f"{result.panel('memory').text} That is {percent(_written(result))} of what is taken.",
    ),
    scaled_by=("rate",),
    numbers=("paper",),
)
