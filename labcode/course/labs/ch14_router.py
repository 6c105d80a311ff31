"""Lab of chapter 14: one to 64 replicas at equal load, and who decides which of them a request goes to."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from labcode import workload
from labcode.cluster import ClusterRun, simulate_cluster
from labcode.course.labs.shared_panels import distribution, said, shares
from labcode.experiments.saturation import drain_rate
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.words import counted, percent
from labcode.results.metrics import percentile

SETTING: dict[str, Any] = {"memory": "oracle", "max_bs": 4}
ROUTERS = ("random", "round robin", "two choices", "fewest requests")
NAMES = dict(zip(ROUTERS, ("random", "round_robin", "power_of_two", "least_requests"), strict=True))
LIMIT = 0.5  # s


@cache
def capacity() -> float:
    """Return what one replica can work off, in requests/s."""
    return drain_rate(workload.orca_paper(n=2000, seed=0), **SETTING)


@cache
def serve(router: str, replicas: int, load: float) -> ClusterRun:
    """Serve the requests of Orca's paper at a share of the fleet's drain rate: at least 60 for each replica."""
    requests = workload.orca_paper(n=max(1600, 60 * replicas), seed=1).at_rate(load * capacity() * replicas)
    return simulate_cluster(requests, replicas, NAMES[router], router_seed=1, **SETTING)


def ttft(run: ClusterRun) -> np.ndarray:
    """Return everybody's time to first token, in seconds."""
    return run.requests["ttft"].to_numpy()


def compute(router: str, replicas: int, load: float) -> Result:
    """Compare this router with lots drawn for the same requests, and the fleet with a single replica."""
    here, lots, alone = serve(router, replicas, load), serve("random", replicas, load), serve("random", 1, load)
    waits, by_lot = ttft(here), ttft(lots)
    p50, p99, p99_lots = percentile(waits, 50), percentile(waits, 99), percentile(by_lot, 99)
    lines = [distribution(values) for values in (waits, by_lot, ttft(alone))]
    first = Panel(
        "ttft",
        "Time to first token, request by request",
        Axis("TTFT", "s", "log"),
        Axis("Share of requests", limits=(0, 1)),
        (
            Series("this fleet", "line", lines[0], shares(lines[0])),
            Series("the same fleet, by lot", "line", lines[1], shares(lines[1]), role="baseline"),
            Series("one replica", "line", lines[2], shares(lines[2]), role="muted"),
        ),
        marks=(Mark("vline", LIMIT, f"{1000 * LIMIT:.0f} ms"),),
        text=f"P99 is {said(p99)} with {router}, {said(p99_lots)} by lot and {said(percentile(ttft(alone), 99))} "
        "with a single replica.",
    )
    ranks = tuple(float(i) for i in (np.arange(replicas) + 0.5) / replicas)
    got = [tuple(float(share) * replicas for share in np.sort(one.shares())[::-1]) for one in (here, lots)]
    spread = Panel(
        "shares",
        "What each replica got",
        Axis("Replicas, the busiest first", limits=(0, 1)),
        Axis("Tokens, mean of all = 1", limits=(0, 2.5)),
        (
            Series("this fleet", "scatter", ranks, got[0]),
            Series("by lot", "scatter", ranks, got[1], role="baseline"),
        ),
        marks=(Mark("hline", 1.0, "an equal share"),),
        text=f"The busiest replica got {got[0][0]:.2f} of an equal share of tokens, by lot {got[1][0]:.2f}.",
    )
    late = float((waits > LIMIT).mean())
    return Result(
        (first, spread),
        f"{counted(replicas, 'replicas')} at {percent(load)} of what they can work off, {router}: TTFT median "
        f"{said(p50)}, P99 {said(p99)}; {percent(late)} of the requests wait longer than {1000 * LIMIT:.0f} ms.",
    )


def _tail(result: Result, name: str) -> float:
    """Return the P99 of TTFT of a series, in seconds."""
    curve = result.panel("ttft").curve(name)
    return curve.x[curve.y.index(0.99)]


LAB = Lab(
    "ch14-router",
    "Who gets the next request?",
    (
        Control("router", "Router", ROUTERS, "random"),
        Control("replicas", "Replicas", (1, 2, 4, 8, 16, 32, 64), 1),
        Control("load", "Load", (0.7, 0.9), 0.9, "of the drain rate", "{:.1f}".format),
    ),
    compute,
    predict=Prediction(
        "Sixteen replicas take sixteen times the requests of one, dealt out by lot. What becomes of the P99 of TTFT?",
        ("it grows to twice as much or more", "hardly anything", "it falls to a half", "it falls to a tenth"),
        right=lambda result: graded(
            _tail(result, "this fleet") / _tail(result, "one replica"),
            (0.15, "it falls to a tenth"),
            (0.7, "it falls to a half"),
            (1.5, "hardly anything"),
            beyond="it grows to twice as much or more",
        ),
        why=lambda result: (
            f"{result.panel('ttft').text} Each replica sees arrivals as irregular as before; "
            "that another one is idle helps nobody whose lot fell on a busy one."
        ),
        reveal={"replicas": 16},
    ),
    numbers=("paper",),
)
