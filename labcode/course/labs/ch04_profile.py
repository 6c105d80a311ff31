"""Chapter 4: a latency profile and a target give a largest batch and a throughput."""

from __future__ import annotations

import numpy as np

from labcode.clipper.profiles import LatencyProfile
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.words import percent

PINNED = LatencyProfile(0.003, 0.0005)


def compute(fixed: float, per_input: float, slo: float) -> Result:
    """`fixed`, `per_input` and `slo` in milliseconds, as on the sliders."""
    profile = LatencyProfile(fixed / 1e3, per_input / 1e3)
    limit = profile.max_batch(slo / 1e3)
    sizes = np.unique(np.round(np.geomspace(1, 2000, 45)).astype(int))
    ms, pinned_ms = (np.array([p.latency(int(b)) * 1e3 for b in sizes]) for p in (profile, PINNED))
    qps, pinned_qps = (np.array([p.throughput(int(b)) for b in sizes]) for p in (profile, PINNED))
    x = Axis("Batch size", "", "log", (1.0, 2000.0))
    reachable = profile.throughput(limit) if limit else 0.0
    marks = (Mark("vline", limit, f"largest batch {limit}"),) if 0 < limit <= 2000 else ()
    latency = Panel(
        "latency",
        "Latency of a batch",
        x,
        Axis("Latency", "ms", "log", (0.5, 1e4)),
        (
            Series("this profile", "line", tuple(sizes), tuple(ms), role="ours"),
            Series("pinned: 3 + 0.5 B", "line", tuple(sizes), tuple(pinned_ms), role="baseline"),
        ),
        marks=(Mark("hline", slo, f"SLO {slo:g} ms"), *marks),
        text=f"The largest batch within {slo:g} ms is {limit}."
        if limit
        else f"Not even one input fits into {slo:g} ms.",
    )
    share = reachable * profile.per_input
    throughput = Panel(
        "throughput",
        "Throughput of batches back to back",
        x,
        Axis("Throughput", "inputs/s", "log", (50.0, 1e5)),
        (
            Series("this profile", "line", tuple(sizes), tuple(qps), role="ours"),
            Series("pinned: 3 + 0.5 B", "line", tuple(sizes), tuple(pinned_qps), role="baseline"),
        ),
        marks=(
            Mark("hline", 1 / profile.per_input, f"limit 1/b = {1 / profile.per_input:,.0f}/s"),
            *((Mark("point", (limit, reachable), "at the SLO"),) if 0 < limit <= 2000 else ()),
        ),
        text=f"At that batch {reachable:,.0f} inputs/s, {percent(share)} of what no target could prevent."
        if limit
        else "With no batch in time there is no throughput in time.",
    )
    if not limit:
        return Result((latency, throughput), f"{fixed:g} + {per_input:g} B ms: no batch meets {slo:g} ms.")
    gain = reachable / profile.throughput(1)
    return Result(
        (latency, throughput),
        f"{fixed:g} + {per_input:g} B ms within {slo:g} ms: batch {limit:,}, {reachable:,.0f} inputs/s, "
        f"{gain:.1f} times batch 1.",
    )


def _gain(result: Result) -> float:
    """Return the throughput at the target as a multiple of that at 20 ms."""
    latency, rate = (result.panel(key).curve("this profile") for key in ("latency", "throughput"))
    before = max(b for b, ms in zip(latency.x, latency.y, strict=True) if ms <= 20)
    return float(result.panel("throughput").marks[1].at[1]) / rate.at(before)


LAB = Lab(
    "ch04-profile",
    "Profile and SLO",
    (
        Control("fixed", "Fixed cost a", (0.5, 1.0, 2.0, 3.0, 6.0, 12.0), 3.0, "ms", "{:g}".format),
        Control("per_input", "Cost per input b", (0.03, 0.1, 0.5, 1.0, 2.0, 4.5), 2.0, "ms", "{:g}".format),
        Control("slo", "Latency target", (5.0, 10.0, 20.0, 50.0, 100.0), 20.0, "ms", "{:g}".format),
    ),
    compute,
    predict=Prediction(
        "The latency target rises from 20 ms to 50 ms. The largest batch nearly triples. What does the throughput do?",
        ("nothing", "it gains about a tenth", "it doubles", "it nearly triples, too"),
        right=lambda result: graded(
            _gain(result),
            (1.03, "nothing"),
            (1.5, "it gains about a tenth"),
            (2.3, "it doubles"),
            beyond="it nearly triples, too",
        ),
        why=lambda result: (
            f"{result.panel('latency').text} Throughput is {_gain(result):.2f} times that of the largest batch within "
            "20 ms: the fixed cost was already spread over many inputs."
        ),
        reveal={"slo": 50.0},
    ),
    numbers=("arithmetic",),
)
