"""Lab of chapter 11: refusing early against failing late, by load, margin and quality of the prediction."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from labcode.course.evidence.admission import DEADLINE, Served, judged, overload, pace, serve
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.words import percent

COUNT, SEED, COST, PLACES = 400, 0, "paper", 16
BOUND = 20
PREDICTORS = {"exact": "exact", "off by 30 %": "lognormal:0.3", "off by a factor 2.7": "lognormal:1"}
POLICIES = ("fail late", "bounded queue", "drop in the queue", "refuse early")
WINDOWS = 10


@lru_cache(maxsize=256)
def measured(policy: str, factor: float, margin: float, predictor: str) -> tuple[Served, tuple[float, ...]]:
    """Return what came of one run, and the shares in time by tenths of the arrivals."""
    load = overload(COST, factor, SEED, COUNT, PLACES)
    run = serve(policy, COST, load, BOUND, margin, predictor, PLACES)
    table = run.requests
    good = (table["outcome"] == "finished").to_numpy() & (
        table["finished"].to_numpy() <= load.arrival + DEADLINE + 1e-9
    )
    return judged(run, load), tuple(float(part.mean()) for part in np.array_split(good, WINDOWS))


def compute(factor: float, margin: float, predictor: str) -> Result:
    """Serve the same requests under four policies."""
    by = PREDICTORS[predictor]
    blind, seeing = POLICIES[:2], POLICIES[2:]
    runs = {p: measured(p, factor, 0.0, "exact") for p in blind} | {p: measured(p, factor, margin, by) for p in seeing}
    early, late = runs["refuse early"][0], runs["fail late"][0]
    times = tuple((np.arange(WINDOWS) + 0.5) / WINDOWS * COUNT / (factor * pace(COST, PLACES)))
    met = Panel(
        "met",
        "In time",
        Axis("Policy"),
        Axis("Share of the submitted", limits=(0, 1.05)),
        (Series("finished within 15 s", "bar", POLICIES, tuple(runs[p][0].in_time for p in POLICIES)),),
        (Mark("hline", min(1.0, 1 / factor), "pace over rate"),),
        ", ".join(f"{p} {percent(runs[p][0].in_time)}" for p in POLICIES).capitalize() + " in time.",
    )
    waste = Panel(
        "waste",
        "Work for nothing",
        Axis("Policy"),
        Axis("Share of the computed tokens", limits=(0, 1.05)),
        (Series("of answers that came to nothing", "bar", POLICIES, tuple(runs[p][0].wasted for p in POLICIES)),),
        (),
        ", ".join(f"{p} {percent(runs[p][0].wasted)}" for p in POLICIES).capitalize() + " wasted.",
    )
    course = Panel(
        "course",
        "As the overload goes on",
        Axis("Time of arrival", "s"),
        Axis("Share in time", limits=(0, 1.05)),
        (
            Series("refuse early", "line", times, runs["refuse early"][1]),
            Series("fail late", "line", times, runs["fail late"][1], role="baseline"),
        ),
        (),
        f"Of the last tenth of the arrivals {percent(runs['fail late'][1][-1])} are in time with late failure, "
        f"{percent(runs['refuse early'][1][-1])} with early refusal.",
    )
    return Result(
        (met, waste, course),
        f"At {factor:g} times the pace early refusal keeps {percent(early.in_time)} of the deadlines and late failure "
        f"{percent(late.in_time)}; who gets no answer knows it after {early.told_after:.1f} s instead of "
        f"{late.told_after:.0f} s (one draw, seed {SEED}, n = {COUNT}).",
    )


LAB = Lab(
    "ch11-deadline",
    "Refuse early or fail late",
    (
        Control("factor", "Arrival rate over the pace", (0.8, 1.0, 1.5, 2.0), 1.0),
        Control("margin", "Margin", (-3, 0, 3), 0, "s"),
        Control("predictor", "Predicted output", tuple(PREDICTORS), "off by 30 %"),
    ),
    compute,
    predict=Prediction(
        "Requests come at 1.5 times the pace, and each is ended at its deadline of 15 s wherever it stands. What share "
        "of the engine's work is then for answers that nobody gets?",
        ("less than a tenth", "a quarter, give or take", "about half", "nearly all"),
        right=lambda result: graded(
            result.panel("waste").curve("of answers that came to nothing").at("fail late"),
            (0.1, "less than a tenth"),
            (0.35, "a quarter, give or take"),
            (0.75, "about half"),
            beyond="nearly all",
        ),
        why=lambda result: (
            f"{result.panel('waste').text} The queue hands the engine those who have waited longest, so they are the "
            "ones with the least time left."
        ),
        reveal={"factor": 1.5},
    ),
    numbers=("paper",),
)
