"""The flagship lab: four knobs of continuous batching on a chat load, against Orca with everything reserved."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np

from labcode import simulate, workload
from labcode.course.labs.shared_panels import WAITING, Compared, over_time, said, what_binds
from labcode.experiments.saturation import drain_rate
from labcode.labkit.challenge import Challenge
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction
from labcode.labkit.words import percent
from labcode.results.metrics import SLO, percentile, weighted_percentile
from labcode.results.run import Run

GOAL = SLO(ttft=1.0, tpot=0.050)
RATES = (4, 8, 16, 20, 24, 32, 40, 48, 64, 80)
MEMORIES = ("max:8192", "max:4096", "pow2", "oracle")
PINNED: dict[str, Any] = {"max_bs": 256, "memory": "max:8192", "prefill": "mixed"}
PINNED_NAME = "pinned: reserve 8192, 256 places, mixed"
WAYS = {"mixed": "mixed", "prefill first": "prefill_first"}


@lru_cache
def requests() -> workload.Workload:
    """Return the 600 chat requests of this lab, at one a second."""
    return workload.chat(n=600, rate=1.0, seed=1)


@lru_cache(maxsize=64)
def serve(rate: float, max_bs: int, memory: str, prefill: str) -> Run:
    """Serve the requests at a rate."""
    return simulate(requests().at_rate(rate), max_bs=max_bs, memory=memory, prefill=prefill)


@cache
def keeps_up(max_bs: int, memory: str, prefill: str) -> float:
    """Return the rate at which a queue that is never empty is worked off, requests/s."""
    load = workload.chat(n=3000, rate=1.0, seed=1)
    return drain_rate(load, max_bs=max_bs, memory=memory, prefill=prefill)


@cache
def attained(rate: float, max_bs: int, memory: str, prefill: str) -> float:
    """Return the share of submitted requests within the SLO."""
    return serve(rate, max_bs, memory, prefill).attainment(GOAL)


def compute(rate: float, max_bs: int, memory: str, prefill: str) -> Result:
    """Serve the same requests with these knobs, and with the pinned ones."""
    knobs: dict[str, Any] = {"max_bs": max_bs, "memory": memory, "prefill": WAYS[prefill]}
    run, pinned = serve(rate, **knobs), serve(rate, **PINNED)
    share, share_pinned = attained(rate, **knobs), attained(rate, **PINNED)
    median, p99 = (percentile(run.record.first_token - run.load.arrival, q) for q in (50, 99))
    longest = weighted_percentile(*run.itl(), 100)
    both = Compared(run, pinned, "these knobs", PINNED_NAME)
    ttft = both.ttft_panel(
        f"Half of the requests have their first token within {said(median)}, 99 % within {said(p99)}."
    )
    itl = both.itl_panel(f"The longest pause within an answer is {said(longest)}.")
    return Result(
        (ttft, itl, goodput_panel(rate, share, knobs), memory_panel(run, pinned)),
        f"{rate:g} requests/s: {percent(share)} within the SLO (pinned {percent(share_pinned)}), "
        f"median TTFT {said(median)}; "
        f"{WAITING[what_binds(run, max_bs)]}.",
    )


def goodput_panel(rate: float, share: float, knobs: dict[str, Any]) -> Panel:
    """Return attainment over the arrival rate, with the operating point."""
    ours = tuple(attained(r, **knobs) for r in RATES)
    base = tuple(attained(r, **PINNED) for r in RATES)
    pace = keeps_up(**knobs)
    kept = [r for r, s in zip(RATES, ours, strict=True) if s >= 0.9]
    text = (
        f"At least 90 % are within the SLO up to {kept[-1]:g} requests/s."
        if kept
        else "No rate here keeps 90 % within the SLO."
    )
    return Panel(
        "goodput",
        "Within the SLO, by arrival rate",
        Axis("Arrival rate", "requests/s"),
        Axis("Share of submitted requests", limits=(0, 1.2)),
        (
            Series("these knobs", "line", RATES, ours),
            Series(PINNED_NAME, "line", RATES, base, role="baseline"),
        ),
        marks=(
            Mark("hline", 0.9, "goal 90 %"),
            Mark("vline", pace, f"sustains {pace:.1f}"),
            Mark("point", (rate, share), "now"),
        ),
        text=f"{text} In the long run this setting keeps up with {pace:.1f}. One draw, 600 requests.",
    )


def memory_panel(run: Run, pinned: Run) -> Panel:
    """Return KV cache taken and written over the course of the run."""
    pool = run.record.capacity
    time, held = over_time(run, run.record.segments["kv_reserved"] / pool)
    _, written = over_time(run, run.kv_used_mean() / pool)
    base_time, base = over_time(pinned, pinned.record.segments["kv_reserved"] / pool)
    share, base_share = (tuple(100 * t / (at[-1] + at[0]) for t in at) for at in (time, base_time))
    most, mean = max(held), float(np.sum(written) / np.sum(held)) if sum(held) else float("nan")
    return Panel(
        "memory",
        "KV cache taken and written",
        Axis("Share of the run", "%", limits=(0, 100)),
        Axis("Share of the pool", limits=(0, 1.05)),
        (
            Series("taken", "line", share, held),
            Series("written", "area", share, written, role="alt1"),
            Series("pinned: taken", "line", base_share, base, role="baseline"),
        ),
        marks=(Mark("hline", 1.0, "the whole pool"),),
        text=f"Up to {percent(most)} of the pool is taken; of what is taken, {percent(mean)} is written.",
    )


#: Options of the question -> what each changes.
REPAIRS: dict[str, dict[str, Any]] = {
    "more places": {"max_bs": 512},
    "a smaller reservation": {"memory": "oracle"},
    "prefill first": {"prefill": "prefill_first"},
    "none of the three": {},
}


LAB = Lab(
    "ch09-knobs",
    "Four knobs of continuous batching",
    (
        Control("rate", "Arrival rate", RATES, 32, "requests/s"),
        Control("max_bs", "Places (max_bs)", (8, 32, 64, 128, 256, 512), 256),
        Control("memory", "KV reservation", MEMORIES, "max:8192"),
        Control("prefill", "Prefill joins", tuple(WAYS), "mixed"),
    ),
    compute,
    predict=Prediction(
        "At 32 requests/s and with 8192 tokens reserved for everyone, most requests miss the SLO. Which single knob "
        "repairs that?",
        tuple(REPAIRS),
        right=lambda result: next(
            (name for name, knob in REPAIRS.items() if attained(32, **(PINNED | knob)) >= 0.9), "none of the three"
        ),
        why=lambda result: (
            "Within the SLO: "
            + ", ".join(f"{name} {percent(attained(32, **(PINNED | knob)))}" for name, knob in REPAIRS.items() if knob)
            + f"; before {percent(attained(32, **PINNED))}. Most of what is reserved is never written."
        ),
        reveal={"memory": "oracle"},
    ),
    numbers=("paper",),
    presets={
        "as Orca shipped": {"memory": "max:8192"},
        "make it fail": {"memory": "max:8192", "rate": 80, "max_bs": 32},
        "repair it": {"memory": "pow2"},
    },
    challenge=Challenge(
        "Serve 48 requests/s with 90 % within the SLO, without an oracle.",
        lambda params, result: (
            params["rate"] == 48
            and params["memory"] != "oracle"
            and result.panel("goodput").curve("these knobs").at(48) >= 0.9
        ),
    ),
)
