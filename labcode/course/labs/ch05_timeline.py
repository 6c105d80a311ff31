"""Lab of chapter 05: three requests, two places, and what an empty place costs."""

from __future__ import annotations

import numpy as np

from labcode import workload
from labcode.course.evidence.serving import RoundCost, abc_run
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.results.timeline import DECODE, IDLE, PREFILL, WAITING, timeline

ROUNDS = {"10 ms whatever is in it": (0.010, 0.010), "6 ms alone, 10 ms together": (0.006, 0.010)}
POLICIES = ("whole batch", "early return", "continuous")
CELLS = (("D decode", DECODE, "alt1"), ("- place empty", IDLE, "baseline"), ("· waiting", WAITING, "muted"))


def letters(policy: str, outputs: tuple[int, ...], rounds: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return the letters of each request in each decode round, shape (n, rounds), and the completion times
    (s)."""
    load = workload.from_arrays([0.0] * len(outputs), 1, [more + 1 for more in outputs])
    run = abc_run(load, policy, RoundCost(rounds))
    seen = timeline(run)
    decodes = (seen.letters == DECODE).any(axis=0)  # prefill takes no time and is left out
    cells = seen.letters[:, decodes]
    cells[cells == PREFILL] = WAITING
    if policy != "continuous":
        admitted = run.requests["admitted"].to_numpy()
        for start in np.unique(admitted):
            batch = np.flatnonzero(admitted == start)
            last = [np.flatnonzero(cells[i] == DECODE).max() for i in batch]
            for i, end in zip(batch, last, strict=True):
                cells[i, end + 1 : max(last) + 1] = IDLE
    return cells, run.requests["finished"].to_numpy()


def compute(policy: str, a: int, c: int, rounds: str) -> Result:
    """Run A (`a` rounds), B (1 round) and C (`c` rounds) on two places."""
    outputs, names = (a, 1, c), ("A", "B", "C")
    cells, ends = letters(policy, outputs, ROUNDS[rounds])
    _, pinned = letters("early return", outputs, ROUNDS[rounds])
    series = []
    for name, letter, role in CELLS:
        row, column = np.nonzero(cells == letter)
        series.append(Series(name, "cells", tuple((column + 1).tolist()), tuple(row.tolist()), role=role))
    idle = int((cells == IDLE).sum())
    text = f"{cells.shape[1]} rounds; a place stands empty for {idle} of them."
    grid = Panel(
        "rounds",
        "Who decodes in which round",
        Axis("Round", limits=(0.5, 12.5)),
        Axis("Request (0 is A, 1 is B, 2 is C)", limits=(-0.5, 2.5)),
        tuple(series),
        text=text,
    )
    where = (*names, "mean")
    ms, base = ((*(1000 * e).tolist(), 1000 * float(e.mean())) for e in (ends, pinned))
    bars = Panel(
        "ends",
        "When each answer is complete",
        Axis("Request"),
        Axis("Completion", "ms"),
        (
            Series("this setting", "bar", where, ms),
            Series("pinned: early return", "bar", where, base, role="baseline"),
        ),
        text=f"The mean is {ms[3]:.1f} ms; with early return and no refilling {base[3]:.1f} ms.",
    )
    gain = pinned.mean() / ends.mean()
    return Result(
        (grid, bars),
        f"{policy.capitalize()}: A, B, C end at {ms[0]:.0f}, {ms[1]:.0f}, {ms[2]:.0f} ms; "
        f"mean {ms[3]:.1f} ms, {gain:.2f} times as fast as early return alone.",
    )


def _mean_ratio(result: Result) -> float:
    """Return the mean completion time as a multiple of that with early return alone."""
    ends = result.panel("ends")
    return ends.curve("this setting").at("mean") / ends.curve("pinned: early return").at("mean")


LAB = Lab(
    "ch05-timeline",
    "Three requests, two places",
    (
        Control("policy", "When may a place be used again?", POLICIES, "early return"),
        Control("a", "Rounds that A needs", tuple(range(1, 9)), 4),
        Control("c", "Rounds that C needs", (1, 2, 4), 1),
        Control("rounds", "A round takes", tuple(ROUNDS), "10 ms whatever is in it"),
    ),
    compute,
    predict=Prediction(
        "B is done after one round. If C may take B's place at once, how much earlier are the three answers complete, "
        "on average?",
        ("in half the time", "about a third earlier", "about a tenth earlier", "not at all"),
        right=lambda result: graded(
            _mean_ratio(result),
            (0.55, "in half the time"),
            (0.8, "about a third earlier"),
            (0.97, "about a tenth earlier"),
            beyond="not at all",
        ),
        why=lambda result: f"{result.panel('ends').text} Nobody pays here: a round takes as long with one as with two.",
        reveal={"policy": "continuous"},
    ),
    numbers=("arithmetic",),
)
