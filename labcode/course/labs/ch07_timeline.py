"""Lab of chapter 07: six requests, iteration by iteration, and the KV cache beneath."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from labcode.course.evidence.serving import six_request_run
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.words import counted, percent
from labcode.results.timeline import DECODE, IDLE, PREFILL, WAITING, Timeline, timeline

POOL = 80
ENGINES = ("continuous", "static")
MEMORIES = {"what it will use": "oracle", "32 tokens for everyone": "max:32"}
CELLS = (
    ("P prefill", PREFILL, "ours"),
    ("D decode", DECODE, "alt1"),
    ("· waiting", WAITING, "muted"),
    ("- finished, place taken", IDLE, "baseline"),
)
ITERATIONS = 22


@lru_cache(maxsize=8)
def seen(engine: str, memory: str) -> Timeline:
    """Return the whole timeline of one setting."""
    return timeline(six_request_run(engine, memory=MEMORIES[memory], capacity=POOL))


def compute(iteration: int, engine: str, memory: str) -> Result:
    """Show the run up to and including `iteration`."""
    whole = seen(engine, memory)
    shown = min(iteration + 1, len(whole))
    letters = whole.letters[:, :shown]
    series = []
    for name, letter, role in CELLS:
        row, column = np.nonzero(letters == letter)
        series.append(Series(name, "cells", tuple(column.tolist()), tuple(row.tolist()), role=role))
    over = iteration >= len(whole)
    here = whole.letters[:, min(iteration, len(whole) - 1)]
    who = {name.split(" ", 1)[1]: [f"r{i}" for i in np.flatnonzero(here == letter)] for name, letter, _ in CELLS}
    words = "; ".join(f"{what}: {', '.join(names)}" for what, names in who.items() if names)
    words = f"All done after {len(whole)} iterations" if over else f"Iteration {iteration}: {words}"
    axis = Axis("Iteration", limits=(-0.5, len(whole) - 0.5))
    grid = Panel(
        "cells",
        "Who does what in each iteration",
        axis,
        Axis("Request", limits=(-0.5, 5.5)),
        tuple(series),
        marks=() if over else (Mark("vline", iteration + 0.5, "now"),),
        text=f"{words}.",
    )
    k = tuple((np.arange(shown + 1) - 0.5).tolist())
    used, held = ((*v[:shown].tolist(), int(v[shown - 1])) for v in (whole.kv_used, whole.kv_reserved))
    kv = Panel(
        "kv",
        "KV cache: reserved against used",
        axis,
        Axis("Tokens", limits=(0, POOL * 1.1)),
        (
            Series("written", "step", k, used),
            Series("reserved", "step", k, held, role="baseline"),
        ),
        marks=(Mark("hline", POOL, f"pool {POOL}"),),
        text=f"Reserved {held[-1]}, written {used[-1]} tokens: {percent(used[-1] / held[-1])} of "
        "the reservation is in use.",
    )
    idle = int((letters == IDLE).sum())
    when = f"all done after {len(whole)} iterations" if over else f"iteration {iteration}, the last is {len(whole) - 1}"
    done = sum(1 for row in whole.letters if not np.isin(row[shown:], [PREFILL, DECODE, WAITING]).any())
    return Result(
        (grid, kv),
        f"{engine.capitalize()}, {when}: {done} of 6 requests have all their tokens; "
        f"{counted(idle, 'place-iterations')} went to finished requests.",
    )


def _iterations(result: Result) -> float:
    """Return how many iterations the timeline shows."""
    return 1 + max(max(s.x) for s in result.panel("cells").series if s.x)


LAB = Lab(
    "ch07-timeline",
    "Six requests, step by step",
    (
        Control("iteration", "Iteration", tuple(range(ITERATIONS)), 9),
        Control("engine", "Engine", ENGINES, "continuous"),
        Control("memory", "KV slots reserved for a request", tuple(MEMORIES), "what it will use"),
    ),
    compute,
    predict=Prediction(
        "Three places, six requests, and the longest needs 9 iterations. The continuous engine is done after 10 "
        "iterations. And the static one?",
        ("after 10 as well", "after 14", "after 18", "after 27"),
        right=lambda result: graded(
            _iterations(result), (12, "after 10 as well"), (16, "after 14"), (22, "after 18"), beyond="after 27"
        ),
        why=lambda result: result.headline,
        reveal={"engine": "static", "iteration": ITERATIONS - 1},
    ),
    numbers=("arithmetic",),
    presets={
        "static, at the end": {"engine": "static", "iteration": 17},
        "continuous, at the end": {"iteration": 9},
    },
)
