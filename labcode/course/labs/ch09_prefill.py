"""Lab of chapter 09: how prefill joins the decodes, and where the stall lands."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from labcode import simulate, workload
from labcode.course.labs.shared_panels import Compared, said
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.words import percent
from labcode.results.metrics import SLO, percentile, weighted_percentile
from labcode.results.run import Run

GOAL = SLO(ttft=1.0, tpot=0.050)
MODES: dict[str, dict[str, Any]] = {
    "mixed": {"prefill": "mixed"},
    "prefill first": {"prefill": "prefill_first"},
    "chunks, budget 256": {"prefill": "chunked", "token_budget": 256},
    "chunks, budget 512": {"prefill": "chunked", "token_budget": 512},
    "chunks, budget 1024": {"prefill": "chunked", "token_budget": 1024},
}


@cache
def serve(rate: float, mode: str) -> Run:
    """Serve 600 chat requests with oracle reservation."""
    return simulate(workload.chat(n=600, rate=1.0, seed=1).at_rate(rate), memory="oracle", **MODES[mode])


def longest_steps(run: Run, intervals: int = 40) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return times (s) and the longest gap between two tokens of anybody that ends in each interval of the arrivals."""
    ends = run.decode_ends
    gaps = np.diff(ends, prepend=ends[0])
    last = float(run.load.arrival[-1])
    edges = np.linspace(0, last, intervals + 1)
    place = np.digitize(ends, edges) - 1
    tallest = [float(gaps[place == i].max(initial=0.0)) for i in range(intervals)]
    return tuple((edges[:-1] + edges[1:]) / 2), tuple(tallest)


def compute(rate: float, mode: str) -> Result:
    """Serve the same requests with prefill joining this way, and mixed."""
    run, base = serve(rate, mode), serve(rate, "mixed")
    p99, longest = (weighted_percentile(*run.itl(), q) for q in (99, 100))
    median = percentile(run.record.first_token - run.load.arrival, 50)
    both = Compared(run, base, "this way", "pinned: mixed")
    itl = both.itl_panel(f"P99 {said(p99)}, longest {said(longest)}.")
    ttft = both.ttft_panel(f"Median {said(median)}.")
    stalls = Panel(
        "stalls",
        "The longest pause, as time goes by",
        Axis("Time", "s"),
        Axis("Longest gap between two tokens", "s"),
        (
            Series("this way", "line", *longest_steps(run)),
            Series("pinned: mixed", "line", *longest_steps(base), role="baseline"),
        ),
        marks=(Mark("hline", GOAL.tpot, "50 ms"),),
        text="Every peak is somebody's prompt that others wait for.",
    )
    return Result(
        (itl, ttft, stalls),
        f"{mode.capitalize()} at {rate:g} requests/s: ITL P99 {said(p99)}, longest pause {said(longest)}, "
        f"median TTFT {said(median)}, {percent(run.attainment(GOAL))} within the SLO.",
    )


def _median(result: Result, name: str) -> float:
    """Return the median TTFT that a curve shows, s."""
    curve = result.panel("ttft").curve(name)
    return float(curve.x[curve.y.index(0.5)])


LAB = Lab(
    "ch09-prefill",
    "Where the stall lands",
    (
        Control("rate", "Arrival rate", (4, 8, 16, 24, 32, 40, 48, 64), 40, "requests/s"),
        Control("mode", "Prefill joins", tuple(MODES), "prefill first"),
    ),
    compute,
    predict=Prediction(
        "Prompts go first, alone in a step, instead of sharing the decode steps. At 48 requests/s, what does that do "
        "to the newcomers' median TTFT?",
        ("it falls", "nothing", "it rises"),
        right=lambda result: graded(
            _median(result, "this way") / _median(result, "pinned: mixed"),
            (0.97, "it falls"),
            (1.03, "nothing"),
            beyond="it rises",
        ),
        why=lambda result: (
            f"It is {said(_median(result, 'this way'))} instead of "
            f"{said(_median(result, 'pinned: mixed'))}. The pauses "
            f"of the others: {result.panel('itl').text}"
        ),
        reveal={"rate": 48, "mode": "prefill first"},
    ),
    scaled_by=("rate",),
    numbers=("paper",),
    presets={
        "prompts first": {"mode": "prefill first"},
        "small chunks": {"mode": "chunks, budget 256"},
    },
)
