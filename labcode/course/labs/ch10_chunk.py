"""Lab of chapter 10: the token budget against the waiting for the first token, the pauses, and the pace."""

from __future__ import annotations

from functools import cache

from labcode import simulate, workload
from labcode.course.labs.shared_panels import Compared, said
from labcode.experiments.saturation import drain_rate
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.results.metrics import percentile, weighted_percentile
from labcode.results.run import Run

BUDGETS = (256, 512, 1024, 2048, 4096)
COSTS = {"paper": "alt1", "smooth": "alt2", "measured": "ours"}
WHOLE = BUDGETS[-1]  # no prompt is longer
PLACES = 256


@cache
def serve(budget: int, rate: float, cost: str) -> Run:
    """Serve 600 chat requests on an A100 with oracle reservation, prompts cut to the budget."""
    load = workload.chat(n=600, rate=1.0, seed=0).at_rate(rate)
    return simulate(load, gpu="a100-80", cost=cost, memory="oracle", max_bs=PLACES, prefill="chunked",
                    token_budget=budget)  # fmt: skip


@cache
def pace(budget: int, cost: str) -> float:
    """Return the drain rate, requests/s: 1,500 requests, seed 0."""
    load = workload.chat(n=1500, rate=1.0, seed=0)
    return drain_rate(load, gpu="a100-80", cost=cost, memory="oracle", max_bs=PLACES, prefill="chunked",
                      token_budget=budget)  # fmt: skip


def compute(budget: int, rate: float, cost: str) -> Result:
    """Serve the same requests within this budget, and within one that holds the longest prompt."""
    run, base = serve(budget, rate, cost), serve(WHOLE, rate, cost)
    longest, p99 = (weighted_percentile(*run.itl(), q) for q in (100, 99))
    waits = run.record.first_token - run.load.arrival
    both = Compared(run, base, "this budget", "pinned: budget 4096")
    paces = {name: tuple(pace(b, name) for b in BUDGETS) for name in COSTS}
    here = pace(budget, cost)
    rates = Panel(
        "pace",
        "What the engine keeps up with, by budget",
        Axis("Token budget", "tokens", "log"),
        Axis("Drain rate", "requests/s", limits=(0, 25)),
        tuple(Series(f"{name} cost", "line", BUDGETS, paces[name], role=role) for name, role in COSTS.items()),
        marks=(Mark("point", (budget, here), "now"), Mark("hline", rate, "arrivals")),
        text=f"The engine keeps up with {here:.1f} requests/s here, with {pace(WHOLE, cost):.1f} at a budget of "
        f"{WHOLE} (one draw).",
    )
    return Result(
        (
            both.itl_panel(f"P99 {said(p99)}, longest {said(longest)}."),
            both.ttft_panel(f"Median {said(percentile(waits, 50))}, P99 {said(percentile(waits, 99))}."),
            rates,
        ),
        f"Budget {budget}, {cost} cost, {rate:g} requests/s: longest pause {said(longest)}, "
        f"median TTFT {said(percentile(waits, 50))}.",
    )


def _change(result: Result) -> float:
    """Return by which factor the pace at a budget of 256 differs from that at 4096, under measured kernels."""
    curve = result.panel("pace").curve("measured cost")
    return curve.at(256.0) / curve.at(float(WHOLE))


LAB = Lab(
    "ch10-chunk",
    "A budget of tokens",
    (
        Control("budget", "Token budget", BUDGETS, 1024, "tokens"),
        Control("rate", "Arrival rate", (4, 8, 12, 16), 8, "requests/s"),
        Control("cost", "Step times", tuple(COSTS), "measured"),
    ),
    compute,
    predict=Prediction(
        "An A100 with measured kernels, at most 256 new tokens in a step instead of whole prompts. The pauses get "
        "shorter. What happens to the rate that the engine keeps up with?",
        ("it rises by more than 5 %", "it stays within 5 %", "it falls by more than 5 %"),
        right=lambda result: graded(
            _change(result),
            (0.95, "it falls by more than 5 %"),
            (1.05, "it stays within 5 %"),
            beyond="it rises by more than 5 %",
        ),
        why=lambda result: f"{result.panel('pace').text} The pauses: {result.panel('itl').text}",
        reveal={"budget": 256},
    ),
    numbers=("paper",),
)
