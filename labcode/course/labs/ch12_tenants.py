"""Lab of chapter 12: two tenants, three orders, and four things that could be divided fairly."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from labcode import simulate
from labcode.course.evidence.fairness import UNITS, both_waited_until, fair_queue, served, tokens_by, two_backlogs
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.words import percent
from labcode.results.run import Run

QUEUES = {"first come, first served": "fcfs", "deficit round robin": "drr", "virtual counter": "vtc"}
FCFS = "pinned: first come, first served"
POINTS = 25


def serve(queue: str, unit: str, weight: float, prompt: int) -> Run:
    """Run 10-token answers of A and 100-token answers of B, all waiting from the start, in 8 places."""
    load = two_backlogs(160, 48, (100, prompt), (10, 100))
    order = "fcfs" if queue == "fcfs" else fair_queue(queue, unit, weight)
    return simulate(load, memory="unlimited", max_bs=8, order=order)


def over_time(run: Run, times: np.ndarray) -> dict[str, tuple[float, ...]]:
    """Return the output tokens of each tenant by `times` (s)."""
    assert run.load.tenant is not None
    found = {}
    for tenant in ("A", "B"):
        ends = np.sort(np.concatenate([run.token_times(int(i)) for i in np.flatnonzero(run.load.tenant == tenant)]))
        found[tenant] = tuple(np.searchsorted(ends, times, "right").astype(float).tolist())
    return found


@lru_cache(maxsize=16)
def measured(queue: str, unit: str, weight: float, prompt: int) -> tuple[float, dict[str, float], dict]:
    """Return how long both were waiting (s), B's share in each unit, and the tokens of both over that time."""
    run = serve(queue, unit, weight, prompt)
    until = both_waited_until(run)
    tokens = tokens_by(run, until)
    shares = {name: served(run, tokens, tariff)["B"] for name, tariff in UNITS.items()}
    return until, shares, over_time(run, np.linspace(0, until, POINTS))


def compute(queue: str, unit: str, weight: float, prompt: int) -> Result:
    """Serve both backlogs; everything counts until one of the tenants has nobody waiting any more."""
    until, got, tokens = measured(QUEUES[queue], unit, weight, int(prompt))
    _, pinned, _ = measured("fcfs", "requests", 1, int(prompt))
    names = tuple(UNITS)
    goal = weight / (1 + weight)
    times = np.linspace(0, until, POINTS)
    shares = Panel(
        "shares", "B's share, counted in four ways", Axis("Counted in"), Axis("Share of tenant B", limits=(0, 1.05)),
        (Series("this order", "bar", names, tuple(got.values())),
         Series(FCFS, "bar", names, tuple(pinned.values()), role="baseline")),
        marks=(Mark("hline", goal, f"B's weight {percent(goal)}"),),
        text=f"B has {percent(got['requests'])} of the requests, {percent(got['output tokens'])} of the output tokens "
             f"and {percent(got['device time'])} of the device time.",
    )  # fmt: skip
    growth = Panel(
        "tokens", "Output tokens so far", Axis("Time", "s"), Axis("Output tokens"),
        (Series("A: 10 tokens a request", "line", tuple(times.tolist()), tokens["A"]),
         Series("B: 100 tokens a request", "line", tuple(times.tolist()), tokens["B"], role="alt1")),
        text=f"After {until:.1f} s A has {tokens['A'][-1]:.0f} output tokens, B {tokens['B'][-1]:.0f}.",
    )  # fmt: skip
    how = queue if QUEUES[queue] == "fcfs" else f"{queue} by {unit}"
    return Result(
        (shares, growth),
        f"{how[0].upper()}{how[1:]}, weight of B {weight:g}: B gets {percent(got['output tokens'])} of the output "
        f"tokens and {percent(got['device time'])} of the device time.",
    )


LAB = Lab(
    "ch12-tenants", "Two tenants and three kinds of fairness",
    (Control("queue", "Order", tuple(QUEUES), "first come, first served"),
     Control("unit", "Fair in", tuple(UNITS), "requests"),
     Control("weight", "Weight of B (A has 1)", (0.5, 1, 2, 4), 1),
     Control("prompt", "Prompt of B (A has 100)", (100, 2000, 6000), 100, "tokens")),
    compute,
    predict=Prediction(
        "A's answers have 10 tokens, B's 100, and both always wait. If each gets as many requests through as the "
        "other, what share of the output tokens is B's?",
        ("a half", "about two thirds", "nine tenths"),
        right=lambda result: graded(
            result.panel("shares").curve("this order").at("output tokens"),
            (0.58, "a half"), (0.8, "about two thirds"), beyond="nine tenths"),
        why=lambda result: result.panel("shares").text,
        reveal={"queue": "deficit round robin"},
    ),
    numbers=("paper",),
)  # fmt: skip
