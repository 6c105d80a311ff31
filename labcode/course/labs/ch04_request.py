"""Chapter 4: no batch is late, and yet requests are: the rest of the batch before, and their own."""

from __future__ import annotations

from functools import cache

import numpy as np

from labcode.clipper.delayed import DelayedRun
from labcode.course.evidence.clipper import CAPACITY, CLEAN, SLO, request_run
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.words import percent
from labcode.results.metrics import weighted_percentiles

ARRIVALS = ("evenly spaced", "Poisson, seed 0")
LOADS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
LARGEST, HALF = CLEAN.max_batch(SLO), CLEAN.max_batch(SLO / 2)
CAPS = (HALF, 24, LARGEST)
SHARES = (0.01, *np.linspace(0.05, 0.95, 37).tolist(), 0.97, 0.99, 1.0)
N = 8000


@cache
def run(load: float, cap: int, arrivals: str) -> DelayedRun:
    """Serve one draw at `load` of the capacity of largest batches."""
    return request_run(load * CAPACITY, cap, None if arrivals == ARRIVALS[0] else 0, N)


def curve(found: DelayedRun) -> tuple[float, ...]:
    """Return the latency (ms) that each of `SHARES` of the requests keeps."""
    return tuple(1e3 * x for x in weighted_percentiles(found.latency, None, [100 * share for share in SHARES]))


def compute(load: float, cap: int, arrivals: str) -> Result:
    """`load` as a share of the capacity of largest batches back to back."""
    here, pinned = run(load, cap, arrivals), run(0.5, LARGEST, ARRIVALS[1])
    largest = 1e3 * CLEAN.latency(int(here.batch.max()))
    late = here.late_share(SLO)
    requests = Panel(
        "requests",
        "Latency of a request, from arrival to the end of its batch",
        Axis("Latency", "ms", "log", (1.0, 2000.0)),
        Axis("Share of requests done by then", limits=(0.0, 1.0)),
        (
            Series("this setting", "line", curve(here), SHARES, role="ours"),
            Series("pinned: half load, cap 34", "line", curve(pinned), SHARES, role="baseline"),
        ),
        marks=(Mark("vline", 1e3 * SLO, "SLO 20 ms"), Mark("vline", largest, "longest batch")),
        text=f"{percent(late, 1)} of the requests take longer than 20 ms; the longest batch took {largest:.1f} ms.",
    )
    sweep = Panel(
        "late",
        "Late requests against the load",
        Axis("Load / capacity of batches of 34"),
        Axis("Share late", limits=(0.0, 1.0)),
        (
            Series("this cap", "line", LOADS, tuple(run(x, cap, arrivals).late_share(SLO) for x in LOADS)),
            Series(
                "pinned: cap 34, Poisson",
                "line",
                LOADS,
                tuple(run(x, LARGEST, ARRIVALS[1]).late_share(SLO) for x in LOADS),
                role="baseline",
            ),
        ),
        marks=(Mark("point", (load, late), "here"), Mark("vline", CLEAN.throughput(cap) / CAPACITY, f"cap {cap} full")),
        text=f"Batches of at most {cap} carry {percent(CLEAN.throughput(cap) / CAPACITY)} of that capacity.",
    )
    return Result(
        (requests, sweep),
        f"One draw of {N:,}: at {percent(load)} of capacity, cap {cap}, {percent(late, 1)} of the requests are late; "
        f"the longest batch takes {largest:.1f} ms.",
    )


LAB = Lab(
    "ch04-request",
    "A batch in time, a request late",
    (
        Control("load", "Load / capacity of batches of 34", LOADS, 0.5, format="{:g}".format),
        Control("cap", "Largest batch", CAPS, LARGEST, "inputs"),
        Control("arrivals", "Arrivals", ARRIVALS, ARRIVALS[1]),
    ),
    compute,
    predict=Prediction(
        "A batch of 34 takes exactly the SLO of 20 ms, and no batch is larger. At 80 % of capacity, how many requests "
        "are late?",
        ("none: no batch is late", "about one in a hundred", "about one in six", "more than half"),
        right=lambda result: graded(
            result.panel("late").curve("this cap").at(0.8),
            (0.002, "none: no batch is late"),
            (0.05, "about one in a hundred"),
            (0.4, "about one in six"),
            beyond="more than half",
        ),
        why=lambda result: (
            f"{result.panel('requests').text} Who arrives just after a batch has started waits for its end, and then "
            "for a batch of their own."
        ),
        reveal={"load": 0.8},
    ),
    numbers=("arithmetic",),
)
