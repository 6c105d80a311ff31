"""Lab of chapter 13: one stall, as an open test, a closed one and a corrected one see it."""

from __future__ import annotations

import numpy as np

from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.loadtest.stalls import on_paper
from labcode.results.metrics import percentile, weighted_percentiles

SERVICE, SECONDS = 0.010, 60.0
QS = (50, 75, 90, 95, 97.5, 99, 99.5, 99.9)
ROLES = {"open": "ours", "corrected": "alt1", "closed": "baseline"}


def compute(stall: float, interval: float) -> Result:
    """Meet the stall in each of the three ways."""
    views = on_paper(interval, SERVICE, stall, SECONDS)
    beyond = tuple(100 / (100 - q) for q in QS)
    curves = tuple(
        Series(name, "line", beyond, tuple(1000 * v for v in weighted_percentiles(views[name], None, QS)), role=role)
        for name, role in ROLES.items()
    )
    late = {name: int((views[name] > 0.1).sum()) for name in ROLES}
    tails = Panel(
        "tail",
        "The tail of the latency",
        Axis("One request in", "", "log"),
        Axis("Latency at least", "ms", "log"),
        curves,
        marks=(Mark("vline", 100, "P99"),),
        text=f"P99: open {percentile(views['open'], 99):.3g} s, closed {percentile(views['closed'], 99):.3g} s.",
    )
    counts = Panel(
        "late",
        "Requests later than 0.1 s",
        Axis("View", ""),
        Axis("Requests", ""),
        (Series("requests", "bar", tuple(late), tuple(map(float, late.values()))),),
        text=", ".join(f"{name}: {count}" for name, count in late.items()) + ".",
    )
    return Result(
        (tails, counts),
        f"A stall of {stall:g} s in a minute, a request wanted every {1000 * interval:g} ms: the closed client records "
        f"{late['closed']} late, {late['open']} were.",
    )


def _missed(result: Result) -> float:
    """Return how many late requests there are for each that the closed client records."""
    counts = result.panel("late").series[0]
    by_name = dict(zip(counts.x, counts.y, strict=True))
    return float(np.divide(by_name["open"], max(1.0, by_name["closed"])))


LAB = Lab(
    "ch13-omission",
    "One stall, three tails",
    (
        Control("stall", "Length of the stall", (0.0, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0), 2.0, "s"),
        Control("interval", "A request wanted every", (0.02, 0.05, 0.1, 0.2), 0.1, "s"),
    ),
    compute,
    predict=Prediction(
        "A server answers in 10 ms, and stands still once for 2 s. A client wants to send every 100 ms and waits for "
        "each answer. For each late answer that it records, how many requests were late in truth?",
        ("1", "about 5", "about 20", "about 200"),
        right=lambda result: graded(_missed(result), (2.5, "1"), (10, "about 5"), (60, "about 20"), beyond="about 200"),
        why=lambda result: result.headline,
    ),
    scaled_by=("stall", "interval"),
    numbers=("arithmetic",),
)
