"""Lab of chapter 13: an open and a closed loop with the same nominal rate, with bands over seeds."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from labcode import simulate
from labcode.course.chapter13 import closed
from labcode.experiments.saturation import drain_rate
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.results.metrics import percentile
from labcode.workload import Workload, unit_arrivals
from labcode.workload.synthetic import assemble, streams

PLACES = 8
ENGINE = {"memory": "paged:16", "watermark": 0.01, "max_bs": PLACES}
SHARES = (0.6, 0.9, 1.2, 1.6)
SEEDS = range(5)


def load_of(n: int, rate: float, seed: int) -> Workload:
    """Return Poisson arrivals of short requests: prompts of 50 ... 200, answers of 10 ... 60 tokens, both uniform."""
    lengths, gaps = streams(seed)
    prompt, output = (lengths.integers(low, high, n, endpoint=True) for low, high in ((50, 200), (10, 60)))
    return assemble("short", rate, unit_arrivals("poisson", n, gaps), prompt, output)


@lru_cache(maxsize=1)
def pace() -> float:
    """Return the drain rate, requests/s."""
    return drain_rate(load_of(1000, 1.0, 0), **ENGINE)  # type: ignore[arg-type]


@lru_cache(maxsize=512)
def both(share: float, think: float, n: int, seed: int) -> tuple[float, float, float]:
    """Return P99 of the TTFT (s) in the open loop and in the closed one, and the rate that came in the latter (1/s)."""
    rate = share * pace()
    load = load_of(n, rate, seed)
    opened = simulate(load, **ENGINE).requests  # type: ignore[arg-type]
    users = closed(load, max(1, round(rate * think)), think, seed, PLACES)
    came = (len(users) - 1) / (users["arrival"].max() - users["arrival"].min())
    return percentile(opened["ttft"], 99), percentile(users["ttft"], 99), float(came)


def compute(think: float, n: int) -> Result:
    """Put both loops on the engine at four nominal rates."""
    found = np.array([[both(share, think, int(n), seed) for seed in SEEDS] for share in SHARES])
    middle, low, high = np.median(found, axis=1), found.min(axis=1), found.max(axis=1)

    def curve(k: int, name: str, role: str, scale: float = 1.0) -> tuple[Series, Series]:
        y, least, most = (tuple((scale * part[:, k]).tolist()) for part in (middle, low, high))
        return (
            Series(f"{name}: five seeds", "band", SHARES, least, most, role=role),
            Series(name, "line", SHARES, y, role=role),
        )

    share = Axis("Nominal rate / drain rate")
    tails = Panel(
        "tails",
        "P99 of the TTFT",
        share,
        Axis("P99 of the TTFT", "s", "log"),
        (*curve(0, "open loop", "ours"), *curve(1, "closed loop", "baseline")),
        (Mark("vline", 1.0, "drain rate"),),
        f"At {SHARES[2]:g} times the drain rate: open {low[2, 0]:.2g} to {high[2, 0]:.2g} s, closed {low[2, 1]:.2g} to "
        f"{high[2, 1]:.2g} s over five seeds.",
    )
    rates = Panel(
        "rates",
        "What arrives in the closed loop",
        share,
        Axis("Rate of arrivals / drain rate"),
        (*curve(2, "closed loop", "baseline", 1 / pace()), Series("nominal", "line", SHARES, SHARES, role="muted")),
        (Mark("hline", 1.0, "drain rate"),),
        f"Of a nominal {SHARES[-1]:g} times the drain rate, {middle[-1, 2] / pace():.2f} times arrive.",
    )
    return Result(
        (tails, rates),
        f"{n:g} requests, {think:g} s of thinking: at {SHARES[-1]:g} times the drain rate the P99 of the TTFT is "
        f"{middle[-1, 0]:.2g} s in the open loop and {middle[-1, 1]:.2g} s in the closed one.",
    )


def _apart(result: Result, share: float) -> float:
    """Return how many times the open loop's tail is the closed one's."""
    tails = result.panel("tails")
    at = SHARES.index(share)
    return tails.curve("open loop").y[at] / tails.curve("closed loop").y[at]


LAB = Lab(
    "ch13-loops",
    "The same nominal rate, open and closed",
    (
        Control("think", "Mean think time", (1.0, 5.0), 5.0, "s"),
        Control("n", "Length of the test", (60, 200), 60, "requests"),
    ),
    compute,
    predict=Prediction(
        "As many users as give 1.6 times the drain rate if answers took no time; each thinks 1 s between answers. 200 "
        "requests. How much longer is the open loop's P99 of the TTFT, at the same nominal rate?",
        ("about the same", "twice, give or take", "four times or more"),
        right=lambda result: graded(
            _apart(result, 1.6),
            (1.4, "about the same"),
            (4.0, "twice, give or take"),
            beyond="four times or more",
        ),
        why=lambda result: result.panel("rates").text + " " + result.headline,
        reveal={"think": 1.0, "n": 200},
    ),
    numbers=("paper",),
)
