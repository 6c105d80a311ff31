"""Chapter 2: tokens leave the server one by one and reach the client in pieces."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd

from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.words import counted
from labcode.results.logs import EventLog, from_events
from labcode.results.metrics import percentile

OUTPUTS = 120
FIRST = 0.3  # s


@cache
def log_of(piece: int, step: float, stall: float) -> EventLog:
    """Return what a client sees of 120 tokens: one every `step` ms, one stall of `stall` s, `piece` to a message."""
    gaps = np.full(OUTPUTS - 1, step * 1e-3)
    gaps[49] += stall
    made = FIRST + np.concatenate([[0.0], np.cumsum(gaps)])
    last = np.minimum(np.arange(piece, OUTPUTS + piece, piece), OUTPUTS)  # a message leaves with its last token
    sizes = np.diff(last, prepend=0)
    tokens = pd.DataFrame({"request": "r", "tokens": sizes, "time_s": made[last - 1]})
    return from_events(tokens, pd.DataFrame({"request": ["r"], "submitted_s": [0.0], "prompt_tokens": [1]}))


def steps_of(log: EventLog) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return times (s) and tokens received until then, at most 80 points."""
    seconds, tokens = log.chunk_intervals()
    row = log.requests.iloc[0]
    times = float(row["first_token"]) + np.concatenate([[0.0], np.cumsum(seconds)])
    received = row["output_tokens"] - tokens.sum() + np.concatenate([[0.0], np.cumsum(tokens)])
    keep = np.unique(np.concatenate([np.arange(0, len(times), 1 + len(times) // 70), [len(times) - 1]]))
    return (0.0, *times[keep].tolist()), (0.0, *received[keep].tolist())


def compute(piece: int, step: float, stall: float) -> Result:
    """`step` in ms, `stall` in s."""
    seen, true = log_of(piece, step, stall), log_of(1, step, stall)
    intervals, tokens = seen.chunk_intervals()
    itl, _ = true.itl()
    ttft, tpot = (float(seen.requests[key].iloc[0]) for key in ("ttft", "tpot"))
    stairs = Panel(
        "stairs",
        "Tokens received",
        Axis("Time since arrival", "s"),
        Axis("Tokens", limits=(0.0, 125.0)),
        (
            Series("as the client sees it", "step", *steps_of(seen), role="ours"),
            Series("token by token", "line", *steps_of(true), role="baseline"),
        ),
        text=f"{OUTPUTS} tokens in {counted(len(intervals) + 1, 'pieces')}; the first is seen after {ttft:.2f} s.",
    )
    names = ("P50", "P90", "max")
    rows = {
        "ITL": (itl, "baseline"),
        "between pieces": (intervals, "ours"),
        "÷ tokens in the piece": (intervals / tokens, "alt1"),
    }
    bars = Panel(
        "gaps",
        "Three things that get called ITL",
        Axis("Statistic"),
        Axis("Time", "ms", "log", limits=(5.0, 5000.0)),
        tuple(
            Series(name, "bar", names, tuple(1e3 * percentile(values, q) for q in (50, 90, 100)), role=role)
            for name, (values, role) in rows.items()
        ),
        marks=(Mark("hline", 50.0, "SLO 50 ms"),),
        text=f"Medians: ITL {1e3 * percentile(itl, 50):.0f} ms, "
        f"piece to piece {1e3 * percentile(intervals, 50):.0f} ms.",
    )
    largest, apart, shared = (1e3 * values.max() for values in (itl, intervals, intervals / tokens))
    if piece == 1:
        told = f"Every piece is a token: the intervals are ITL, the largest {largest:.0f} ms"
    else:
        told = (
            f"The largest gap was {largest:.0f} ms; the client saw {apart:.0f} ms, and dividing by the tokens in the "
            f"piece makes {shared:.0f} ms of it"
        )
    held = float(true.requests["tpot"].iloc[0])
    return Result((stairs, bars), f"{told}. TPOT is {held * 1e3:.1f} ms; the client computes {tpot * 1e3:.1f} ms.")


LAB = Lab(
    "ch02-chunks",
    "Tokens in pieces",
    (
        Control("piece", "Tokens in a piece", (1, 2, 4, 8, 16, 40), 8, "tokens"),
        Control("step", "Server makes a token every", (10.0, 20.0, 40.0), 20.0, "ms", "{:g}".format),
        Control("stall", "One stall of", (0.0, 0.1, 0.5, 2.0), 0.5, "s", "{:g}".format),
    ),
    compute,
    predict=Prediction(
        "The server makes a token every 20 ms, with one stall of 0.5 s, and sends eight tokens at a time. Divide each "
        "gap by the eight tokens in it: how long does the stall look?",
        ("more than half a second, as long as it was", "less than a tenth of a second", "20 ms: it vanishes"),
        right=lambda result: graded(
            result.panel("gaps").curve("÷ tokens in the piece").at("max"),
            (25, "20 ms: it vanishes"),
            (100, "less than a tenth of a second"),
            beyond="more than half a second, as long as it was",
        ),
        why=lambda result: (
            f"The stall made a gap of {result.panel('gaps').curve('ITL').at('max'):.0f} ms; divided by the tokens in "
            f"its piece it looks like {result.panel('gaps').curve('÷ tokens in the piece').at('max'):.0f} ms."
        ),
    ),
    numbers=("arithmetic",),
)
