"""Chapter 3: what utilisation does to the mean and to the tail, for five queues with the same mean service
time."""

from __future__ import annotations

from functools import cache

import numpy as np

from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.queueing import MD1, MG1, MM1, MMc, mg1_tail
from labcode.queueing.closed_forms import quantile_of_tail

SERVICE = 0.010  # mean service time in seconds; the chapter's 100 requests/s
SCV = 4.0
GRID = tuple(round(x, 3) for x in (*np.arange(0.1, 0.9, 0.05), 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98))
QUEUES = ("M/M/1", "M/D/1", "M/G/1, spread service", "M/M/4, four slow servers")


def _spread(z: np.ndarray) -> np.ndarray:
    """Transform of a gamma service time with mean SERVICE and squared coefficient of variation SCV."""
    return (1 + SCV * SERVICE * z) ** (-1 / SCV)


def _tail(queue: str, rho: float, t: float) -> float:
    rate = rho / SERVICE
    if t <= 0:
        return 1.0
    if queue == "M/M/1":
        return MM1(rate, 1 / SERVICE).tail(t)
    if queue == "M/D/1":
        return MD1(rate, SERVICE).tail(t)
    if queue.startswith("M/G/1"):
        return mg1_tail(rate, _spread, SERVICE, t)
    return MMc(rate, 1 / (4 * SERVICE), 4).tail(t)  # four servers, each a quarter as fast


def _mean(queue: str, rho: float) -> float:
    rate = rho / SERVICE
    if queue.startswith("M/G/1"):
        return MG1(rate, SERVICE, SCV).W
    if queue.startswith("M/M/4"):
        return MMc(rate, 1 / (4 * SERVICE), 4).W
    return MM1(rate, 1 / SERVICE).W if queue == "M/M/1" else MD1(rate, SERVICE).W


@cache
def point(queue: str, rho: float) -> tuple[float, float]:
    """Mean and p99 of the sojourn time (s)."""
    mean = _mean(queue, rho)
    if queue == "M/D/1":
        return mean, MD1(rho / SERVICE, SERVICE).quantile(0.99)
    return mean, quantile_of_tail(lambda t: _tail(queue, rho, t), 0.99, mean)


def compute(rho: float, queue: str) -> Result:
    """Curves of mean and p99 over utilisation, and the tail at this one."""
    mean, p99 = point(queue, rho)
    base_mean, _ = point("M/M/1", rho)
    ms = 1000.0
    curve = [point(queue, r) for r in GRID]
    pinned = [point("M/M/1", r) for r in GRID]
    growth = Panel(
        "growth",
        "Time in the system against utilisation",
        Axis("Utilisation", limits=(0.0, 1.0)),
        Axis("Sojourn time", "ms", "log"),
        (
            Series("p99", "line", GRID, tuple(p * ms for _, p in curve), role="ours"),
            Series("mean", "line", GRID, tuple(m * ms for m, _ in curve), role="alt1"),
            Series("M/M/1 p99", "line", GRID, tuple(p * ms for _, p in pinned), role="baseline"),
            Series("M/M/1 mean", "line", GRID, tuple(m * ms for m, _ in pinned), role="muted"),
        ),
        marks=(
            Mark("point", (rho, p99 * ms), "here"),
            Mark("hline", SERVICE * ms, "mean service 10 ms"),
            Mark("vline", 1.0, "capacity"),
        ),
        text=f"At utilisation {rho:g} the mean is {mean * ms:.1f} ms and the p99 {p99 * ms:.0f} ms, "
        f"{p99 / mean:.1f} times the mean.",
    )
    grid = np.linspace(0, 1.3 * max(p99, base_mean * 4.7), 40)
    floor = 1e-4
    here = [_tail(queue, rho, float(t)) for t in grid]
    other = [_tail("M/M/1", rho, float(t)) for t in grid]
    tail = Panel(
        "tail",
        "Share of requests that take longer",
        Axis("Time", "ms"),
        Axis("Share beyond", "", "log", (floor, 1.0)),
        (
            Series(
                "this queue", "line", tuple(grid * ms), tuple(p if p >= floor else np.nan for p in here), role="ours"
            ),
            Series(
                "M/M/1", "line", tuple(grid * ms), tuple(p if p >= floor else np.nan for p in other), role="baseline"
            ),
        ),
        marks=(Mark("hline", 0.01, "1 in 100"), Mark("point", (p99 * ms, 0.01), "p99")),
        text=f"One request in a hundred takes longer than {p99 * ms:.0f} ms.",
    )
    spare = 1 / SERVICE * (1 - rho)
    return Result(
        (growth, tail),
        f"{queue} at utilisation {rho:g}: mean {mean * ms:.1f} ms, p99 {p99 * ms:.0f} ms, with {spare:.0f} "
        "requests/s to spare.",
    )


def _growth(result: Result) -> float:
    """Return by which factor the p99 grows from 80 % to 95 %."""
    p99 = result.panel("growth").curve("p99")
    return p99.at(0.95) / p99.at(0.8)


LAB = Lab(
    "ch03-utilisation",
    "Utilisation and the tail",
    (
        Control(
            "rho",
            "Utilisation",
            (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.92, 0.95, 0.97, 0.98),
            0.8,
            format="{:.2f}".format,
        ),
        Control("queue", "Queue", QUEUES, QUEUES[2]),
    ),
    compute,
    predict=Prediction(
        "Traffic goes from 80 % of capacity to 95 %: less than a fifth more. How much longer is the p99?",
        ("a fifth longer", "about twice as long", "about four times as long", "about twenty times as long"),
        right=lambda result: graded(
            _growth(result),
            (1.5, "a fifth longer"),
            (3, "about twice as long"),
            (8, "about four times as long"),
            beyond="about twenty times as long",
        ),
        why=lambda result: (
            f"It goes from {result.panel('growth').curve('p99').at(0.8):.0f} ms to "
            f"{result.panel('growth').curve('p99').at(0.95):.0f} ms, {_growth(result):.1f} times as long."
        ),
        reveal={"rho": 0.95},
    ),
    scaled_by=("rho",),
    numbers=("arithmetic",),
    presets={
        "one fast server": {"queue": "M/M/1"},
        "near the edge": {"rho": 0.98},
    },
)
