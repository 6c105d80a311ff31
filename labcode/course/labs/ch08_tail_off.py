"""Lab of chapter 08: steady state and tail-off of a finite overload."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from labcode import simulate, workload
from labcode.course.labs.shared_panels import over_time as averaged
from labcode.course.labs.shared_panels import running
from labcode.experiments.saturation import ideal_decode, mean_context
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.words import percent
from labcode.results.run import Run

SEEDS, POINTS = 4, 60
COUNTS = (300, 600, 1200, 3000)
SYSTEMS: dict[str, dict[str, Any]] = {
    "Orca (Oracle)": {"memory": "oracle"},
    "Orca (Max)": {"memory": "max:8192"},
    "static, 128 places": {"engine": "static", "max_bs": 128, "memory": "unlimited"},
}


def serve(system: str, n: int, rate: float, seed: int) -> Run:
    """Run n chat requests at a rate."""
    return simulate(workload.chat(n, rate, seed), **SYSTEMS[system])


def overall(run: Run) -> float:
    """Return all output tokens over the whole duration, tokens/s."""
    return float(run.load.output.sum() / (np.nanmax(run.record.finished) - run.load.arrival[0]))


Values = tuple[float, ...]


@lru_cache(maxsize=128)
def rates_of(system: str, n: int, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """Return overall and steady throughput of each seed, tokens/s, both of shape (SEEDS,)."""
    runs = [serve(system, n, rate, seed) for seed in range(SEEDS)]
    return np.array([overall(run) for run in runs]), np.array([run.steady_tokens_per_second() for run in runs])


@lru_cache(maxsize=128)
def over_time(system: str, n: int, rate: float) -> tuple[Values, Values, Values, float, float, float]:
    """Return shares of the run (%), tokens/s and sequences at work; end of arrivals, last first token, end (s)."""
    run = serve(system, n, rate, 0)
    s = run.record.segments
    length = np.maximum(s["end"] - s["start"], 1e-12)
    times, tokens = averaged(run, (s["n_decode"] * s["steps"] + s["n_prefill"]) / length, POINTS)
    _, working = averaged(run, running(run), POINTS)
    ends = float(run.load.arrival[-1]), float(np.nanmax(run.record.first_token)), float(s["end"][-1])
    share = tuple(100 * float(t) / ends[-1] for t in times)
    return share, tokens, working, *ends


@lru_cache(maxsize=1)
def ideal() -> float:
    """Return tokens/s of 128 sequences that do nothing but decode at the chat load's mean context."""
    return ideal_decode(128, mean_context(workload.chat(20000, 1.0, 0)))


def compute(system: str, n: int, rate: float) -> Result:
    """Overload a system with n requests and report its throughput twice."""
    times, tokens, working, arrived, started, end = over_time(system, n, rate)
    both = [rates_of(system, count, rate) for count in COUNTS]
    whole, steady = (np.array([pair[i] for pair in both]) for i in (0, 1))
    at = COUNTS.index(n)
    a, b = whole[at].mean(), steady[at].mean()
    marks = (Mark("vline", 100 * arrived / end, "last arrival"), Mark("vline", 100 * started / end, "last start"))
    tail = (end - started) / end
    panels = (
        Panel(
            "tokens",
            "Output tokens per second, as the run goes",
            Axis("Share of the run", "%", limits=(0, 100)),
            Axis("Output", "tokens/s"),
            (Series("this run", "area", times, tokens),),
            marks,
            f"{end - started:.1f} of {end:.1f} s come after the last start: tail-off is {percent(tail)} of the run.",
        ),
        Panel(
            "working",
            "Sequences that still need tokens",
            Axis("Share of the run", "%", limits=(0, 100)),
            Axis("Sequences"),
            (Series("this run", "line", times, working),),
            marks,
            f"{np.mean(working):.0f} on average, {max(working):.0f} at the most; then the longest answer is alone.",
        ),
        Panel(
            "count",
            "The same overload, with more requests",
            Axis("Requests in the experiment", "", "log"),
            Axis("Throughput", "tokens/s"),
            (
                Series("overall: 4 seeds", "band", COUNTS, tuple(whole.min(1)), tuple(whole.max(1)), role="baseline"),
                Series("overall", "line", COUNTS, tuple(whole.mean(1)), role="baseline"),
                Series("steady: 4 seeds", "band", COUNTS, tuple(steady.min(1)), tuple(steady.max(1))),
                Series("steady", "line", COUNTS, tuple(steady.mean(1))),
            ),
            (Mark("hline", ideal(), "128 ideal decodes"), Mark("point", (n, a), "overall now")),
            f"Overall {a:,.0f} tokens/s, steady {b:,.0f}: overall is {percent(1 - a / b)} lower.",
        ),
    )
    return Result(
        panels,
        f"{n} requests at {rate:g} req/s, {system}: all tokens over all time gives {a:,.0f} tokens/s, "
        f"counting only until the last request starts {b:,.0f}.",
    )


def _gap(result: Result, n: int) -> float:
    """Return how far overall throughput lies below steady throughput with n requests."""
    count = result.panel("count")
    return 1 - count.curve("overall").at(n) / count.curve("steady").at(n)


LAB = Lab(
    "ch08-tail-off",
    "Steady state and tail-off",
    (
        Control("system", "System", tuple(SYSTEMS), "Orca (Oracle)"),
        Control("n", "Requests in the experiment", COUNTS, 600),
        Control("rate", "Arrival rate", (32, 64, 128, 256), 128, "req/s"),
    ),
    compute,
    predict=Prediction(
        "600 requests arrive within five seconds, and 'all tokens over all time' comes out more than a third below the "
        "pace of the busy engine. With 3,000 requests, how large is that gap?",
        ("larger", "the same", "about half of it", "nearly gone"),
        right=lambda result: graded(
            _gap(result, 3000) / _gap(result, 600),
            (0.15, "nearly gone"),
            (0.75, "about half of it"),
            (1.1, "the same"),
            beyond="larger",
        ),
        why=lambda result: (
            f"Overall is {percent(_gap(result, 600))} below steady with 600 requests, "
            f"{percent(_gap(result, 3000))} with 3,000."
        ),
        reveal={"n": 3000},
    ),
    numbers=("paper",),
)
