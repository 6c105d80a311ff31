"""Lab of chapter 08: the largest rate depends on how long the experiment runs; what can be kept up does not."""

from __future__ import annotations

import itertools
from functools import lru_cache

import numpy as np

from labcode import goodput, simulate, workload
from labcode.course.labs.shared_panels import running
from labcode.experiments.saturation import drain_rate, fluid_goodput, waiting_at
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.words import percent
from labcode.results.metrics import SLO

COUNTS = (300, 600, 1200, 3000, 10000)
SEEDS, TARGET, POINTS = 5, 0.9, 50
SYSTEMS = {"oracle": 256, "max:8192": 52}  # memory policy -> requests that find a free place at the start


@lru_cache(maxsize=64)
def chat(n: int, seed: int) -> workload.Workload:
    """Return n chat requests at one a second, made once."""
    return workload.chat(n=n, rate=1.0, seed=seed)


@lru_cache(maxsize=64)
def rates(memory: str, n: int, limit: float) -> np.ndarray:
    """Return the largest rate of each seed in req/s, infinity where even all at once is fine, shape (SEEDS,)."""
    return np.array([goodput(chat(n, seed), SLO(ttft=limit), TARGET, memory=memory).rate for seed in range(SEEDS)])


@lru_cache(maxsize=8)
def drain(memory: str) -> float:
    """Return the pace of the saturated engine in req/s."""
    return float(np.mean([drain_rate(chat(3000, seed), memory=memory) for seed in range(SEEDS)]))


@lru_cache(maxsize=256)
def line(memory: str, n: int, relative: float) -> tuple[np.ndarray, tuple[float, ...], np.ndarray, float, float]:
    """Return times, requests waiting, every TTFT (s), the rate, and when all places are taken (infinity if never).

    The rate is `relative` times the drain rate.
    """
    rate = relative * drain(memory)
    run = simulate(chat(n, 0).at_rate(rate), memory=memory)
    times = np.linspace(0, float(run.load.arrival[-1]), POINTS)
    full = run.record.segments["start"][running(run) >= SYSTEMS[memory]]
    seated = float(full[0]) if len(full) else float("inf")
    return times, tuple(waiting_at(run, times).tolist()), run.record.first_token - run.load.arrival, rate, seated


def compute(n: int, memory: str, relative: float, limit: float) -> Result:
    """Search the largest rate for every length of run, and watch the queue at one rate."""
    keeps_up = drain(memory)
    each = [rates(memory, count, limit) for count in COUNTS]
    finite = [np.where(np.isfinite(r), r, np.nan) for r in each]
    mean, low, high = (tuple(float(f(r)) for r in finite) for f in (np.mean, np.min, np.max))
    fluid = [fluid_goodput(keeps_up, count, limit, TARGET, SYSTEMS[memory]) for count in COUNTS]
    shown = tuple(v if v < 4 * keeps_up else float("nan") for v in fluid)
    times, waits, ttft, rate, seated = line(memory, n, relative)
    slope = rate - keeps_up
    promised = np.maximum(0.0, slope * (times - min(seated, times[-1])))
    steps = np.linspace(0, n, POINTS + 1).astype(int)
    numbers = [float(50 * (a + b) / n) for a, b in itertools.pairwise(steps)]
    moments = tuple((100 * times / times[-1]).tolist())
    block = [float(np.mean(ttft[a:b])) for a, b in itertools.pairwise(steps)]
    at = COUNTS.index(n)
    kept = float(np.mean(ttft <= limit))
    found = f"{mean[at]:.1f} req/s" if np.isfinite(mean[at]) else "no limit at all"
    panels = (
        Panel(
            "length",
            "Largest rate found with so many requests",
            Axis("Requests in the experiment", "", "log"),
            Axis("Largest rate", "req/s"),
            (
                Series("5 seeds, lowest to highest", "band", COUNTS, low, high),
                Series("largest rate", "line", COUNTS, mean),
                Series("fluid queue", "line", COUNTS, shown, role="alt1"),
            ),
            (
                Mark("hline", keeps_up, f"drain rate {keeps_up:.1f}/s"),
                *((Mark("point", (n, mean[at]), "now"),) if np.isfinite(mean[at]) else ()),
            ),
            f"{n} requests: {found}. A queue that is never empty is worked off at {keeps_up:.1f} req/s.",
        ),
        Panel(
            "line",
            "Who waits while requests arrive",
            Axis("Time of the arrivals", "%", limits=(0, 100)),
            Axis("Waiting, of all requests", "%"),
            (
                Series("waiting", "line", moments, tuple(100 * w / n for w in waits)),
                Series("fluid queue", "line", moments, tuple((100 * promised / n).tolist()), role="alt1"),
            ),
            (),
            f"At {rate:.1f} req/s the queue changes by {slope:+.1f} requests a second once all places are taken; "
            f"{waits[-1]:.0f} wait when the last one arrives.",
        ),
        Panel(
            "ttft",
            "TTFT by order of arrival",
            Axis("Requests in order", "%", limits=(0, 100)),
            Axis("TTFT", "s", "log"),
            (Series("mean of neighbours", "line", tuple(numbers), tuple(block)),),
            (Mark("hline", limit, f"SLO {limit:g} s"),),
            f"{percent(kept)} of these {n} requests start within {limit:g} s.",
        ),
    )
    word = "a queue that grows for as long as you look" if relative > 1 else "a queue that stays finite"
    return Result(
        panels,
        f"{n} requests say {found}; the engine keeps up with {keeps_up:.1f} req/s. At {relative:g} times that, {word}: "
        f"{percent(kept)} start in time.",
    )


LAB = Lab(
    "ch08-run-length",
    "How long must a run be?",
    (
        Control("n", "Requests in the experiment", COUNTS, 600),
        Control("memory", "KV reservation", tuple(SYSTEMS), "oracle"),
        Control("relative", "Arrival rate / drain rate", (0.8, 0.95, 1.05, 1.2, 1.4), 1.4, ""),
        Control("limit", "TTFT limit", (0.5, 1, 2, 5), 1, "s"),
    ),
    compute,
    predict=Prediction(
        "At 1.4 times the rate that the engine can work off, an experiment of 600 requests finds that nearly all is "
        "well. Which way does the largest rate move when 3,000 are sent?",
        ("up", "it stays", "down, towards what the engine can work off"),
        right=lambda result: graded(
            result.panel("length").curve("largest rate").at(3000)
            / result.panel("length").curve("largest rate").at(600),
            (0.95, "down, towards what the engine can work off"),
            (1.05, "it stays"),
            beyond="up",
        ),
        why=lambda result: (
            f"600 requests give {result.panel('length').curve('largest rate').at(600):.1f} req/s, 3,000 give "
            f"{result.panel('length').curve('largest rate').at(3000):.1f}: a longer run leaves the queue time to grow."
        ),
        reveal={"n": 3000},
    ),
    numbers=("paper",),
)
