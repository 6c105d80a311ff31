"""Where the conclusions of chapters 8 and 12 turn: other loads, limits, models and batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from labcode import workload
from labcode.course.evidence.fairness import both_waited_until, break_even, fair_queue, served, tokens_by, two_backlogs
from labcode.experiments.goodput import goodput
from labcode.experiments.saturation import drain_rate
from labcode.results.metrics import SLO
from labcode.results.timeline import OneStep
from labcode.scheduler.fair import BY_OUTPUT
from labcode.simulate import simulate
from labcode.simulation.batches import BatchRules
from labcode.workload import Workload

#: Loads on which chunks are compared with mixed steps: what makes one from a seed, and the options.
CHUNK_CASES: dict[str, tuple[Callable[[int], Workload], dict[str, Any]]] = {
    "chat, 256 places": (lambda seed: workload.chat(3000, 1.0, seed), {}),
    "long context, 256 places": (lambda seed: workload.long_context(1500, 1.0, seed), {}),
    "conversations, 64 places": (lambda seed: workload.azure_conv(1500, 1.0, seed), {"max_bs": 64}),
    "conversations, 256 places": (lambda seed: workload.azure_conv(1500, 1.0, seed), {}),
}

#: Prices of a step and the GPU for which each is known.
PRICES = {
    "paper, H100": ("paper", "h100"),
    "smooth, H100": ("smooth", "h100"),
    "measured, A100": ("measured", "a100-80"),
}

STATIC_PLACES = (128, 256, 512, 1024)


def chunks_elsewhere(budgets: Sequence[int] = (512, 1024), seeds: int = 2) -> pd.DataFrame:
    """Return the drain rate of chunks over that of mixed steps, by case and budget (rows) and price (columns).

    Memory is an oracle's, so that nothing else binds.
    """
    ratios: dict[str, dict[tuple[str, int], float]] = {}
    for price, (cost, gpu) in PRICES.items():
        ratios[price] = {}
        for name, (make, options) in CHUNK_CASES.items():
            fixed = {"gpu": gpu, "cost": cost, "memory": "oracle", **options}
            loads = [make(seed) for seed in range(seeds)]
            mixed = np.mean([drain_rate(load, **fixed) for load in loads])
            for budget in budgets:
                chunks = [drain_rate(load, prefill="chunked", token_budget=budget, **fixed) for load in loads]
                ratios[price][name, budget] = float(np.mean(chunks) / mixed)
    return pd.DataFrame(ratios).rename_axis(["load", "budget"])


def borne(load: Workload, slo: SLO, **options: Any) -> float:
    """Return the rate (requests/s) that is kept up *and* keeps the promise for nine in ten."""
    return min(drain_rate(load, **options), goodput(load, slo, **options).rate)


def static_elsewhere(limits: Sequence[float] = (15.0, 60.0), n: int = 3000, seeds: int = 2) -> pd.DataFrame:
    """Return what Orca (Max) bears against the best static batch with released places, by the TTFT limit (s)."""
    released = BatchRules(keep_places=False)
    loads = [workload.chat(n, 1.0, seed) for seed in range(seeds)]
    rows = {}
    for limit in limits:
        slo = SLO(ttft=limit, tpot=0.050)
        ours = np.mean([borne(load, slo, memory="max:8192") for load in loads])
        theirs = {
            places: np.mean(
                [borne(x, slo, engine="static", max_bs=places, memory="unlimited", batch=released) for x in loads]
            )
            for places in STATIC_PLACES
        }
        best = max(theirs, key=lambda places: theirs[places])
        rows["Orca (Max) / static", f"TTFT within {limit:g} s, {best} places"] = (ours, theirs[best])
    return _ratios(rows)


def tpot_elsewhere(limits: Sequence[float] = (0.050, 0.025, 0.015), places: int = 512, seeds: int = 2) -> pd.DataFrame:
    """Return the largest rate with `places` against the drain rate, by the TPOT limit (s); TTFT within a second."""
    loads = [workload.chat(3000, 1.0, seed) for seed in range(seeds)]
    options: dict[str, Any] = {"memory": "oracle", "max_bs": places}
    drained = float(np.mean([drain_rate(load, **options) for load in loads]))
    rows = {}
    for limit in limits:
        found = np.mean([goodput(load, SLO(ttft=1.0, tpot=limit), **options).rate for load in loads])
        rows["largest rate / drain rate", f"TPOT within {1000 * limit:g} ms, {places} places"] = (float(found), drained)
    return _ratios(rows)


def _ratios(rows: dict[tuple[str, str], tuple[Any, Any]]) -> pd.DataFrame:
    """Return pairs of rates with their ratio, a row a pair."""
    table = pd.DataFrame(rows, index=["the one (req/s)", "the other (req/s)"]).T
    return table.assign(ratio=table.iloc[:, 0] / table.iloc[:, 1])


def swap_bandwidths(models: Sequence[str], gpus: Sequence[str], context: int = 1024) -> pd.DataFrame:
    """Return the bandwidth (GB/s) above which swapping beats recomputing `context` positions, by model and GPU."""
    return pd.DataFrame(
        {gpu: {model: break_even(context, gpu=gpu, model=model) / 1e9 for model in models} for gpu in gpus}
    )


def shares_by_places(places: Sequence[int], n: int = 1500) -> pd.DataFrame:
    """Return tenant B's share of the output tokens (%) while both wait, when each should have one half.

    Prompts of 100 tokens; answers of 10 for A and of 100 for B; one second a step.
    """
    rows: dict[int, dict[str, float]] = {}
    for count in places:
        rows[count] = {}
        for queue in ("drr", "vtc"):
            load = two_backlogs(n, n, (100, 100), (10, 100))
            order = fair_queue(queue, "output tokens")
            run = simulate(load, memory="unlimited", max_bs=count, cost=OneStep(), order=order)
            until = both_waited_until(run)
            rows[count][f"B's share, {queue} (%)"] = 100 * served(run, tokens_by(run, until), BY_OUTPUT)["B"]
            rows[count][f"window, {queue} (steps)"] = until
    return pd.DataFrame(rows).T.rename_axis("places")
