"""Tables of chapter 9: places by Little's law, and what a number of places keeps up with and costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from labcode.cost import hardware
from labcode.experiments.saturation import drain_rate
from labcode.simulate import simulate
from labcode.workload import Workload, chat


def places_by_memory(load: Workload, memories: Sequence[str]) -> pd.DataFrame:
    """Return for each policy who runs together (C), how long one stays (R), C / R, and the drain rate beside it.

    The queue is never empty: R and TPOT are means over the middle half of the requests, C over the time in which
    somebody waits.
    """
    rows = {}
    middle = slice(len(load) // 3, 5 * len(load) // 6)
    for memory in memories:
        run = simulate(load.at_rate(1e6), memory=memory)
        part, steps = run.requests.iloc[middle], run.steps[run.steps.waiting > 0]
        together = np.average(steps.n_decode + steps.n_prefill, weights=steps.end - steps.start)
        stays = (part.finished - part.admitted).mean()
        rows[memory] = {
            "C: together": together,
            "R (s)": stays,
            "C / R": together / stays,
            "drain rate": drain_rate(load, memory=memory),
            "TPOT (ms)": 1000 * part.tpot.mean(),
        }
    return pd.DataFrame(rows).T


def places_by_size(
    places: Sequence[int], contexts: Sequence[int], seeds: int = 5, model: str = "llama3-8b", gpu: str = "h100"
) -> pd.DataFrame:
    """Return for each `max_bs` what it keeps up with on chat (an oracle's memory), and its decode steps (ms).

    A step that does not fit into the pool is NaN.
    """
    pool = hardware.kv_capacity(model, gpu)
    load, rows = chat(3000, 1.0, 0), {}
    middle = slice(len(load) // 3, 5 * len(load) // 6)
    for size in places:
        options: dict[str, Any] = {"model": model, "gpu": gpu, "memory": "oracle", "max_bs": size}
        full = simulate(load.at_rate(1e6), **options).requests.iloc[middle]
        rates = [drain_rate(chat(3000, 1.0, seed), **options) for seed in range(seeds)]
        row = {
            "keeps up with (req/s)": float(np.mean(rates)),
            "TPOT at that pace (ms)": 1000 * float(full.tpot.median()),
        }
        for context in contexts:
            step = hardware.step_cost(model, gpu, [hardware.SeqWork(1, context)] * size).time
            row[f"decode step at {context} (ms)"] = 1000 * step if size * context <= pool else float("nan")
        rows[size] = row
    return pd.DataFrame(rows).T
