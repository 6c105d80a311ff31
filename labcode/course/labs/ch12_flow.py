"""Lab of chapter 12: who takes pages lets more in and loses some again; who reserves never does. Under one clock."""

from __future__ import annotations

from functools import cache

import numpy as np

from labcode import hardware, simulate, workload
from labcode.cost import paper
from labcode.course.labs.shared_panels import first_tokens, ttft_by_request
from labcode.labkit.flow import Flow, lane_of
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.watch import Watched
from labcode.labkit.words import counted
from labcode.results.run import Run
from labcode.scheduler.preemption import Link, Preemption, fewest_preemptions, latest_arrival, least_computed

COUNT, SEATS, BLOCK = 18, 8, 16
VICTIMS = {
    "the last to come": latest_arrival,
    "fewest preemptions": fewest_preemptions,
    "least computed": least_computed,
}
ACTIONS = ("recompute", "swap")


@cache
def requests() -> workload.Workload:
    """Return 18 requests with short prompts and answers that grow beyond them."""
    rng = np.random.default_rng(5)
    arrival = np.cumsum(rng.exponential(1 / 60, COUNT))
    return workload.from_arrays(arrival - arrival[0], rng.integers(20, 60, COUNT), rng.integers(30, 110, COUNT))


@cache
def serve(blocks: int, action: str | None, victim: str) -> tuple[Run, Watched]:
    """Serve them on a paper H100 from a pool of `blocks`; without an action each reserves what it will need."""
    load, model = requests(), hardware.model("llama3-8b")
    clock = Watched(load.output.tolist(), paper(model, "h100"), Link(25e9, model.kv_bytes_per_token))
    way = {"memory": "oracle"}
    if action is not None:
        way = {"memory": f"paged:{BLOCK}", "preemption": Preemption(VICTIMS[victim], action)}  # type: ignore[dict-item]
    run = simulate(load, max_bs=SEATS, capacity=blocks * BLOCK, executor=clock, **way)  # type: ignore[arg-type]
    return run, clock


def seated(run: Run) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return times (s) and how many are in the running batch from then on."""
    s = run.record.segments
    return (*s["start"].tolist(), float(s["end"][-1])), (*(s["n_prefill"] + s["n_decode"]).tolist(), 0)


def compute(blocks: int, action: str, victim: str) -> Result:
    """Serve the same requests with a reservation and with pages."""
    oracle = "Reserved (oracle)"
    (kept, before), (paged, clock) = serve(blocks, None, victim), serve(blocks, action, victim)
    lanes = (
        lane_of(kept, oracle, SEATS, BLOCK, lambda prompt, output: prompt + output - 1, watched=before),
        lane_of(paged, f"Pages, {action}", SEATS, BLOCK, watched=clock),
    )
    lost, again = int(paged.record.preemptions.sum()), int(paged.record.recomputed.sum())
    base, here = first_tokens(kept), first_tokens(paged)
    ends = [run.record.finished.max() for run in (kept, paged)]
    longest = 1e3 * float(np.nanmax(paged.largest_itl()))
    wait = ttft_by_request(
        "pages",
        here,
        "reserved",
        base,
        f"On average {here.mean():.0f} ms with pages and {base.mean():.0f} ms with reservations.",
    )
    places = Panel(
        "seats",
        "Who runs",
        Axis("Time", "s", key="time"),
        Axis("Requests"),
        (
            Series("pages", "step", *seated(paged)),
            Series("reserved", "step", *seated(kept), role="baseline"),
        ),
        text=f"All is done after {ends[1]:.2f} s with pages and after {ends[0]:.2f} s with reservations. "
        f"With pages {counted(lost, 'preemptions')}"
        + (f", {again:,} tokens computed again" if action == "recompute" else "")
        + f"; the longest pause between two tokens is {longest:.0f} ms.",
    )
    flow = Flow("The same requests, reserved and in pages", lanes, round(0.4 * float(min(ends)), 4))
    return Result(
        (wait, places),
        f"{blocks} blocks, {action}, victim {victim}: {counted(lost, 'preemptions')}; all is done after "
        f"{ends[1]:.2f} s with pages and {ends[0]:.2f} s with reservations.",
        flow,
    )


def _end(result: Result) -> float:
    """Return the time until all is done with pages as a multiple of that with reservations."""
    panel = result.panel("seats")
    return float(panel.curve("pages").x[-1] / panel.curve("reserved").x[-1])


LAB = Lab(
    "ch12-flow",
    "Losing a place and coming back",
    (
        Control("blocks", "Blocks in the pool", (20, 28, 40, 64), 64),
        Control("action", "What is done with a victim", ACTIONS, "recompute"),
        Control("victim", "Who loses its place", tuple(VICTIMS), "the last to come"),
    ),
    compute,
    predict=Prediction(
        "Eighteen requests share a pool of 28 blocks of 16 tokens. With reservations, made by an oracle, nobody is "
        "preempted. With pages more are let in, and whoever came last is thrown out when the pool is full. Which is "
        "done with all requests first, in this draw?",
        ("pages, by more than 5 %", "within 5 % of each other", "reservations, by more than 5 %"),
        right=lambda result: graded(
            _end(result),
            (0.95, "pages, by more than 5 %"),
            (1.05, "within 5 % of each other"),
            beyond="reservations, by more than 5 %",
        ),
        why=lambda result: f"{result.panel('seats').text} {result.panel('ttft').text}",
        reveal={"blocks": 28},
    ),
    numbers=("paper",),
    presets={
        "hardly any room": {"blocks": 20},
        "swapped": {"blocks": 20, "action": "swap"},
        "room for all": {"blocks": 64},
    },
    scaled_by=("blocks",),
)
