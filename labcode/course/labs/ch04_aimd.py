"""Chapter 4: AIMD's increase, decrease and head-room, through a slow phase."""

from __future__ import annotations

from functools import cache

import numpy as np

from labcode.clipper.controllers import AIMD
from labcode.clipper.profiles import MEDIUM
from labcode.clipper.simulate import ControllerRun, SlowPhase, simulate_controller
from labcode.labkit.challenge import Challenge
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.words import percent

SLO, BATCHES, SLOW, BLOCK = 0.020, 800, (300, 500), 20


@cache
def _run(additive: int, backoff: float, target: float, factor: float, seed: int = 0) -> ControllerRun:
    controller = AIMD(target, additive, backoff)
    return simulate_controller(MEDIUM, controller, BATCHES, SlowPhase(*SLOW, factor), rng=np.random.default_rng(seed))


def _blocks(values: np.ndarray) -> tuple[float, ...]:
    return tuple(values.reshape(-1, BLOCK).mean(axis=1).tolist())


def compute(additive: int, backoff: float, target: float, factor: float) -> Result:
    """`target` in milliseconds; the SLO stays at 20 ms, so a lower target is head-room."""
    run, pinned = _run(additive, backoff, target / 1e3, factor), _run(1, 0.9, SLO, factor)
    x = tuple(start + BLOCK / 2 for start in range(0, BATCHES, BLOCK))
    steady, slow = (run.late_share(SLO, *part) for part in ((100, 300), SLOW))
    lost = 1 - run.throughput(100, 300) / pinned.throughput(100, 300)
    top = MEDIUM.max_batch(SLO)
    low = int((SLO - MEDIUM.fixed) / (MEDIUM.per_input * factor))
    span = run.batch.reshape(-1, BLOCK)
    edges = (Mark("vline", SLOW[0], "slow phase begins"), Mark("vline", SLOW[1], "ends"))
    axis = Axis("Batch number", limits=(0.0, float(BATCHES)))
    batch = Panel(
        "batch",
        "Batch size",
        axis,
        Axis("Batch size", limits=(0.0, 50.0)),
        (
            Series("range of 20", "band", x, tuple(span.min(axis=1)), tuple(span.max(axis=1)), role="ours"),
            Series("mean of 20", "line", x, _blocks(run.batch), role="ours"),
            Series("pinned: +1, × 0.9, 20 ms", "line", x, _blocks(pinned.batch), role="baseline"),
        ),
        marks=(Mark("hline", top, f"limit {top}"), Mark("hline", low, f"slow: {low}"), *edges)
        if factor > 1
        else (Mark("hline", top, f"limit {top}"), *edges),
        text=f"Mean batch {run.batch[100:300].mean():.1f} before the slow phase, {run.batch[350:500].mean():.1f} "
        "in it.",
    )
    late = Panel(
        "late",
        "Batches beyond 20 ms",
        axis,
        Axis("Share late", limits=(0.0, 1.0)),
        (
            Series("this setting", "line", x, _blocks(run.latency > SLO), role="ours"),
            Series("pinned: +1, × 0.9, 20 ms", "line", x, _blocks(pinned.latency > SLO), role="baseline"),
        ),
        marks=edges,
        text=f"{percent(steady)} of batches are late in steady state, {percent(slow)} in the slow phase.",
    )
    change = f"{percent(abs(lost), 1)} {'less' if lost >= 0 else 'more'} throughput than pinned"
    return Result((batch, late), f"Late: {percent(steady)} steady, {percent(slow)} in the slow phase; {change}.")


def _late(result: Result) -> float:
    """Return the share of late batches once the controller has settled and before the slow phase."""
    curve = result.panel("late").curve("this setting")
    return float(np.mean([share for at, share in zip(curve.x, curve.y, strict=True) if 100 < at < SLOW[0]]))


LAB = Lab(
    "ch04-aimd",
    "AIMD through a slow phase",
    (
        Control("additive", "Increase", (1, 2, 4, 8), 1, "inputs"),
        Control("backoff", "Factor after a late batch", (0.5, 0.75, 0.9, 0.97), 0.9, format="{:g}".format),
        Control("target", "Controller's target (SLO 20 ms)", (16.0, 17.0, 18.0, 19.0, 20.0), 18.0, "ms", "{:g}".format),
        Control("factor", "Slow phase: cost per input", (1.0, 1.5, 2.0, 3.0), 2.0, "times", "{:g}".format),
    ),
    compute,
    predict=Prediction(
        "AIMD finds the limit by overstepping it. With its target at the SLO itself, what share of the batches is late "
        "in steady state?",
        ("about half", "about 20 %", "about 2 %", "none"),
        right=lambda result: graded(
            _late(result), (0.005, "none"), (0.08, "about 2 %"), (0.35, "about 20 %"), beyond="about half"
        ),
        why=lambda result: f"{percent(_late(result))} of the batches before the slow phase take longer than 20 ms.",
        reveal={"target": 20.0},
    ),
    numbers=("arithmetic",),
    presets={
        "as in the lecture": {"target": 20.0},
        "bold": {"additive": 8, "backoff": 0.5, "target": 20.0},
        "three times as slow": {"factor": 3.0},
    },
    challenge=Challenge(
        "Not one late batch in steady state, and a mean batch above 27 before the slow phase.",
        lambda params, result: (
            _late(result) == 0 and float(np.mean(result.panel("batch").curve("mean of 20").y[5:15])) > 27
        ),
    ),
)
