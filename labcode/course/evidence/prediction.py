"""Prediction before measurement: ``python -m labcode.course.evidence.prediction`` does both and records them.

For each seed one server is started (four minutes in all), and then:

1. *Profile.*  Closed loops of several sizes keep it busy.  The server's own record of its steps (from one plan to the
   next, so that sending the tokens is in it) gives the price of a step, and how steps scatter about the price.
2. *Offset.*  A schedule at half of its capacity is simulated and sent.  The difference of the two median TTFTs is what
   the steps do not hold: HTTP, parsing, the way to the client.
3. *Prediction.*  The schedules at 30, 60 and 90 % of capacity are simulated: same scheduler, fitted price, scatter
   drawn from the profile, offset added.
4. *Measurement.*  Only now they are sent, to the same process.

Afterwards each run is simulated once more with the price of its *own* steps.  That is no prediction, it is hindsight:
it tells how much of the error came from a price that had changed since the profile, and how much from all the rest.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from labcode import SLO, simulate
from labcode.cost import CostModel, StepShape
from labcode.cost.calibration import Sample, fit
from labcode.course.evidence.real_server import Running, busy, machine, server, today
from labcode.experiments.saturation import drain_rate
from labcode.model import SMALL
from labcode.workload import Workload, unit_arrivals
from labcode.workload.synthetic import assemble, streams

RECORD = Path(__file__).with_name("prediction.csv")
OPTIONS = {"max_bs": 16, "memory": "paged:16", "capacity": 32_768, "watermark": 0.01, "prefill": "mixed"}
SHARES = (0.3, 0.6, 0.9)
SEEDS = (0, 1, 2, 3, 4)
#: Length of a run, of the schedule that gives the offset, and of each closed loop of the profile, s.
SECONDS, OFFSET_SECONDS, PROFILE_SECONDS = 8.0, 4.0, 2.0
USERS = (2, 5, 9, 16)
KEYS = ("ttft_p50_s", "ttft_p99_s", "itl_p50_s", "itl_p99_s", "goodput_per_s")
TARGET_SLO = SLO(ttft=0.5, tpot=0.05)
#: What was aimed at: relative errors of the medians, and of the P99.
AIMS = {"p50": 0.15, "p99": 0.30}
DRAWS = 5


def load_at(rate: float, n: int, seed: int) -> Workload:
    """Return Poisson arrivals of short requests: prompts uniform in 16 ... 64, outputs in 8 ... 40 tokens."""
    lengths, gaps = streams(seed)
    prompt = lengths.integers(16, 64, n, endpoint=True)
    output = lengths.integers(8, 40, n, endpoint=True)
    return assemble("measured here", rate, unit_arrivals("poisson", n, gaps), prompt, output)


def for_seconds(rate: float, seconds: float, seed: int) -> Workload:
    """Return a load whose arrivals fill so many seconds: as many requests as a fixed time holds at that rate."""
    return load_at(rate, max(20, round(rate * seconds)), seed)


def arguments() -> list[str]:
    """Return the options as the server's command line has them."""
    return ["--model", "small", *(f"--{key.replace('_', '-')}={value}" for key, value in OPTIONS.items())]


class Scattered(CostModel):
    """A price times the scatter of real steps, replayed in the order in which it was seen: slow spells stay together.

    Parameters
    ----------
    cost : CostModel
    ratios : sequence of float
        Measured over modelled time of each step.
    rng : Generator
        Says where in the record the replay begins.
    """

    def __init__(self, cost: CostModel, ratios: np.ndarray, rng: np.random.Generator) -> None:
        self.cost, self.ratios = cost, ratios.tolist()
        self.at = int(rng.integers(len(ratios)))

    def step_time(self, shape: StepShape) -> float:
        """Return the duration of the next step, in seconds; asked twice, it answers twice."""
        self.at = (self.at + 1) % len(self.ratios)
        return self.cost.step_time(shape) * float(self.ratios[self.at])


@dataclass(frozen=True, eq=False)
class Price:
    """What the steps of a process cost: a fitted sum, and the ratios of measured to fitted times."""

    cost: CostModel
    ratios: np.ndarray

    @property
    def error(self) -> float:
        """Median of the absolute relative errors of the fit."""
        return float(np.median(np.abs(1 / self.ratios - 1)))

    def capacity(self) -> float:
        """Return the drain rate, requests/s, at the price times its mean ratio."""
        mean = Scattered(self.cost, np.array([self.ratios.mean()]), np.random.default_rng(0))
        return drain_rate(load_at(1.0, 400, 98), cost=mean, model=SMALL.spec(), **OPTIONS)  # type: ignore[arg-type]

    def predicted(self, load: Workload, offset: float = 0.0) -> dict[str, float]:
        """Return the simulated summary, the median over some draws of the scatter; the TTFT counts from the client."""
        found = []
        for draw in range(DRAWS):
            cost = Scattered(self.cost, self.ratios, np.random.default_rng(draw))
            run = simulate(load, SMALL.spec(), cost=cost, step_by_step=True, **OPTIONS)  # type: ignore[arg-type]
            found.append([run.summary(TARGET_SLO)[key] for key in KEYS])
        medians = dict(zip(KEYS, np.median(found, axis=0).tolist(), strict=True))
        return {key: value + (offset if key.startswith("ttft") else 0.0) for key, value in medians.items()}


def priced(samples: list[Sample]) -> Price:
    """Fit the price of steps, twice: what lies far off the first fit (somebody else had the core) has no say in it."""
    first = fit(samples)
    ratios = first.seconds / (first.seconds * (1 + first.errors))
    near = np.abs(ratios / np.median(ratios) - 1) < 0.5
    kept = [sample for sample, good in zip(samples, near, strict=True) if good]
    cost = fit(kept).cost if len(kept) > len(samples) / 2 else first.cost
    modelled = np.array([cost.step_time(shape) for shape, _ in samples])
    return Price(cost, first.seconds / modelled)


def steps_so_far(running: Running, table: Path) -> list[Sample]:
    """Return the steps that the server has made so far, whose profile goes to `table`."""
    from labcode.server.profile import read_samples

    table.unlink(missing_ok=True)
    os.kill(running.pid, signal.SIGUSR1)
    end = time.monotonic() + 20
    while not table.exists():
        if time.monotonic() > end:
            raise RuntimeError("the server did not write its profile")
        time.sleep(0.02)
    return read_samples(table)


@dataclass(frozen=True)
class Sent:
    """What a measured run says."""

    summary: Mapping[str, float]
    valid: bool


def sent(running: Running, load: Workload) -> Sent:
    """Send a schedule and return the measured summary."""
    from labcode.loadtest.exchange import Target
    from labcode.loadtest.open_loop import open_loop

    measured = asyncio.run(open_loop(Target(running.url, vocab=SMALL.vocab), load))
    summary = dict(measured.summary(TARGET_SLO))
    if not measured.log.per_token:  # tokens that came together: their gap is 0, the piece's is the chunk's
        seconds, tokens = measured.log.chunk_intervals()
        gaps = np.sort(np.concatenate([seconds, np.zeros(int(np.nansum(tokens - 1)))]))
        for q in (50, 99):
            summary[f"itl_p{q}_s"] = float(gaps[math.ceil(q / 100 * len(gaps)) - 1])
    return Sent(summary, measured.valid)


def profiled(running: Running, table: Path, seconds: float) -> Price:
    """Keep the server busy with closed loops of several sizes, and return the price of its steps."""
    from labcode.loadtest.closed_loop import closed_loop
    from labcode.loadtest.exchange import Target

    target, load = Target(running.url, vocab=SMALL.vocab), load_at(1.0, 5000, 99)
    sent(running, load_at(20.0, 20, 77))  # warm-up, not counted
    cold = len(steps_so_far(running, table))
    for users in USERS:
        asyncio.run(closed_loop(target, load, users, stop_at=seconds))
    return priced(steps_so_far(running, table)[cold:])


def one_seed(seed: int, seconds: float) -> list[dict[str, object]]:
    """Profile a server, predict, measure, and look back; return a row for each share and key."""
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "steps.csv"
        with server(*arguments(), "--profile", str(table)) as running:
            price = profiled(running, table, PROFILE_SECONDS * seconds / SECONDS)
            capacity = price.capacity()
            half = for_seconds(0.5 * capacity, OFFSET_SECONDS * seconds / SECONDS, 1000 + seed)
            # Below 0 it would say that the price has changed since the profile, not that HTTP gives time back.
            offset = max(0.0, sent(running, half).summary["ttft_p50_s"] - price.predicted(half)["ttft_p50_s"])
            loads = {share: for_seconds(share * capacity, seconds, seed) for share in SHARES}
            expected = {share: price.predicted(load, offset) for share, load in loads.items()}
            made = len(steps_so_far(running, table))
            for share, load in loads.items():
                state, found = busy(), sent(running, load)
                steps = steps_so_far(running, table)
                after = priced(steps[made:])
                made = len(steps)
                back = after.predicted(load, offset)
                about = {
                    "share": share, "seed": seed, "rate": load.rate, "valid": found.valid, "load": state,
                    "fit_error": price.error, "offset": offset, "price_moved": after.capacity() / capacity - 1,
                }  # fmt: skip
                for key in KEYS:
                    values = {"predicted": expected[share][key], "hindsight": back[key]}
                    rows.append({"key": key, **values, "measured": found.summary[key], **about})
    said = ", ".join(f"{share:.0%}" for share in SHARES)
    print(f"seed {seed}: {said} of {capacity:.1f} requests/s, offset {1000 * offset:.1f} ms: done", file=sys.stderr)
    return rows


def compared(seeds: tuple[int, ...] = SEEDS, seconds: float = SECONDS) -> pd.DataFrame:
    """Predict, then measure; return a row for each share of capacity, seed and key."""
    rows = [row for seed in seeds for row in one_seed(seed, seconds)]
    return pd.DataFrame(rows).assign(machine=machine(), date=today())


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the medians over seeds, the errors of prediction and hindsight, and whether the aim was reached.

    Runs that did not keep their schedule have no say: their load was not the one that was planned.  A share of
    capacity without any valid run has NaN, and has not reached the aim.
    """
    columns = ["predicted", "hindsight", "measured"]
    values = frame[columns].where(frame["valid"].astype(bool))
    medians = values.groupby([frame["share"], frame["key"]], sort=False).median()
    aims = [AIMS.get(key.split("_")[1], AIMS["p50"]) for _, key in medians.index]
    error = medians["predicted"] / medians["measured"] - 1
    looking_back = medians["hindsight"] / medians["measured"] - 1
    return medians.assign(error=error, looking_back=looking_back, within=np.abs(error) <= np.array(aims))


def verdict(frame: pd.DataFrame) -> str:
    """Return in words whether the aim was reached, and where the error comes from; every sentence is computed."""
    rows = table(frame)
    tail = np.array(["p99" in key for _, key in rows.index])
    error, back = rows["error"].abs(), rows["looking_back"].abs()
    said = [
        f"Medians and goodput within {AIMS['p50']:.0%}: {int(rows['within'][~tail].sum())} of {int((~tail).sum())}. "
        f"P99 within {AIMS['p99']:.0%}: {int(rows['within'][tail].sum())} of {int(tail.sum())}.",
        "The aim was reached." if rows["within"].all() else "The aim was not reached.",
    ]
    if error.isna().all():
        return (
            f"None of the {len(frame.drop_duplicates(['share', 'seed']))} runs kept its schedule: nothing was compared."
        )
    worst = rows.reset_index().iloc[int(np.nanargmax(error.to_numpy()))]
    said.append(
        f"The largest error is in {worst['key']} at {worst['share']:.0%} of capacity: "
        f"predicted {worst['predicted']:.3g}, measured {worst['measured']:.3g}."
    )
    runs = frame.drop_duplicates(["share", "seed"])
    moved, valid = runs["price_moved"].abs(), runs["valid"].astype(bool)
    said.append(
        f"Between profile and test the price of a step changed by {moved.median():.0%} in the median of the runs, by "
        f"{moved.max():.0%} at most; the offset was {1000 * runs['offset'].median():.1f} ms. {int(valid.sum())} of "
        f"{len(valid)} runs kept their schedule"
        + ("." if valid.all() else f"; the other {int((~valid).sum())} are not valid and left out of the table.")
    )
    before, after = float(error.median()), float(back.median())
    if after < before / 2:
        helps = "so most of the error comes from a price that had changed"
    elif after <= before:
        helps = "so the error lies mostly in what a price does not hold: the scatter, the way to the client, the client"
    else:
        helps = "no better: fitted to the steps of one run, it does not say where the error comes from"
    said.append(f"The median error is {before:.0%}; with the price of the run's own steps it is {after:.0%}, {helps}.")
    return "\n".join(said)


def recorded() -> pd.DataFrame:
    """Return the recorded comparison."""
    return pd.read_csv(RECORD)


if __name__ == "__main__":
    began = time.monotonic()
    result = compared()
    result.to_csv(RECORD, index=False, float_format="%.5g")
    print(table(result).to_string())
    print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)
