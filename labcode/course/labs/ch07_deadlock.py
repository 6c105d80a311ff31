"""Lab of chapter 07: slots handed out one by one, or reserved: who stands still."""

from __future__ import annotations

import numpy as np

from labcode import simulate, workload
from labcode.labkit.challenge import Challenge
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction
from labcode.labkit.words import counted
from labcode.results.timeline import DECODE, PREFILL, WAITING, OneStep, timeline
from labcode.scheduler.managers import memory
from labcode.simulation.deadlock import STUCK, run_without_preemption

LOAD = workload.from_arrays([0, 0, 0, 1], 4, [9, 9, 9, 6])
POLICIES = ("no reservation", "reserve all (Orca)", "take a place back (preempt)")
CELLS = (
    ("P prefill", PREFILL, "ours"),
    ("D decode", DECODE, "alt1"),
    ("· waiting", WAITING, "muted"),
    ("x waiting in its place", STUCK, "baseline"),
)
WIDTHS = (8, 12, 16, 24, 34)  # Of the time axis, in iterations: the first that holds the run.


def compute(slots: int, max_bs: int, policy: str) -> Result:
    """Run four requests of 4 prompt tokens in a pool of `slots` tokens."""
    if policy == POLICIES[2]:
        seen = timeline(simulate(LOAD, max_bs=max_bs, memory="paged:1", capacity=slots, cost=OneStep()))
        letters, used, stuck = seen.letters, seen.kv_used, None
    else:
        run = run_without_preemption(LOAD, memory("paged:1" if policy == POLICIES[0] else "oracle", slots), max_bs)
        letters, used, stuck = run.letters, run.used, run.standstill
    series = []
    for name, letter, role in CELLS:
        row, column = np.nonzero(letters == letter)
        series.append(Series(name, "cells", tuple(column.tolist()), tuple(row.tolist()), role=role))
    length = letters.shape[1]
    axis = Axis("Iteration", limits=(-0.5, next(width for width in WIDTHS if width >= length) - 0.5))
    outcome = f"standstill in iteration {stuck.iteration}" if stuck else f"all done after {length} iterations"
    grid = Panel(
        "cells",
        "Four requests",
        axis,
        Axis("Request", limits=(-0.5, 3.5)),
        tuple(series),
        marks=(Mark("vline", stuck.iteration + 0.5, "standstill"),) if stuck else (),
        text=f"{outcome.capitalize()}.",
    )
    k = tuple((np.arange(length + 1) - 0.5).tolist())
    pool = Panel(
        "slots",
        "Slots written",
        axis,
        Axis("Slots", "tokens", limits=(0, 48)),
        (Series("written", "step", k, (*used.tolist(), int(used[-1]))),),
        marks=(Mark("hline", slots, f"pool {slots}"),),
        text=f"At most {used.max()} of {slots} slots hold something.",
    )
    recomputed = int(((letters == PREFILL).sum(axis=1) - 1).clip(0).sum())
    again = f"; {counted(recomputed, 'prefills')} done again" if recomputed else ""
    return Result(
        (grid, pool), f"{policy[0].upper()}{policy[1:]}, {slots} slots, {counted(max_bs, 'places')}: {outcome}{again}."
    )


LAB = Lab(
    "ch07-deadlock",
    "A pool that runs out",
    (
        Control("slots", "Slots in the pool", tuple(range(14, 45, 2)), 24, "tokens"),
        Control("max_bs", "Places", (1, 2, 3, 4), 3),
        Control("policy", "When a slot is missing", POLICIES, POLICIES[0]),
    ),
    compute,
    predict=Prediction(
        "Three requests hold 8 slots each of a pool of 24, and each needs 4 more. Nothing is reserved. Which of them "
        "moves next?",
        ("the one that came first", "all three, in turn", "none of them"),
        right=lambda result: "none of them" if result.panel("cells").marks else "all three, in turn",
        why=lambda result: f"{result.panel('cells').text} {result.panel('slots').text}",
    ),
    numbers=("arithmetic",),
    presets={
        "stand still": {"slots": 24},
        "reserve": {"policy": POLICIES[1]},
        "take a place back": {"policy": POLICIES[2]},
    },
    challenge=Challenge(
        "Without reservation and without taking places back, finish all four requests in a pool of at most 30 slots.",
        lambda params, result: (
            params["policy"] == POLICIES[0] and params["slots"] <= 30 and not result.panel("cells").marks
        ),
    ),
)
