"""Lab of chapter 13: seven cases without names, four plots each, and a diagnosis to commit to."""

from __future__ import annotations

from labcode.course.evidence.diagnosis import (
    CASES,
    HEALTHY,
    LONG,
    OVERLOAD,
    REFERENCE,
    SECONDS,
    SLOW,
    diagnosed,
    evidence,
)
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.words import percent

NOT_YET = "not yet"
CURVES = (
    ("waiting", "Requests waiting", "", 1.0),
    ("age", "Age of the queue", "s", 1.0),
    ("gap", "Longest gap between two tokens", "ms", 1000.0),
    ("paused", "Requests paused", "", 1.0),
)
NEXT = {
    OVERLOAD: "Admit less now, and add capacity.",
    LONG: "Compute prompts in chunks, within a token budget.",
    SLOW: "Bound the time for reading, and cut off who does not read; new machines would not help.",
    HEALTHY: "Leave it alone.",
}


def compute(case: str, diagnosis: str) -> Result:
    """Show the evidence, and say whether a diagnosis is borne out by it."""
    normal, seen = evidence(REFERENCE), evidence(CASES[case])
    time = tuple(range(SECONDS))
    panels = []
    for name, title, unit, factor in CURVES:
        ours, healthy = (tuple(factor * v for v in getattr(e, name)) for e in (seen, normal))
        panels.append(
            Panel(
                name,
                title,
                Axis("Time", "s"),
                Axis(title, unit),
                (
                    Series("this case", "line", time, ours),
                    Series("pinned: healthy", "line", time, healthy, role="baseline"),
                ),
                (),
                f"At most {max(ours):.3g}{f' {unit}' if unit else ''}, at the end {ours[-1]:.3g}; "
                f"the healthy run has at most {max(healthy):.3g}.",
            )
        )
    pool = Panel(
        "pool",
        "KV pool taken at most",
        Axis("Run"),
        Axis("Share of the pool", limits=(0, 1.05)),
        (Series("most ever taken", "bar", ("this case", "healthy"), (seen.memory, normal.memory)),),
        (),
        f"{percent(1 - seen.memory)} of the KV pool was never used.",
    )
    found, because = diagnosed(seen, normal)
    if diagnosis == NOT_YET:
        said = (
            f"Case {case}: look at all plots, then commit to a diagnosis; {percent(1 - seen.memory)} of memory is free."
        )
    else:
        verdict = "borne out" if diagnosis == found else f"not borne out, it is {found}"
        said = f"Case {case}, diagnosis {diagnosis}: {verdict}. {because[0].upper()}{because[1:]}. {NEXT[found]}"
    return Result((*panels, pool), said)


LAB = Lab(
    "ch13-faults",
    "Which fault is it?",
    (
        Control("case", "Case", tuple(CASES), "B"),
        Control("diagnosis", "Your diagnosis", (NOT_YET, OVERLOAD, LONG, SLOW, HEALTHY), NOT_YET),
    ),
    compute,
    predict=Prediction(
        "Case A has one of the faults. The alarm that most services have is on the KV memory. How much of it is taken "
        "at the worst moment?",
        ("nearly all", "about half", "less than a fifth"),
        right=lambda result: graded(
            result.panel("pool").curve("most ever taken").y[0],
            (0.2, "less than a fifth"),
            (0.7, "about half"),
            beyond="nearly all",
        ),
        why=lambda result: (
            f"At most {percent(result.panel('pool').curve('most ever taken').y[0])} of the pool is taken: spare memory "
            "is not capacity."
        ),
        reveal={"case": "A"},
    ),
    numbers=("paper",),
)
