"""Lab of chapter 09: the order of the waiting queue, wrong predictions, and who pays."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np

from labcode import simulate, workload
from labcode.course.labs.shared_panels import Compared, said
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.words import percent
from labcode.results.metrics import SLO, percentile
from labcode.results.run import Run
from labcode.scheduler.waiting import OrderKey

GOAL = SLO(ttft=1.0, tpot=0.050)
PLACEBO = np.random.default_rng(0).random(600)
ORDERS: dict[str, str | OrderKey] = {
    "first come": "fcfs",
    "shortest": "sjf",
    "predicted, σ 0.5": "sjf:0.5",
    "predicted, σ 1": "sjf:1",
    "predicted, σ 2": "sjf:2",
    "random": lambda request: float(PLACEBO[request.id]),
    "shortest, aged": lambda request: request.expected + 30 * request.arrival,  # a second waited counts for 30 tokens
}
GROUPS = ("1 to 100", "101 to 200", "201 to 400", "401 to 800", "over 800")
EDGES = (0, 100, 200, 400, 800, 10**9)


@cache
def serve(rate: float, max_bs: int, order: str | OrderKey) -> Run:
    """Serve 600 chat requests with oracle reservation; prediction errors are the same at every rate."""
    return simulate(workload.chat(n=600, rate=1.0, seed=1).at_rate(rate), max_bs=max_bs, memory="oracle", order=order)


def ttft(run: Run) -> np.ndarray:
    """Return every request's TTFT in s."""
    return np.asarray(run.record.first_token - run.load.arrival)


def by_length(run: Run) -> tuple[float, ...]:
    """Return the longest TTFT in each group of output lengths, s."""
    values, output = ttft(run), run.load.output
    return tuple(percentile(values[(output > low) & (output <= high)], 100) for low, high in itertools.pairwise(EDGES))


def compute(rate: float, max_bs: int, order: str) -> Result:
    """Serve the same requests in this order, and first come, first served."""
    run, base = serve(rate, max_bs, ORDERS[order]), serve(rate, max_bs, "fcfs")
    p50, p99, longest = (percentile(ttft(run), q) for q in (50, 99, 100))
    base50, base99 = (percentile(ttft(base), q) for q in (50, 99))
    curve = Compared(run, base, "this order", "pinned: first come, first served").ttft_panel(
        f"Median {said(p50)}, P99 {said(p99)}; first come, first served {said(base50)} and {said(base99)}.",
        title="Time to first token",
    )
    groups = Panel(
        "groups",
        "The longest wait, by length of the answer",
        Axis("Output tokens"),
        Axis("Longest TTFT", "s"),
        (
            Series("this order", "bar", GROUPS, by_length(run)),
            Series("pinned: first come, first served", "bar", GROUPS, by_length(base), role="baseline"),
        ),
        text=f"Somebody waits {said(longest)} for the first token.",
    )
    share = run.attainment(GOAL)
    names = tuple(ORDERS)
    met = Panel(
        "met",
        "Within the SLO, by order",
        Axis("Order"),
        Axis("Share of submitted requests", limits=(0, 1.05)),
        (
            Series(
                "share within the SLO",
                "bar",
                names,
                tuple(serve(rate, max_bs, key).attainment(GOAL) for key in ORDERS.values()),
            ),
        ),
        marks=(Mark("hline", 0.9, "goal 90 %"),),
        text=f"This order: {percent(share)}. One draw, 600 requests.",
    )
    same = np.array_equal(run.record.finished, base.record.finished) and order != "first come"
    news = (
        "nobody waits, so the order changes nothing"
        if same
        else f"{percent(share)} within the SLO, the unluckiest waits {said(longest)}"
    )
    return Result(
        (curve, groups, met), f"{order[0].upper()}{order[1:]} at {rate:g} requests/s with {max_bs} places: {news}."
    )


FIRST_COME = "pinned: first come, first served"


def _p99(result: Result, name: str) -> float:
    """Return the P99 of TTFT that a curve shows, s."""
    curve = result.panel("ttft").curve(name)
    return float(curve.x[curve.y.index(0.99)])


LAB = Lab(
    "ch09-order",
    "Who goes first, and who pays",
    (
        Control("rate", "Arrival rate", (16, 24, 32, 40, 48, 64), 40, "requests/s"),
        Control("max_bs", "Places (max_bs)", (32, 64, 128, 256), 64),
        Control("order", "Order of the queue", tuple(ORDERS), "first come"),
    ),
    compute,
    predict=Prediction(
        "Serving the shortest answers first lowers the median TTFT. What happens to the slowest one per cent?",
        ("the same gain", "no change", "the opposite: they wait longer"),
        right=lambda result: graded(
            _p99(result, "this order") / _p99(result, FIRST_COME),
            (0.95, "the same gain"),
            (1.05, "no change"),
            beyond="the opposite: they wait longer",
        ),
        why=lambda result: result.panel("ttft").text,
        reveal={"order": "shortest"},
    ),
    numbers=("paper",),
    presets={
        "shortest first": {"order": "shortest"},
        "a lottery": {"order": "random"},
        "a poor prophet": {"order": "predicted, σ 2"},
    },
)
