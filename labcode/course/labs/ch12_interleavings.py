"""Lab of chapter 12: orders of cancel, finish, preempt, swap in and late completion, stepped by hand."""

from __future__ import annotations

from functools import cache

from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction
from labcode.scheduler.lifecycle import Rules, World, explore, follow, leaks, two_requests

#: Each rule in words, and the order of events that goes wrong without it.
BROKEN = {
    "compare and set": "compare",
    "releases by key": "keyed",
    "the stay in the key": "stays",
    "fences": "fences",
    "generations": "generations",
}
PARTIES = tuple(party.name for party in two_requests()[1])
STEPS = 24
LETTERS = (
    ("c cancel", "ours", (0, 1)),
    ("f finish", "alt1", (2,)),
    ("p preempt", "alt2", (3,)),
    ("s swap in", "alt3", (4,)),
    ("r report", "baseline", (5, 6)),
)


@cache
def played(trace: str, kept: str) -> tuple[list[tuple[str, World, str]], int]:
    """Return the log of an order of events, and after how many of its steps something is wrong (0: never)."""
    rules = Rules(**{BROKEN[trace]: False})
    names = tuple(name for name, _ in explore(rules).trace)
    log = follow(names, Rules() if kept == "kept" else rules)
    wrong = next((k for k, (_, _, fault) in enumerate(log, 1) if fault), 0)
    if not wrong and leaks(log[-1][1]):
        wrong = len(log)
    return log, wrong


def compute(trace: str, kept: str, step: int) -> Result:
    """Show the first `step` steps."""
    log, wrong = played(trace, kept)
    step = min(int(step), wrong or len(log), len(log))
    seen = log[:step]
    series = []
    for letter, role, rows in LETTERS:
        at = [(k, PARTIES.index(name)) for k, (name, _, _) in enumerate(seen, 1) if PARTIES.index(name) in rows]
        series.append(Series(letter, "cells", tuple(k for k, _ in at), tuple(row for _, row in at), role=role))
    last = seen[-1]
    fault = (last[2] or leaks(last[1])) if wrong and step == wrong else ""
    word = f"WRONG: {fault}" if fault else "all is well so far" if step < len(log) else "everybody is done, all is well"
    grid = Panel(
        "steps", "Who takes which step", Axis("Step", limits=(0.5, STEPS + 0.5)),
        Axis("Party", limits=(-0.5, len(PARTIES) - 0.5)), tuple(series),
        marks=(Mark("vline", step + 0.5, "something is wrong"),) if fault else (),
        text=f"Rows: {', '.join(f'{k} {name}' for k, name in enumerate(PARTIES))}. "
             f"Step {step}, {last[0]}: {last[1].note}.",
    )  # fmt: skip
    k = tuple(range(1, step + 1))
    counts = Panel(
        "pages", "References to page 0", Axis("Step", limits=(0.5, STEPS + 0.5)),
        Axis("References", limits=(-0.2, 3.2)),
        (Series("what the counter says", "step", k, tuple(float(w.pages[0].references) for _, w, _ in seen)),
         Series("who really holds it", "scatter", k, tuple(float(len(w.pages[0].holders)) for _, w, _ in seen),
                role="alt1"),
         Series("free (1) or not (0)", "step", k, tuple(float(w.pages[0].free) for _, w, _ in seen), role="baseline")),
        text=f"{'; '.join(f'{name} is {state} (stay {stay})' for name, state, stay in last[1].states)}; page 0 has "
             f"generation {last[1].pages[0].generation}, "
             f"{'a fence that is not confirmed' if last[1].pages[0].fenced else 'no fence open'}.",
    )  # fmt: skip
    return Result((grid, counts), f"Step {step}, {last[0]}: {last[1].note}; {word}.")


LAB = Lab(
    "ch12-interleavings", "Events in any order, stepped by hand",
    (Control("trace", "Events that go wrong without", tuple(BROKEN), "compare and set"),
     Control("kept", "That rule is", ("kept", "broken"), "kept"),
     Control("step", "Step", tuple(range(1, STEPS + 1)), 1)),
    compute,
    predict=Prediction(
        "r0 is cancelled; the scheduler, which had begun to preempt it, then writes the state of r0 without looking. "
        "Which of these follows first?",
        ("nothing: it was cancelled already", "a page is given back twice", "a request that had ended comes back"),
        right=lambda result: "a request that had ended comes back" if "came back" in result.headline
        else "nothing: it was cancelled already",
        why=lambda result: result.headline,
        reveal={"kept": "broken", "step": STEPS},
    ),
    numbers=("arithmetic",),
)  # fmt: skip
