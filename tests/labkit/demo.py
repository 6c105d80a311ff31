"""A lab for the tests: a queue that can be overloaded, with every kind of series and mark, quick to compute."""

from __future__ import annotations

import math

import numpy as np

from labcode.labkit.challenge import Challenge
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded

SERVICE = 0.05  # Seconds.


def mean_wait(rate: float, servers: int) -> float:
    """Return the mean time in an M/M/1 of `servers`-fold speed, NaN at overload."""
    rest = servers / SERVICE - rate
    return 1 / rest if rest > 0 else math.nan


def compute(rate: float, servers: int, order: str) -> Result:
    """Return four panels on a queue at `rate` requests a second."""
    rng = np.random.default_rng(0)
    wait, base = mean_wait(rate, servers), mean_wait(8, 1)
    rates = np.linspace(1, 60, 60)
    curve = [mean_wait(r, servers) for r in rates]
    marks = [Mark("hline", 0.25, "SLO 0.25 s"), Mark("vline", servers / SERVICE, "capacity")]
    if not math.isnan(wait):
        marks.append(Mark("point", (rate, wait), "now"))
    load = Panel(
        "load",
        "Time in system",
        Axis("Arrival rate", "req/s"),
        Axis("Mean time", "s", "log"),
        (
            Series("this setting", "line", rates, curve),
            Series("pinned: 1 server", "line", rates, [mean_wait(r, 1) for r in rates], role="baseline"),
        ),
        tuple(marks),
        f"The mean time is {wait:.3f} s." if wait == wait else "The queue grows without end.",
    )

    times = np.sort(rng.exponential(1.0, 400)) * (wait if wait == wait else 1)
    share = np.linspace(0, 1, 50)
    spread = np.quantile(times, share)
    tail = Panel(
        "tail",
        "Spread of the times",
        Axis("Share of requests", "%"),
        Axis("Time", "s"),
        (
            Series("nine in ten lie here", "band", share * 100, 0.5 * spread, 1.5 * spread, role="ours"),
            Series("median run", "step", share * 100, spread if wait == wait else np.full(50, np.nan), role="ours"),
            Series(
                "pinned: 8 req/s", "line", share * 100, -base * np.log(np.maximum(1 - share, 0.002)), role="baseline"
            ),
        ),
        (),
        f"One in a hundred waits longer than {np.quantile(times, 0.99):.2f} s.",
    )

    x = np.arange(12) * 5
    gain = {"fcfs": 1.0, "sjf": 0.6}[order]
    memory = Panel(
        "memory",
        "Requests in system over time",
        Axis("Time", "s"),
        Axis("Requests"),
        (
            Series("in system", "area", x, gain * np.cumsum(rng.poisson(2, 12)) * rate / 30, role="alt1"),
            Series("samples", "scatter", x, gain * rng.poisson(6, 12) * rate / 30, role="alt2"),
        ),
        (Mark("hline", 40, "ceiling 40"), Mark("hline", 38, "soft ceiling")),
        "The more there are, the longer each waits.",
    )

    names = ("short requests", "medium requests", "long requests")
    factors = np.array([0.3, 1.0, 3.0]) if order == "sjf" else np.ones(3)
    groups = Panel(
        "groups",
        "Who waits",
        Axis("Length"),
        Axis("Mean time", "s"),
        (
            Series("this setting", "bar", names, factors * (wait if wait == wait else math.nan)),
            Series("pinned: fcfs, 8 req/s", "bar", names, np.full(3, base), role="baseline"),
        ),
        (Mark("hline", 0.25, "SLO 0.25 s"),),
        "Shortest first moves the wait from the short to the long.",
    )
    steady = "is overloaded" if wait != wait else f"keeps up, {wait:.3f} s on average"
    return Result((load, tail, memory, groups), f"At {rate} req/s the queue {steady}.")


def _mean(result: Result) -> tuple[tuple[float, ...], tuple[float, ...]]:
    curve = result.panel("load").curve("this setting")
    return curve.x, curve.y


LAB = Lab(
    "ch00-demo",
    "A queue that can be overloaded · 排队",
    (
        Control("rate", "Arrival rate", tuple(range(2, 42, 2)), 16, "req/s"),
        Control("servers", "Servers", (1, 2, 3), 1),
        Control("order", "Order", ("fcfs", "sjf"), "fcfs", format={"fcfs": "first come", "sjf": "shortest first"}.get),
    ),
    compute,
    predict=Prediction(
        "At which rate does the mean time of one server pass 0.25 s?",
        ("near 10 req/s", "near 13 req/s", "near 16 req/s"),
        right=lambda result: graded(
            next(x for x, y in zip(*_mean(result), strict=True) if y > 0.25),
            (11.5, "near 10 req/s"),
            (14.5, "near 13 req/s"),
            beyond="near 16 req/s",
        ),
        why=lambda result: f"At 18 req/s: {result.panel('load').text}",
        reveal={"rate": 18},
    ),
    numbers=("arithmetic",),
    presets={"overload": {"rate": 40}, "two, shortest first": {"servers": 2, "order": "sjf"}},
    challenge=Challenge(
        "Keep the mean time below 0.3 s at 36 req/s with two servers.",
        lambda params, result: params["rate"] == 36 and params["servers"] == 2 and mean_wait(36, 2) < 0.3,
    ),
    alt=lambda result, params: f"Four charts of a queue at {params['rate']} requests a second. {result.headline}",
)
