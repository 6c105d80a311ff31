"""Lab of chapter 07: bubbles in a pipeline, with whole batches in flight or with micro-batches."""

from __future__ import annotations

import numpy as np

from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.words import percent
from labcode.simulation.pipeline import StageTime, in_flight, micro_batches, stage_time

PARTS = (1, 2, 3, 4, 5)
SLOTS = 18
CONTEXT = 300
MODES = ("Orca: batches in flight", "FasterTransformer: micro-batches")
ROLES = ("ours", "alt1", "alt2", "alt3", "baseline")


def busy(mode: str, parts: int, stages: int, size: int) -> np.ndarray:
    """Return which lane each stage serves in each slot (a slot is one stage time), 0 for nobody, shape
    (stages, SLOTS)."""
    cells = np.zeros((stages, SLOTS), dtype=int)
    if mode == MODES[0]:
        run = in_flight([SLOTS] * (parts * size), stages, size, lambda b: 1.0, n_workers=parts)
    else:
        run = micro_batches([SLOTS] * size, stages, size, parts, lambda b: 1.0)
    for visit in run.visits:
        if visit.start < SLOTS:
            cells[visit.stage, round(visit.start)] = visit.lane + 1
    return cells


def rate(mode: str, parts: int, stages: int, size: int, time: StageTime) -> float:
    """Return tokens per second once the pipeline is full: every lane comes round in max(lanes, stages) stage
    times."""
    lane = size if mode == MODES[0] else size / parts
    full, rest = divmod(size, parts)
    slot = time(size) if mode == MODES[0] else time(full + (rest > 0))
    return parts * lane / (max(parts, stages) * slot)


def compute(mode: str, parts: int, stages: int, size: int) -> Result:
    """Show `parts` batches of `size` in flight, or one batch of `size` cut into `parts`."""
    parts = min(parts, size)
    cells = busy(mode, parts, stages, size)
    noun = "batch" if mode == MODES[0] else "micro-batch"
    series = []
    for lane, role in enumerate(ROLES, start=1):
        row, column = np.nonzero(cells == lane)
        series.append(Series(f"{lane}", "cells", tuple(column.tolist()), tuple((row + 1).tolist()), role=role))
    row, column = np.nonzero(cells == 0)
    series.append(Series("· bubble", "cells", tuple(column.tolist()), tuple((row + 1).tolist()), role="muted"))
    steady = cells[:, stages:]
    bubbles = float((steady == 0).mean())
    grid = Panel(
        "cells",
        "Which batch is where",
        Axis("Time, in stage times", limits=(-0.5, SLOTS - 0.5)),
        Axis("Stage", limits=(0.5, 4.5)),
        tuple(series),
        text=f"Once the pipeline is full, {percent(bubbles)} of the slots are bubbles.",
    )
    time = stage_time("gpt3-175b", f"{16 // stages}xa100-40", stages, CONTEXT)
    curves = {m: tuple(rate(m, p, stages, size, time) if p <= size else float("nan") for p in PARTS) for m in MODES}
    here = rate(mode, parts, stages, size, time)
    speed = Panel(
        "rate",
        "Throughput once the pipeline is full",
        Axis("Batches in flight, or micro-batches"),
        Axis("Throughput", "tokens/s", "log"),
        (
            Series("batches in flight", "line", PARTS, curves[MODES[0]]),
            Series("micro-batches", "line", PARTS, curves[MODES[1]], role="baseline"),
        ),
        marks=(Mark("point", (parts, here), "this setting"), Mark("vline", stages, f"{stages} stages")),
        text=f"{here:,.0f} tokens/s here.",
    )
    seated = parts * size if mode == MODES[0] else size
    return Result(
        (grid, speed),
        f"{percent(bubbles)} bubbles, {here:,.0f} tokens/s with {seated} sequences in the engine, each {noun} of "
        f"{size if mode == MODES[0] else -(-size // parts)}.",
    )


def _gain(result: Result) -> float:
    """Return the token rate of four micro-batches as a multiple of that of one."""
    curve = result.panel("rate").curve("micro-batches")
    return curve.at(4) / curve.at(1)


LAB = Lab(
    "ch07-pipeline",
    "Bubbles, batches and micro-batches",
    (
        Control("mode", "The pipeline is filled with", MODES, MODES[1]),
        Control("parts", "Batches in flight, or micro-batches", PARTS, 2),
        Control("stages", "Stages (workers)", (2, 4), 4),
        Control("size", "Batch size (max_bs)", (4, 16, 64), 16, "sequences"),
    ),
    compute,
    predict=Prediction(
        "Four stages and one batch of 16 sequences. Whole, it leaves three slots in four as bubbles; cut into four "
        "micro-batches, none. How much does the token rate gain?",
        ("four times as high", "twice as high", "about 5 % higher", "it falls"),
        right=lambda result: graded(
            _gain(result),
            (1.0, "it falls"),
            (1.5, "about 5 % higher"),
            (3, "twice as high"),
            beyond="four times as high",
        ),
        why=lambda result: (
            f"It is {_gain(result):.2f} times as high. {result.panel('cells').text} But each micro-batch reads all the "
            "weights for a quarter of the sequences."
        ),
        reveal={"parts": 4},
    ),
    numbers=("paper",),
)
