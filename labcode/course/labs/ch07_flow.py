"""Lab of chapter 07: the same requests through whole batches and through iterations, side by side under one clock."""

from __future__ import annotations

from functools import cache

import numpy as np

from labcode import simulate, workload
from labcode.course.labs.shared_panels import first_tokens, ttft_by_request
from labcode.labkit.flow import Flow, lane_of
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.results.run import Run

COUNT, POOL, BLOCK = 24, 3072, 32
LENGTHS = ("all alike", "short and long mixed", "one in six is long")


@cache
def requests(rate: float, lengths: str) -> workload.Workload:
    """Return 24 requests with about 16 output tokens each, few enough to watch every one."""
    rng = np.random.default_rng(7)
    arrival = np.cumsum(rng.exponential(1 / rate, COUNT))
    prompt = rng.integers(100, 300, COUNT)
    output = {
        LENGTHS[0]: np.full(COUNT, 16),
        LENGTHS[1]: rng.integers(4, 29, COUNT),
        LENGTHS[2]: np.where(np.arange(COUNT) % 6 == 2, 40, 11),
    }[lengths]
    return workload.from_arrays(arrival - arrival[0], prompt, output)


@cache
def serve(engine: str, rate: float, seats: int, lengths: str) -> Run:
    """Serve them on a paper H100 with a pool of 3072 tokens."""
    return simulate(requests(rate, lengths), engine=engine, max_bs=seats, memory="oracle", capacity=POOL)


def delivered(run: Run) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return times (s) and the tokens that have been delivered until then."""
    times = np.sort(np.concatenate([run.token_times(i) for i in range(COUNT)]))
    at = np.linspace(0, times[-1], 70)
    return tuple(at.tolist()), tuple(np.searchsorted(times, at, "right").astype(float).tolist())


def compute(rate: float, seats: int, lengths: str) -> Result:
    """Serve the same requests with both engines."""
    runs = {name: serve(name, rate, seats, lengths) for name in ("static", "continuous")}
    static, ours = (
        lane_of(
            run,
            {"static": "Static: whole batches", "continuous": "Continuous: every iteration"}[name],
            seats,
            BLOCK,
            lambda prompt, output: prompt + output,
            whole=name == "static",
        )
        for name, run in runs.items()
    )
    base, here = map(first_tokens, runs.values())
    wait = ttft_by_request(
        "continuous",
        here,
        "static",
        base,
        f"On average {here.mean():.0f} ms, and {base.mean():.0f} ms with whole batches, in this draw of arrivals.",
    )
    tokens = Panel(
        "tokens",
        "Tokens delivered",
        Axis("Time", "s", key="time"),
        Axis("Tokens"),
        (
            Series("continuous", "line", *delivered(runs["continuous"])),
            Series("static", "line", *delivered(runs["static"]), role="baseline"),
        ),
        text=f"All is delivered after {ours.end:.2f} s, and after {static.end:.2f} s with whole batches.",
    )
    flow = Flow("The same requests, two engines, one clock", (static, ours), round(0.35 * static.end, 4))
    return Result(
        (wait, tokens),
        f"{seats} seats, {rate:g} requests/s, {lengths}: the mean TTFT is {here.mean():.0f} ms instead of "
        f"{base.mean():.0f} ms, and all is done after {ours.end:.2f} s instead of {static.end:.2f} s.",
        flow,
    )


def _ratio(result: Result) -> float:
    """Return the static engine's mean TTFT as a multiple of the continuous engine's."""
    ttft = result.panel("ttft")
    return float(np.mean(ttft.curve("static").y) / np.mean(ttft.curve("continuous").y))


LAB = Lab(
    "ch07-flow",
    "From the queue to the seats and out",
    (
        Control("rate", "Arrival rate", (10, 20, 40, 80), 40, "requests/s"),
        Control("seats", "Seats", (2, 4, 8), 4),
        Control("lengths", "Answers", LENGTHS, LENGTHS[2]),
    ),
    compute,
    predict=Prediction(
        "The same 24 requests reach two engines with four seats each; one answer in six is long. One engine keeps a "
        "batch until its longest answer is done, the other fills a seat as soon as it is free. How much longer do "
        "requests wait for their first token with whole batches, on average?",
        ("no longer", "about twice as long", "about ten times as long"),
        right=lambda result: graded(
            _ratio(result), (1.2, "no longer"), (4.5, "about twice as long"), beyond="about ten times as long"
        ),
        why=lambda result: f"{result.panel('ttft').text} {result.panel('tokens').text}",
    ),
    numbers=("paper",),
    presets={
        "all alike": {"lengths": LENGTHS[0]},
        "two seats, a flood": {"seats": 2, "rate": 80},
        "seats to spare": {"seats": 8, "rate": 10},
    },
    scaled_by=("rate", "seats", "lengths"),
)
