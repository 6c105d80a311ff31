"""Lab of chapter 12: shortest first with and without ageing, below and above what the engine can bear."""

from __future__ import annotations

from functools import cache

import numpy as np

from labcode.course.evidence.fairness import MANY, mixed_lengths, waits
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.results.metrics import percentile

RATES = {"shortest first": 0.0, "aged by 0.5": 0.5, "aged by 1": 1.0, "aged by 5": 5.0, "first come": float("inf")}
N = 2000
DRAW = 2


@cache
def waited(rho: float, order: str) -> tuple[np.ndarray, np.ndarray]:
    """Return waits (s) and who is long."""
    return waits(rho, RATES[order], N, DRAW)


def compute(rho: float, order: str) -> Result:
    """Serve the same 2,000 requests, one in fifty of them long, in this order and first come, first served."""
    (mine, long), (base, _) = waited(rho, order), waited(rho, "first come")
    arrival = mixed_lengths(rho, N, DRAW).arrival
    bins = np.linspace(0, arrival[-1], 21)
    place = np.clip(np.searchsorted(bins, arrival, "right") - 1, 0, 19)
    middle = tuple(((bins[1:] + bins[:-1]) / 2).tolist())

    def worst(values: np.ndarray, who: np.ndarray) -> tuple[float, ...]:
        return tuple(float(values[who & (place == k)].max(initial=0.0)) for k in range(20))

    over = Panel(
        "time", "The longest wait, by time of arrival", Axis("Time of arrival", "s"), Axis("Wait", "s"),
        (Series("long requests", "line", middle, worst(mine, long)),
         Series("short requests", "line", middle, worst(mine, ~long), role="alt1"),
         Series("pinned: first come, first served, all", "line", middle, worst(base, long | True), role="baseline")),
        text=f"Of the long requests, the unluckiest waits {mine[long].max():.0f} s; first come, first served "
             f"{base[long].max():.0f} s.",
    )  # fmt: skip
    names = ("mean", "P99, short", "longest, short", "longest, long")

    def figures(values: np.ndarray) -> tuple[float, ...]:
        short = values[~long]
        return (float(values.mean()), percentile(short, 99), float(short.max()), float(values[long].max()))

    bars = Panel(
        "waits", "Waits", Axis("Of all requests"), Axis("Wait", "s"),
        (Series("this order", "bar", names, figures(mine)),
         Series("pinned: first come, first served", "bar", names, figures(base), role="baseline")),
        marks=(Mark("hline", float(MANY), f"a long answer takes {MANY} s"),),
        text=f"On average {mine.mean():.0f} s, first come, first served {base.mean():.0f} s.",
    )  # fmt: skip
    return Result(
        (over, bars),
        f"{order[0].upper()}{order[1:]} at {rho:g} of what drains: {mine.mean():.0f} s on average, at most "
        f"{mine[long].max():.0f} s for the long.",
    )


def _times(result: Result) -> float:
    bars = result.panel("waits")
    ours, base = (bars.curve(n).at("longest, long") for n in ("this order", "pinned: first come, first served"))
    return ours / max(base, 1.0)


LAB = Lab(
    "ch12-starvation", "Starvation, and what ageing can do about it",
    (Control("rho", "Load, over what drains", (0.7, 0.8, 0.9, 0.95, 1.1, 1.3), 0.95),
     Control("order", "Order", tuple(RATES), "first come")),
    compute,
    predict=Prediction(
        "At 95 % of what drains, the shortest goes first. How much longer does the unluckiest long request wait than "
        "first come, first served?",
        ("no longer", "up to twice as long", "several times as long"),
        right=lambda result: graded(
            _times(result), (1.2, "no longer"), (2.0, "up to twice as long"), beyond="several times as long"),
        why=lambda result: result.panel("time").text,
        reveal={"order": "shortest first"},
    ),
    scaled_by=("rho",),
    numbers=("arithmetic",),
)  # fmt: skip
