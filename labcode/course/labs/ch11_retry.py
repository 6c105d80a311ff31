"""Lab of chapter 11: a retry storm, started and stopped."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from labcode.course.evidence.clients import HORIZON, PACE, REMEDIES, TRIGGER, retry_storm
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.words import counted, percent
from labcode.simulation.retries import RetryRun

WIDTH = 2.0
TIMES = tuple(np.arange(WIDTH / 2, HORIZON, WIDTH).tolist())
SEED = 0


@lru_cache(maxsize=512)
def run_of(load: float, retries: int, slow_for: float, remedy: str) -> RetryRun:
    """Run one setting."""
    return retry_storm(load, retries, slow_for, remedy, SEED)


def shares(run: RetryRun) -> tuple[float, ...]:
    """Return the share of the requests of each two seconds that got an answer."""
    return tuple(run.success(t - WIDTH / 2, t + WIDTH / 2) for t in TIMES)


def compute(load: float, retries: int, slow_for: float, remedy: str) -> Result:
    """Let a server be slow for a while."""
    run, calm = run_of(load, retries, slow_for, remedy), run_of(load, 0, slow_for, "none")
    end = TRIGGER + slow_for
    marks = (Mark("vline", TRIGGER, "slow"), Mark("vline", end, "well again")) if slow_for else ()
    tries = tuple(run.per_second(run.attempts, WIDTH).tolist())
    after = run.success(end + 30, HORIZON - 10)
    back = run.recovers_after(end)
    attempts = Panel(
        "attempts",
        "What the server is asked",
        Axis("Time", "s", limits=(0, HORIZON)),
        Axis("Attempts", "1/s"),
        (
            Series("attempts", "line", TIMES, tries),
            Series("new requests", "line", TIMES, tuple(run.per_second(run.new, WIDTH).tolist()), role="baseline"),
        ),
        (*marks, Mark("hline", PACE, "pace")),
        f"{len(run.attempts) / max(1, len(run.new)):.2f} attempts for each request, {run.denied} retries denied.",
    )
    success = Panel(
        "success",
        "Who gets an answer",
        Axis("Time of the request", "s", limits=(0, HORIZON)),
        Axis("Share answered", limits=(0, 1.05)),
        (
            Series("this setting", "line", TIMES, shares(run)),
            Series("pinned: no retries", "line", TIMES, shares(calm), role="baseline"),
        ),
        marks,
        f"From half a minute after the cause has gone {percent(after)} of the requests are answered.",
    )
    if back == float("inf"):
        told = (
            f"the storm outlives its cause: {percent(after)} are answered half a minute after it, to the end of the run"
        )
    elif not slow_for:
        told = f"there is no cause, and {percent(run.success(0, HORIZON - 10))} of the requests are answered"
    else:
        told = f"service is back {back:.0f} s after the cause has gone"
    wasted = len(run.wasted) / max(1, len(run.wasted) + len(run.good))
    return Result(
        (attempts, success),
        f"At {percent(load)} load with at most {counted(retries + 1, 'attempts')} {told}; {percent(wasted)} of the "
        f"server's work is for clients that have left (one draw, seed {SEED}).",
    )


LAB = Lab(
    "ch11-retry",
    "A retry storm",
    (
        Control("load", "Load", (0.2, 0.5, 0.7, 0.85), 0.7, format=lambda v: percent(v)),
        Control("retries", "Most retries", (0, 1, 3), 1),
        Control("slow_for", "The server is slow for", (0, 5, 10, 20), 0, "s"),
        Control("remedy", "Remedy", tuple(REMEDIES), "none"),
    ),
    compute,
    predict=Prediction(
        "A server at 70 % load runs at a fifth of its pace for ten seconds, then it is well again. Clients wait 2 s "
        "and retry up to three times. What share of the requests is answered from half a minute later on?",
        ("nearly all", "about half", "nearly none"),
        right=lambda result: graded(
            float(np.nanmean(result.panel("success").curve("this setting").y[30:55])),
            (0.2, "nearly none"),
            (0.85, "about half"),
            beyond="nearly all",
        ),
        why=lambda result: (
            f"{result.panel('success').text} Each failed request comes four times, so the server is asked for "
            f"{result.panel('attempts').curve('attempts').y[50]:.0f} a second and can do {PACE:.0f}."
        ),
        reveal={"load": 0.7, "retries": 3, "slow_for": 10, "remedy": "none"},
    ),
    numbers=("arithmetic",),
)
