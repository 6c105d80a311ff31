"""Chapter 2: one window of 1000 requests, three denominators."""

from __future__ import annotations

import numpy as np
import pandas as pd

from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction
from labcode.labkit.words import percent
from labcode.results.metrics import SLO, Summary, summarise

SUBMITTED = 1000
LIMITS = SLO(ttft=1.0, tpot=None)
EXAMPLE = {"refused": 100, "failed": 50, "late": 150, "window": 100}


def window_summary(refused: int, failed: int, late: int, window: float) -> tuple[Summary, int]:
    """Return the summary of 1000 requests in `window` seconds, and how many were on target.

    The rest after refused, failed and late ones finish in time; late means a first token after 2 s where 1 s is
    allowed. Only the counts and the two delays matter here.
    """
    good = SUBMITTED - refused - failed - late
    outcome = np.repeat(["refused", "failed", "finished"], [refused, failed, late + good])
    ttft = np.repeat([np.nan, 2.0, 0.5], [refused + failed, late, good])
    table = pd.DataFrame(
        {
            "arrival": 0.0,
            "first_token": ttft,
            "finished": ttft,
            "prompt_tokens": 1,
            "output_tokens": 1,
            "outcome": outcome,
            "ttft": ttft,
            "tpot": np.nan,
            "itl_max": np.nan,
            "waited": np.nan,
        }
    )
    return summarise(table, slo=LIMITS, window=(0.0, float(window))), good


def shares(refused: int, failed: int, late: int, window: float) -> tuple[tuple[float, float, float], tuple[float, ...]]:
    """Return the attainment over submitted, admitted and finished, and the four rates (1/s)."""
    summary, good = window_summary(refused, failed, late, window)
    admitted = SUBMITTED - refused
    attained = (summary["slo_of_submitted"], good / admitted, summary["slo_of_finished"])
    rates = (summary["submitted_per_s"], admitted / window, summary["finished_per_s"], summary["goodput_per_s"])
    return attained, rates


def compute(refused: int, failed: int, late: int, window: int) -> Result:
    """Counts of requests; `window` in seconds."""
    good = SUBMITTED - refused - failed - late
    attained, rates = shares(refused, failed, late, window)
    base_attained, base_rates = shares(**EXAMPLE)
    fates = ("on target", "late", "failed", "refused")
    where = Panel(
        "fates",
        "What became of 1000 requests",
        Axis("Outcome"),
        Axis("Requests", limits=(0.0, 1000.0)),
        (
            Series("this window", "bar", fates, (good, late, failed, refused), role="ours"),
            Series("the text's window", "bar", fates, (700, 150, 50, 100), role="baseline"),
        ),
        text=f"{good} on target, {late} late, {failed} failed, {refused} refused.",
    )
    names = ("of submitted", "of admitted", "of finished")
    which = Panel(
        "shares",
        "The same numerator over three denominators",
        Axis("Denominator"),
        Axis("Share on target", limits=(0.0, 1.0)),
        (
            Series("this window", "bar", names, attained, role="ours"),
            Series("the text's window", "bar", names, base_attained, role="baseline"),
        ),
        marks=(Mark("hline", 0.9, "target 90 %"),),
        text=f"{percent(attained[0], 1)} of submitted, {percent(attained[1], 1)} of admitted, "
        f"{percent(attained[2], 1)} of finished.",
    )
    kinds = ("submitted", "admitted", "finished", "goodput")
    speed = Panel(
        "rates",
        "Requests per second",
        Axis("Counted"),
        Axis("Rate", "req/s"),
        (
            Series("this window", "bar", kinds, rates, role="ours"),
            Series("the text's window", "bar", kinds, base_rates, role="baseline"),
        ),
        text=f"Per second: {rates[0]:g} submitted, {rates[2]:g} finished, goodput {rates[3]:g}.",
    )
    verdict = {
        (True, True): "Both meet 90 %",
        (True, False): "Among the survivors the target of 90 % is met, among those who asked it is not",
        (False, False): "Neither meets 90 %",
    }[attained[2] >= 0.9, attained[0] >= 0.9]
    return Result(
        (where, which, speed),
        f"{good} of {SUBMITTED}: {percent(attained[2], 1)} of the finished, "
        f"{percent(attained[0], 1)} of the submitted. {verdict}.",
    )


TEXTS = "the text's window"


def _rises(result: Result, key: str, name: str) -> bool:
    """Return whether a bar is higher than the text's."""
    panel = result.panel(key)
    return panel.curve("this window").at(name) > panel.curve(TEXTS).at(name)


LAB = Lab(
    "ch02-denominators",
    "Three denominators",
    (
        Control("refused", "Refused", (0, 50, 100, 200, 400, 600), 100, "requests"),
        Control("failed", "Failed", (0, 50, 100, 200), 50, "requests"),
        Control("late", "Finished, but late", (0, 50, 150), 150, "requests"),
        Control("window", "Window", (50, 100, 200), 100, "s"),
    ),
    compute,
    predict=Prediction(
        "An operator refuses 400 of 1000 requests instead of 100, and nobody who gets in is late any more. What "
        "happens to the share on target among the finished, and what to goodput?",
        ("both rise", "the share rises, goodput falls", "the share falls, goodput rises", "both fall"),
        right=lambda result: {
            (True, True): "both rise",
            (True, False): "the share rises, goodput falls",
            (False, True): "the share falls, goodput rises",
            (False, False): "both fall",
        }[_rises(result, "shares", "of finished"), _rises(result, "rates", "goodput")],
        why=lambda result: (
            f"Of the finished, {percent(result.panel('shares').curve('this window').at('of finished'))} are on target "
            f"instead of {percent(result.panel('shares').curve(TEXTS).at('of finished'))}; goodput is "
            f"{result.panel('rates').curve('this window').at('goodput'):g} requests/s instead of "
            f"{result.panel('rates').curve(TEXTS).at('goodput'):g}."
        ),
        reveal={"refused": 400, "late": 0},
    ),
    numbers=("arithmetic",),
)
