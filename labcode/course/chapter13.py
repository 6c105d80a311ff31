"""What chapter 13 computes: its two loops and their tails, which of its claims survive, and the minutes before help."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from labcode import hardware, simulate, workload
from labcode.cost import as_cost
from labcode.experiments.cost_table import COSTS
from labcode.experiments.intervals import batch_means, quantile_interval, t_interval
from labcode.experiments.saturation import drain_rate, waiting_at
from labcode.results.metrics import percentile
from labcode.results.run import Run
from labcode.scheduler import Budgets, Request, Scheduler, memory
from labcode.scheduler.admission import bounded_queue
from labcode.simulation.clock import PaperClock
from labcode.simulation.closed_loop import closed_loop
from labcode.workload import Workload

ENGINE = {"memory": "paged:16", "watermark": 0.01, "max_bs": 64}
#: The claims are held under three costs, so on the one GPU for which kernels were measured.
GPU = "a100-80"


def closed(
    load: Workload, users: int, think: float, seed: int = 0, places: int = 64, cost: str = "paper", on: str = "h100"
) -> pd.DataFrame:
    """Let users send the requests of `load` to Llama-3-8B, pages of 16 tokens."""
    model, gpu = hardware.model("llama3-8b"), hardware.gpu(on)
    scheduler = Scheduler(memory("paged:16", hardware.kv_capacity(model, gpu), 0.01), budgets=Budgets(places))
    clock = PaperClock(load.output.tolist(), as_cost(cost, model, gpu))
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


@lru_cache(maxsize=4)
def pace(cost: str) -> float:
    """Return the drain rate of the chat workload, requests/s."""
    return drain_rate(workload.chat(1500, 1, 0), cost=cost, gpu=GPU, **ENGINE)  # type: ignore[arg-type]


def loops_apart(cost: str, share: float, seed: int, think: float = 5.0, n: int = 900) -> float:
    """Return how many times the open loop's P99 of the TTFT is the closed one's, at a share of the drain rate."""
    rate = share * pace(cost)
    load = workload.chat(n, rate, seed)
    opened = simulate(load, cost=cost, gpu=GPU, **ENGINE).requests  # type: ignore[arg-type]
    users = closed(load, round(rate * think), think, seed, cost=cost, on=GPU)
    return percentile(opened["ttft"], 99) / percentile(users["ttft"], 99)


def survivors(cost: str, seed: int) -> float:
    """Return the P90 (end to end) of those who finish in the first 40 s of an overload, as a share of the true P90."""
    load, end = workload.chat(1500, 1.3 * pace(cost), seed), 40.0
    options = {"cost": cost, "gpu": GPU} | ENGINE
    cut, whole = (simulate(load, **options, **more).requests for more in ({"stop_at": end}, {}))  # type: ignore[arg-type]
    seen, truth = (part["finished"] - part["arrival"] for part in (cut, whole[whole["arrival"] < end]))
    return percentile(seen, 90) / percentile(truth, 90)


def coverage(rate: float, runs: int = 40) -> pd.Series:
    """Return how often two kinds of interval hold the mean TTFT of all runs, as shares: nominal is 0.95."""
    loads = [workload.chat(6000, rate, seed) for seed in range(runs)]
    found = [simulate(load, **ENGINE).requests["ttft"].to_numpy()[1000:] for load in loads]  # type: ignore[arg-type]
    truth = float(np.mean([ttft.mean() for ttft in found]))
    naive, honest = (np.mean([truth in kind(ttft) for ttft in found]) for kind in (t_interval, batch_means))
    return pd.Series({"as if independent": float(naive), "batch means": float(honest)})


def width(cost: str, seed: int) -> float:
    """Return how many times wider the interval by batch means is than the one that takes requests for independent."""
    load = workload.chat(6000, 0.9 * pace(cost), 100 + seed)
    ttft = simulate(load, cost=cost, gpu=GPU, **ENGINE).requests["ttft"].to_numpy()[1000:]  # type: ignore[arg-type]
    return batch_means(ttft).half / t_interval(ttft).half


CLAIMS: dict[str, Callable[[str, int], float]] = {
    "open / closed P99 at 60 %": lambda cost, seed: loops_apart(cost, 0.6, seed),
    "open / closed P99 at 130 %": lambda cost, seed: loops_apart(cost, 1.3, seed),
    "survivors' P90 / true P90": survivors,
    "width by batch means / naive": width,
}


def claims(seeds: int = 5, costs: Sequence[str] = COSTS) -> pd.DataFrame:
    """Return the smallest and the largest value over the seeds: a row a claim, two columns a cost."""
    rows = {}
    for name, measure in CLAIMS.items():
        found = {cost: [measure(cost, seed) for seed in range(seeds)] for cost in costs}
        rows[name] = {
            (cost, what): pick(found[cost]) for cost in costs for what, pick in (("least", min), ("most", max))
        }
    return pd.DataFrame.from_dict(rows, orient="index")


#: Overload until new capacity is warm, then what is left for this engine; shares of the drain rate, and seconds.
BEFORE, AFTER, WARM, END = 1.3, 0.65, 60.0, 150.0
PATIENCE = 2.0


def rush(cost: str, seed: int) -> Workload:
    """Return chat requests at 1.3 times the drain rate for a minute, and at half of that from then on."""
    rate, rng = pace(cost), np.random.default_rng(seed)
    first = workload.chat(round(BEFORE * rate * WARM), BEFORE * rate, seed)
    n = round(AFTER * rate * (END - WARM))
    rest = workload.chat(n, AFTER * rate, 1000 + seed)
    arrival = np.concatenate([first.arrival, first.arrival[-1] + rng.exponential(1 / (AFTER * rate)) + rest.arrival])
    prompt, output = (np.concatenate([getattr(first, key), getattr(rest, key)]) for key in ("prompt", "output"))
    return workload.from_arrays(arrival, prompt, output)


def before_help(cost: str = "paper", seeds: int = 3) -> pd.DataFrame:
    """Return what six policies make of a minute of overload before new capacity is warm; means over seeds.

    The least share in time over the seeds is in the last column: what a policy can be relied on for.
    """
    most = round(PATIENCE * pace(cost))
    limit, whole = {"expire": "waiting"}, {"expire": "always"}
    # name: when a request expires (s after its arrival), and the options of the run
    policies: dict[str, tuple[float | None, dict[str, Any]]] = {
        "everybody waits": (None, {}),
        "deadline on the whole answer, 22 s": (PATIENCE + 20.0, whole),
        "queue budget, 2 s of work": (None, {"checks": (bounded_queue(most),)}),
        "queue budget, 1 s of work": (None, {"checks": (bounded_queue(most // 2),)}),
        "limit on waiting, 2 s": (PATIENCE, limit),
        "last come, first served": (None, {"order": last_come_first}),
    }
    rows: dict[str, list[dict[str, float]]] = {}
    for seed in range(seeds):
        load = rush(cost, seed)
        for name, (patience, options) in policies.items():
            asked = load if patience is None else dataclasses.replace(load, deadline=load.arrival + patience)
            run = simulate(asked, cost=cost, gpu=GPU, **options, **ENGINE)  # type: ignore[arg-type]
            rows.setdefault(name, []).append(_helped(run))
    frames = {name: pd.DataFrame(found) for name, found in rows.items()}
    table = pd.DataFrame({name: frame.mean() for name, frame in frames.items()}).T
    return table.assign(**{"in time, least": [frame["in time"].min() for frame in frames.values()]})


def last_come_first(request: Request) -> float:
    """Return what to sort by, so that the youngest request goes first."""
    return -request.arrival


def _helped(run: Run) -> dict[str, float]:
    """Return what became of the requests of a rush, and how long after help came the backlog was gone."""
    requests, times = run.requests, np.arange(WARM, END + 60, 1.0)
    good = (requests["outcome"] == "finished") & (requests["ttft"] <= PATIENCE)
    empty = times[waiting_at(run, times) == 0]
    return {
        "in time": float(good.mean()),
        "refused or ended": float((requests["outcome"] != "finished").mean()),
        "TTFT P99, s": percentile(requests["ttft"], 99),
        "backlog gone after, s": float(empty[0] - WARM) if len(empty) else float("nan"),
    }
