"""Prediction before measurement: ``python -m labcode.course.evidence.prediction`` does both and records them.

1. A server is profiled under a closed loop, and the price of its steps is fitted.
2. The same scheduler with that price is simulated under a schedule of arrivals: the prediction.
3. The schedule is sent to a fresh server: the measurement.

What the prediction leaves out is everything but the steps: HTTP, the way through two processes, the client's own time,
and whatever else the machine does.
"""

from __future__ import annotations

import asyncio
import math
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from labcode import SLO, simulate
from labcode.cost.calibration import Calibration, fit
from labcode.course.evidence.real_server import busy, machine, server, today
from labcode.experiments.saturation import drain_rate
from labcode.model import SMALL
from labcode.results.metrics import Summary
from labcode.workload import Workload, unit_arrivals
from labcode.workload.synthetic import assemble, streams

RECORD = Path(__file__).with_name("prediction.csv")
OPTIONS = {"max_bs": 16, "memory": "paged:16", "capacity": 32_768, "watermark": 0.01, "prefill": "mixed"}
SHARES = (0.3, 0.6, 0.9)
SEEDS = (0, 1, 2, 3, 4)
#: Length of a run in s.
SECONDS = 15.0
KEYS = ("ttft_p50_s", "ttft_p99_s", "itl_p50_s", "itl_p99_s", "goodput_per_s")
TARGET_SLO = SLO(ttft=0.5, tpot=0.05)


def load_at(rate: float, n: int, seed: int) -> Workload:
    """Return Poisson arrivals of short requests: prompts uniform in 16 ... 64, outputs in 8 ... 40 tokens."""
    lengths, gaps = streams(seed)
    prompt = lengths.integers(16, 64, n, endpoint=True)
    output = lengths.integers(8, 40, n, endpoint=True)
    return assemble("measured here", rate, unit_arrivals("poisson", n, gaps), prompt, output)


def arguments() -> list[str]:
    """Return the options as the server's command line has them."""
    return ["--model", "small", *(f"--{key.replace('_', '-')}={value}" for key, value in OPTIONS.items())]


def profiled(seconds: float = 12.0) -> Calibration:
    """Run a server under closed loops of several sizes and fit the price of its steps."""
    from labcode.loadtest.closed_loop import closed_loop
    from labcode.loadtest.exchange import Target
    from labcode.server.profile import read_samples

    load = load_at(1.0, 5000, 99)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "steps.csv"
        with server(*arguments(), "--profile", str(table)) as running:
            target = Target(running.url, vocab=SMALL.vocab)
            for users in (2, 6, 16):
                asyncio.run(closed_loop(target, load, users, think=0.05, stop_at=seconds / 3))
        return fit(read_samples(table)[20:])


def predicted(load: Workload, calibration: Calibration) -> Summary:
    """Return the simulated summary."""
    run = simulate(load, SMALL.spec(), cost=calibration.cost, **OPTIONS)  # type: ignore[arg-type]
    return run.summary(TARGET_SLO)


@dataclass(frozen=True)
class Sent:
    """What a measured run says."""

    summary: Mapping[str, float]
    valid: bool


def sent(load: Workload) -> Sent:
    """Send a schedule to a fresh server and return the measured summary."""
    from labcode.loadtest.exchange import Target
    from labcode.loadtest.open_loop import open_loop

    with server(*arguments()) as running:
        target = Target(running.url, vocab=SMALL.vocab)
        asyncio.run(open_loop(target, load_at(20.0, 10, 77)))  # warm-up, not counted
        measured = asyncio.run(open_loop(target, load))
    summary = dict(measured.summary(TARGET_SLO))
    if not measured.log.per_token:  # tokens that came together: their gap is 0, the piece's is the chunk's
        seconds, tokens = measured.log.chunk_intervals()
        gaps = np.sort(np.concatenate([seconds, np.zeros(int(np.nansum(tokens - 1)))]))
        for q in (50, 99):
            summary[f"itl_p{q}_s"] = float(gaps[math.ceil(q / 100 * len(gaps)) - 1])
    return Sent(summary, measured.valid)


def compared(seeds: tuple[int, ...] = SEEDS, seconds: float = SECONDS) -> pd.DataFrame:
    """Predict, then measure; return a row for each share of capacity, seed and key."""
    options: dict[str, Any] = {"model": SMALL.spec(), **OPTIONS}
    capacity, rows = 0.0, []
    for seed in seeds:
        # A machine that others use changes by the minute, so each seed has a profile of its own.
        calibration = profiled()
        capacity = capacity or drain_rate(load_at(1.0, 600, 98), cost=calibration.cost, **options)
        for share in SHARES:
            rate, state = share * capacity, busy()
            load = load_at(rate, max(50, int(rate * seconds)), seed)
            expected, found = predicted(load, calibration), sent(load)
            for key in KEYS:
                row = [share, seed, rate, key, expected[key], found.summary[key], found.valid, state]
                rows.append([*row, calibration.typical_error])
            print(f"{share:.0%} of {capacity:.1f} requests/s, seed {seed}: done, {state}", file=sys.stderr)
    names = ["share", "seed", "rate", "key", "predicted", "measured", "valid", "load", "fit_error"]
    frame = pd.DataFrame(rows, columns=names)
    return frame.assign(machine=machine(), date=today())


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the medians over seeds, and the error of the prediction: a row for each share and key."""
    medians = frame.groupby(["share", "key"], sort=False)[["predicted", "measured"]].median()
    return medians.assign(error=medians["predicted"] / medians["measured"] - 1)


def recorded() -> pd.DataFrame:
    """Return the recorded comparison."""
    return pd.read_csv(RECORD)


if __name__ == "__main__":
    result = compared()
    result.to_csv(RECORD, index=False, float_format="%.5g")
    print(table(result).to_string())
