"""Prefill and decode on GPUs of their own against the same four GPUs with chunks; ``python -m`` this to record it.

The runs take a minute, so their results are kept in ``split.csv``; a test computes some of them again.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from labcode import workload
from labcode.cluster import simulate_cluster, simulate_disaggregated
from labcode.cost import hardware
from labcode.experiments.saturation import drain_rate
from labcode.results.metrics import SLO
from labcode.scheduler.preemption import Link

RECORD = Path(__file__).with_name("split.csv")
COSTS = ("paper", "smooth", "measured")
GPUS, REQUESTS, SEEDS = 4, 300, 3
SHARES = (0.3, 0.5, 0.7)  # of what the four drain with chunks of 512
KV = hardware.model("llama3-8b").kv_bytes_per_token
#: A relaxed pair of limits and a tight one: seconds to the first token, and for every gap after it.
LIMITS = {"loose": SLO(ttft=2.0, tpot=None, itl=0.1), "tight": SLO(ttft=1.0, tpot=None, itl=0.03)}
#: Name -> engines for prefill and decode and bytes/s of the link, or the token budget of four that do both.
WAYS: dict[str, tuple[int, int, float] | int | None] = {
    "whole prompts": None,
    "chunks of 192": 192,
    "chunks of 256": 256,
    "chunks of 512": 512,
    "1 + 3, 50 GB/s": (1, 3, 50e9),
    "2 + 2, 50 GB/s": (2, 2, 50e9),
    "3 + 1, 50 GB/s": (3, 1, 50e9),
    "2 + 2, 1 GB/s": (2, 2, 1e9),
}


def engine(cost: str) -> dict[str, Any]:
    """Return the options of every engine."""
    return {"gpu": "a100-80", "memory": "oracle", "cost": cost}


def chunked(budget: int) -> dict[str, Any]:
    """Return the options of prompts in chunks; a budget holds no more decodes than it has tokens."""
    return {"prefill": "chunked", "token_budget": budget, "max_bs": min(256, budget)}


@cache
def pace(cost: str) -> float:
    """Return what one engine with chunks of 512 drains of the long-context load, in requests/s."""
    load = workload.long_context(1500, 1.0, 9)
    return drain_rate(load, **chunked(512), **engine(cost))


def in_time(way: str, cost: str, share: float, seed: int) -> dict[str, float]:
    """Return which share of the requests is within each pair of limits, one draw."""
    load, how = workload.long_context(REQUESTS, share * GPUS * pace(cost), seed), WAYS[way]
    if isinstance(how, tuple):
        run: Any = simulate_disaggregated(load, how[0], how[1], Link(how[2], KV), **engine(cost))
    else:
        chunks = {} if how is None else chunked(how)
        run = simulate_cluster(load, GPUS, "least_requests", **chunks, **engine(cost))
    return {name: run.attainment(slo) for name, slo in LIMITS.items()}


def record() -> None:
    """Run everything and write it down."""
    rows = [
        {"way": way, "cost": cost, "share": share, "seed": seed} | in_time(way, cost, share, seed)
        for way in WAYS
        for cost in COSTS
        for share in SHARES
        for seed in range(SEEDS)
    ]
    pd.DataFrame(rows).to_csv(RECORD, index=False, lineterminator="\n", float_format="%.6f")


def recorded(limits: str) -> pd.DataFrame:
    """Return the recorded share in time (per cent, mean of the seeds): a row a way, columns by load and cost."""
    rows = pd.read_csv(RECORD)
    table = rows.pivot_table(index="way", columns=["share", "cost"], values=limits, aggfunc="mean")
    return (100 * table).reindex(index=list(WAYS), columns=list(COSTS), level="cost")


if __name__ == "__main__":
    record()
