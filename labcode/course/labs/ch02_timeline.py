"""Chapter 2: the life of one request, whose events can be moved."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.results.logs import EventLog, from_events
from labcode.results.metrics import SLO

STEP = 0.02  # s from one token to the next, but for the stall
LIMITS = SLO(ttft=1.0, tpot=0.05)
EXERCISE: dict[str, Any] = {"wait": 0.1, "prefill": 0.2, "outputs": 31, "stall": 0.0}


def request(wait: float, prefill: float, outputs: int, stall: float) -> EventLog:
    """Return the log of a request that arrives at 0 s, first runs after `wait` s and prefills for `prefill` s.

    A token follows every 20 ms, except that half-way nothing comes for `stall` s more.
    """
    gaps = np.full(outputs - 1, STEP)
    if outputs > 1:
        gaps[(outputs - 1) // 2] += stall
    times = wait + prefill + np.concatenate([[0.0], np.cumsum(gaps)])
    tokens = pd.DataFrame({"request": "r", "token": np.arange(1, outputs + 1), "time_s": times})
    asked = pd.DataFrame({"request": ["r"], "submitted_s": 0.0, "prompt_tokens": 1, "admitted_s": wait})
    return from_events(tokens, asked)


def staircase(wait: float, prefill: float, outputs: int, stall: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return times (s) and numbers of tokens at the corners of the line "tokens received against time"."""
    first, half = wait + prefill, (outputs - 1) // 2
    corners = [(0.0, 0), (first, 0), (first, 1)]
    if outputs > 1:
        corners += [
            (first + half * STEP, 1 + half),
            (first + (half + 1) * STEP + stall, 2 + half),
            (first + (outputs - 1) * STEP + stall, outputs),
        ]
    return tuple(x for x, _ in corners), tuple(float(y) for _, y in corners)


def milliseconds(value: float) -> str:
    """Return a time as text, or "undefined" where it has no value."""
    return "undefined" if math.isnan(value) else f"{value * 1e3:.0f} ms"


def compute(wait: float, prefill: float, outputs: int, stall: float) -> Result:
    """Times in seconds."""
    log = request(wait, prefill, outputs, stall)
    row = log.requests.iloc[0]
    ttft, tpot, worst, end = (float(row[key]) for key in ("ttft", "tpot", "itl_max", "finished"))
    rest = 0.0 if outputs == 1 else (outputs - 1) * tpot
    line = Panel(
        "tokens",
        "Tokens received",
        Axis("Time since arrival", "s"),
        Axis("Tokens received", "tokens"),
        (
            Series("this request", "line", *staircase(wait, prefill, outputs, stall), role="ours"),
            Series("the text's request", "line", *staircase(**EXERCISE), role="baseline"),
        ),
        marks=(
            Mark("vline", wait, "first runs"),
            Mark("vline", ttft, "first token"),
            Mark("vline", LIMITS.ttft, "TTFT limit"),
        ),
        text=f"First runs at {wait:g} s, first token at {ttft:.2f} s, token {outputs} at {end:.2f} s.",
    )
    names = ("TTFT", "+ (O−1)·TPOT", "end to end", "wait counted twice")
    base = request(**EXERCISE).requests.iloc[0]
    sums = Panel(
        "sums",
        "What may be added to what",
        Axis("Quantity"),
        Axis("Time", "s"),
        (
            Series("this request", "bar", names, (ttft, rest, end, wait + end), role="ours"),
            Series(
                "the text's request",
                "bar",
                names,
                (base["ttft"], 30 * base["tpot"], base["finished"], 0.1 + base["finished"]),
                role="baseline",
            ),
        ),
        text=f"TTFT {ttft:.2f} s + {rest:.2f} s = {end:.2f} s; adding the wait again would give {wait + end:.2f} s, "
        f"which no clock ever showed.",
    )
    index = [2 + k for k in range(outputs - 1)]
    seconds = log.itl()[0] * 1e3
    kept = range(len(index)) if len(index) <= 60 else sorted({*range(0, len(index), 2), (outputs - 1) // 2})
    gaps = Panel(
        "gaps",
        "Time before each token",
        Axis("Token"),
        Axis("ITL", "ms", "log", limits=(10.0, 4000.0)),
        (Series("ITL", "scatter", tuple(index[k] for k in kept), tuple(seconds[k] for k in kept), role="ours"),),
        marks=(Mark("hline", 50.0, "TPOT limit 50 ms"),)
        + (() if math.isnan(tpot) else (Mark("hline", tpot * 1e3, "TPOT of this request"),)),
        text=f"TPOT {milliseconds(tpot)}, largest ITL {milliseconds(worst)}.",
    )
    kept_slo = bool(LIMITS.met(log.requests)[0])
    if outputs == 1:
        told = "One token: there is no time per further token, so TPOT is undefined and only TTFT is judged"
    elif worst > 0.2 and kept_slo:
        told = f"The reader stares at a frozen screen for {worst:.2f} s, and TPOT says {milliseconds(tpot)}"
    else:
        told = f"TTFT {ttft:.2f} s = {wait:g} waiting + {prefill:g} to the first token; TPOT {milliseconds(tpot)}"
    return Result((line, sums, gaps), f"{told}: the SLO is {'kept' if kept_slo else 'missed'}.")


LAB = Lab(
    "ch02-timeline",
    "One request and its clocks",
    (
        Control("wait", "First runs after", (0.0, 0.1, 0.3, 0.6, 1.0), 0.1, "s", "{:g}".format),
        Control("prefill", "Then to the first token", (0.05, 0.2, 0.5, 1.0), 0.2, "s", "{:g}".format),
        Control("outputs", "Output tokens", (1, 2, 31, 101), 31, "tokens"),
        Control("stall", "Stall half-way", (0.0, 0.2, 0.5, 1.0, 2.0), 0.0, "s", "{:g}".format),
    ),
    compute,
    predict=Prediction(
        "A stream of 101 tokens freezes for a whole second in the middle. The SLO allows 1 s to the first token and "
        "50 ms per output token. Is it kept?",
        ("kept: the mean per token hides the pause", "missed: a second is twenty times 50 ms"),
        right=lambda result: graded(
            result.panel("gaps").marks[1].at,
            (1000 * (LIMITS.tpot or 0), "kept: the mean per token hides the pause"),
            beyond="missed: a second is twenty times 50 ms",
        ),
        why=lambda result: result.panel("gaps").text,
        reveal={"outputs": 101, "stall": 1.0},
    ),
    numbers=("arithmetic",),
)
