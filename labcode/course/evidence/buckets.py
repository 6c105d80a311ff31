"""Chapter 5's length buckets: chat prompts that all want the same number of tokens back, under any price of a step."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labcode import workload
from labcode.experiments.saturation import drain_rate
from labcode.results.metrics import percentile
from labcode.results.run import Run
from labcode.simulate import simulate
from labcode.simulation.batches import BatchRules
from labcode.workload import Workload

LONGEST, OUTPUT, MAX_BS = 2048, 32, 16
#: The prices of a step under which a ranking has to stand: name -> options of `simulate`.
PRICES: dict[str, dict[str, str]] = {
    "H100, paper": {"gpu": "h100", "cost": "paper"},
    "H100, smooth": {"gpu": "h100", "cost": "smooth"},
    "A100, paper": {"gpu": "a100-80", "cost": "paper"},
    "A100, smooth": {"gpu": "a100-80", "cost": "smooth"},
    "A100, measured": {"gpu": "a100-80", "cost": "measured"},
}


@lru_cache
def edges(buckets: int) -> tuple[int, ...]:
    """Return edges of `buckets` buckets with as many chat prompts in each, in tokens."""
    prompts = workload.chat(n=5000, seed=99).prompt
    cuts = np.quantile(prompts, np.arange(1, buckets) / buckets)
    return tuple(int(c) for c in np.unique(np.round(cuts)))


def prompts_only(n: int, rate: float, seed: int) -> Workload:
    """Return chat prompts, cut at `LONGEST` tokens, that all want `OUTPUT` tokens: only prompts differ in length."""
    chat = workload.chat(n=n, rate=rate, seed=seed)
    return workload.from_arrays(chat.arrival, np.minimum(chat.prompt, LONGEST), OUTPUT)


def options(buckets: int, max_wait: float = 0.0, **price: Any) -> dict[str, Any]:
    """Return the options of `simulate` for so many buckets and a longest wait in seconds."""
    rules = BatchRules(padded=True, edges=edges(buckets), max_wait=max_wait)
    return {"engine": "bucketed", "max_bs": MAX_BS, "memory": "unlimited", "batch": rules} | price


def ttft(run: Run) -> NDArray[np.float64]:
    """Return the TTFT of every request in s; quicker than the whole table."""
    return run.record.first_token - run.load.arrival


def median_ttft(
    buckets: int, max_wait: float, rate: float, n: int = 3000, seeds: Sequence[int] = range(5), **price: Any
) -> float:
    """Return the median TTFT in s, mean over the seeds."""
    settings = options(buckets, max_wait, **price)
    return float(np.mean([percentile(ttft(simulate(prompts_only(n, rate, seed), **settings)), 50) for seed in seeds]))


@lru_cache
def drain(buckets: int, price: str = "H100, paper", n: int = 3000, seeds: int = 3) -> float:
    """Return the drain rate in requests/s under one of `PRICES`, mean over the seeds."""
    settings = options(buckets, 0.0, **PRICES[price])
    return float(np.mean([drain_rate(prompts_only(n, 8.0, seed), **settings) for seed in range(seeds)]))


def occupancy(run: Run) -> tuple[float, float]:
    """Return the mean batch size and the useful share of the computed prompt tokens."""
    batch, tokens = run.record.segments["n_prefill"], run.record.segments["prefill_tokens"]
    return float(batch[batch > 0].mean()), float(run.load.prompt.sum() / tokens.sum())
