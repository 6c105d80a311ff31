"""Lab of appendix A1: a roofline's two shares and its exponent against measured kernels."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from labcode.course.evidence.fidelity import linear_residuals
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.words import counted, percent

KERNELS = ("A100, Llama-3-8B", "H100, Llama-2-7B", "H100, Llama-3.1-8B, eager")
HARD = 64.0  # an exponent that cannot be told from infinity
PAPER = (0.80, 0.60, HARD)


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that are drawn: 1, 2, 4, ... and what lies halfway between (or next to it)."""
    marks = np.unique(np.round(2.0 ** np.arange(0, 12.5, 0.5)))
    nearest = np.abs(np.log(table["tokens"].to_numpy()[:, None] / marks)).argmin(axis=0)
    return table.iloc[np.unique(nearest)].reset_index(drop=True)


def compute(kernels: str, bandwidth: float, arithmetic: float, p: float) -> Result:
    """Compare one roofline with one set of kernels, and with the paper GPU's."""
    ours, pinned = (shown(linear_residuals(kernels, *knobs)) for knobs in ((bandwidth, arithmetic, p), PAPER))
    x = tuple(ours["tokens"].tolist())
    times = Panel(
        "times",
        "Matrix products of one layer",
        Axis("New tokens in the step", scale="log"),
        Axis("Time", "µs", "log"),
        (
            Series("this roofline", "line", x, tuple(1e6 * ours["model"])),
            Series("pinned: paper GPU", "line", x, tuple(1e6 * pinned["model"]), role="baseline"),
            Series("measured kernels", "scatter", x, tuple(1e6 * ours["measured"]), role="alt1"),
        ),
        text="Flat while the weights are read, proportional to the tokens once the arithmetic takes longer.",
    )
    error = ours["error"].to_numpy()
    worst = int(np.abs(error).argmax())
    errors = Panel(
        "errors",
        "Error of the model",
        Axis("New tokens in the step", scale="log"),
        Axis("Model / measured - 1", "%", limits=(-60, 60)),
        (
            Series("this roofline", "line", x, tuple(100 * error)),
            Series("pinned: paper GPU", "line", x, tuple(100 * pinned["error"]), role="baseline"),
        ),
        marks=(Mark("hline", 0.0, "as measured"), Mark("point", (x[worst], 100 * float(error[worst])), "worst")),
        text=f"{percent(np.abs(error).mean())} off on average, {percent(abs(error[worst]))} at "
        f"{counted(x[worst], 'tokens')}.",
    )
    before = np.abs(pinned["error"]).mean()
    return Result(
        (times, errors),
        f"{percent(np.abs(error).mean())} off on average (the paper GPU: {percent(before)}); "
        f"the worst error is {percent(abs(error[worst]))}, at {counted(x[worst], 'tokens')}.",
    )


LAB = Lab(
    "a1-roofline",
    "A roofline and the kernels",
    (
        Control("kernels", "Kernels measured on", KERNELS, KERNELS[0]),
        Control("bandwidth", "Share of the bandwidth", (0.65, 0.7, 0.75, 0.8, 0.9, 1.0), 0.8, "", percent),
        Control("arithmetic", "Share of the FLOP/s", (0.6, 0.65, 0.7, 0.8, 1.0), 0.6, "", percent),
        Control("p", "Exponent", (1.0, 1.5, 2.0, 3.0, HARD), HARD, "",
                lambda p: "infinite: the larger of the two" if math.isclose(p, HARD) else f"{p:g}"),
    ),
    compute,
    predict=Prediction(
        "With the two shares as good as they can be, where is a hard roofline most wrong?",
        ("at 1 token", "at about 100 tokens, where the two roofs meet", "at 4,000 tokens"),
        right=lambda result: graded(
            result.panel("errors").marks[1].at[0],
            (16, "at 1 token"),
            (1000, "at about 100 tokens, where the two roofs meet"),
            beyond="at 4,000 tokens",
        ),
        why=lambda result: result.panel("errors").text,
    ),
    numbers=("quoted", "paper"),
)  # fmt: skip
