"""What chapter 13's table of two loops needs: a closed loop on the paper GPU, and the tails of either."""

from __future__ import annotations

import pandas as pd

from labcode import hardware
from labcode.cost import as_cost
from labcode.experiments.intervals import quantile_interval
from labcode.results.metrics import percentile
from labcode.scheduler import Budgets, Scheduler, memory
from labcode.simulation.clock import PaperClock
from labcode.simulation.closed_loop import closed_loop
from labcode.workload import Workload


def closed(load: Workload, users: int, think: float, seed: int = 0, places: int = 64) -> pd.DataFrame:
    """Let users send the requests of `load` to Llama-3-8B on the paper H100, pages of 16 tokens."""
    model, gpu = hardware.model("llama3-8b"), hardware.gpu("h100")
    scheduler = Scheduler(memory("paged:16", hardware.kv_capacity(model, gpu), 0.01), budgets=Budgets(places))
    clock = PaperClock(load.output.tolist(), as_cost("paper", model, gpu))
    return closed_loop(scheduler, clock, load.prompt.tolist(), users, think, seed)


def tails(requests: pd.DataFrame, name: str = "open: ") -> dict[str, float]:
    """Return the rate of arrivals (requests/s) and two percentiles of the TTFT (s)."""
    rate = (len(requests) - 1) / (requests["arrival"].max() - requests["arrival"].min())
    return {
        f"{name}arrive, 1/s": rate,
        f"{name}TTFT P50, s": percentile(requests["ttft"], 50),
        f"{name}TTFT P99, s": percentile(requests["ttft"], 99),
    }


def fewest(q: float) -> int:
    """Return the fewest draws from which the 95 % interval of the q-th percentile has an upper end."""
    return next(n for n in range(1, 10_000) if quantile_interval(range(n), q)[2] < float("inf"))
