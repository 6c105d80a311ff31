"""Lab of chapter 08: static batching and two Orcas over the arrival rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from labcode import simulate, workload
from labcode.labkit.challenge import Challenge
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.words import percent
from labcode.results.metrics import weighted_percentile
from labcode.results.run import Run

COUNT, SEEDS, TPOT, TARGET = 600, 3, 0.05, 0.9
RATES = (0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 24, 32, 48, 64, 96)
ORCAS: dict[str, tuple[dict[str, Any], str]] = {
    "Orca (Max)": ({"memory": "max:8192"}, "alt1"),
    "Orca (Oracle)": ({"memory": "oracle"}, "ours"),
}
PERCENTILES = {"median": 50, "P90": 90, "P99": 99}


@dataclass(frozen=True)
class Point:
    """One system at one rate, all seeds together: each TTFT (s), whether TPOT is kept, tokens/s, P99 of ITL (s)."""

    ttft: np.ndarray
    smooth: np.ndarray
    tokens_per_s: float
    itl_p99: float


def serve(places: int, system: str, rate: float, seed: int) -> Run:
    """Run 600 chat requests through one of the three systems; `places` are the static engine's."""
    load = workload.chat(COUNT, rate, seed)
    if system in ORCAS:
        return simulate(load, max_bs=256, **ORCAS[system][0])
    return simulate(load, engine="static", max_bs=places, memory="unlimited")


@lru_cache(maxsize=512)
def point(places: int, system: str, rate: float) -> Point:
    """Measure a system at a rate."""
    runs = [serve(places, system, rate, seed) for seed in range(SEEDS)]
    with np.errstate(invalid="ignore", divide="ignore"):
        tpot = np.concatenate([(r.record.last_token - r.record.first_token) / (r.load.output - 1) for r in runs])
    tokens = [r.load.output.sum() / (np.nanmax(r.record.finished) - r.load.arrival[0]) for r in runs]
    values, weights = zip(*(r.itl() for r in runs), strict=True)
    itl = weighted_percentile(np.concatenate(values), np.concatenate(weights), 99)
    ttft = np.concatenate([r.record.first_token - r.load.arrival for r in runs])
    return Point(ttft, ~(tpot > TPOT), float(np.mean(tokens)), itl)


def systems(places: int) -> dict[str, tuple[int, str]]:
    """Return name -> (places, role); only the static engine has its places turned."""
    return {f"static, {places} places": (places, "baseline")} | {name: (0, role) for name, (_, role) in ORCAS.items()}


def over_rates(places: int, measure: Callable[[Point], float]) -> tuple[Series, ...]:
    """Return a queue a system of ``measure(point)`` over the rates."""
    return tuple(
        Series(
            "static" if own else name,
            "line",
            RATES,
            tuple(measure(point(own, name, rate)) for rate in RATES),
            role=role,
        )
        for name, (own, role) in systems(places).items()
    )


def compute(rate: float, places: int, limit: float, percentile: str) -> Result:
    """Measure three systems at all rates; read them at one."""
    q = PERCENTILES[percentile]
    met = over_rates(places, lambda p: float(np.mean((p.ttft <= limit) & p.smooth)))
    ttft = over_rates(places, lambda p: weighted_percentile(p.ttft, None, q))
    tokens = over_rates(places, lambda p: p.tokens_per_s)
    itl = over_rates(places, lambda p: p.itl_p99)
    at = RATES.index(rate)
    static, reserve, oracle = (s.y[at] for s in met)
    axis = Axis("Arrival rate", "req/s", "log")
    here = Mark("vline", rate, "now")
    panels = (
        Panel(
            "met",
            "Who keeps the SLO",
            axis,
            Axis("Requests within the SLO", limits=(0, 1.05)),
            met,
            (Mark("hline", TARGET, "target 90 %"), here),
            f"At {rate:g} req/s: static {percent(static)}, Orca (Max) {percent(reserve)}, oracle {percent(oracle)}.",
        ),
        Panel(
            "ttft",
            "Time to first token",
            axis,
            Axis("TTFT", "s", "log"),
            ttft,
            (Mark("hline", limit, f"SLO {limit:g} s"), here),
            f"{percentile} at {rate:g} req/s: " + ", ".join(f"{s.name} {s.y[at]:.3g} s" for s in ttft) + ".",
        ),
        Panel(
            "tokens",
            "Output throughput",
            axis,
            Axis("Tokens/s of 600 requests", "", "log"),
            tokens,
            (here,),
            f"At {rate:g} req/s: " + ", ".join(f"{s.name} {s.y[at]:,.0f}" for s in tokens) + " tokens/s.",
        ),
        Panel(
            "itl",
            "Slowest hundredth of the tokens",
            axis,
            Axis("P99 of ITL", "ms", "log"),
            tuple(Series(s.name, s.kind, s.x, tuple(1000 * y for y in s.y), role=s.role) for s in itl),
            (Mark("hline", 1000 * TPOT, "50 ms"), here),
            f"At {rate:g} req/s: " + ", ".join(f"{s.name} {1000 * s.y[at]:.1f} ms" for s in itl) + ".",
        ),
    )
    shares = {"static batching": static, "Orca (Max)": reserve, "oracle": oracle}
    holding = [name for name, share in shares.items() if share >= TARGET]
    who = f"{' and '.join(holding) or 'nobody'} keep{'s' * (len(holding) < 2)}"
    return Result(
        panels, f"At {rate:g} req/s with TTFT within {limit:g} s, {who} the promise for 90 % of the requests."
    )


LAB = Lab(
    "ch08-load-sweep",
    "Static batching and two Orcas under load",
    (
        Control("rate", "Read at arrival rate", (0.1, 1, 4, 8, 16, 32, 64, 96), 16, "req/s"),
        Control("places", "Places of the static batch", (1, 8, 32, 128), 128),
        Control("limit", "TTFT limit", (0.2, 0.5, 1, 2, 5, 20), 1, "s"),
        Control("percentile", "TTFT shown", tuple(PERCENTILES), "median"),
    ),
    compute,
    predict=Prediction(
        "One request a second is nothing to an H100. What share of the requests does a static batch of 128 places "
        "start within one second?",
        ("nearly none", "about two in five", "about two in three", "nearly all"),
        right=lambda result: graded(
            result.panel("met").curve("static").at(1),
            (0.15, "nearly none"),
            (0.52, "about two in five"),
            (0.85, "about two in three"),
            beyond="nearly all",
        ),
        why=lambda result: f"{result.panel('met').text} A new request waits until the whole batch before it is done.",
        reveal={"rate": 1},
    ),
    numbers=("paper",),
    presets={
        "one request a second": {"rate": 1},
        "a small static batch": {"rate": 4, "places": 8},
        "a patient client": {"limit": 20},
    },
    challenge=Challenge(
        "Find what the static batch needs to keep the promise for 90 % of the requests at 4 requests/s.",
        lambda params, result: params["rate"] == 4 and result.panel("met").curve("static").at(4) >= TARGET,
    ),
)
