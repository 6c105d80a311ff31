"""Coordinated omission on a real server: one stall, met by an open and by a closed test; see `stalls` for the idea."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.checks import positive
from labcode.loadtest.closed_loop import closed_loop
from labcode.loadtest.exchange import Target
from labcode.loadtest.measured import Measured
from labcode.loadtest.open_loop import open_loop
from labcode.loadtest.stalls import corrected
from labcode.results.metrics import percentile
from labcode.workload import Workload, fixed


@dataclass(frozen=True)
class Stall:
    """A process that stands still for a while.

    Attributes
    ----------
    pid : int
        Of the server; a process of one's own.
    at, seconds : float
        When, after the test has begun, and for how long (s).
    """

    pid: int
    at: float
    seconds: float

    async def happen(self) -> None:
        """Stop the process, and let it go on whatever happens meanwhile."""
        await asyncio.sleep(self.at)
        os.kill(self.pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            os.kill(self.pid, signal.SIGCONT)


@dataclass(frozen=True)
class ThreeViews:
    """One stall, met by an open and by a closed test at the same nominal rate."""

    interval: float
    open: Measured
    closed: Measured

    def latencies(self) -> dict[str, NDArray[np.float64]]:
        """Return times to the last token (s) by view."""
        naive, wanted, sent = (log.requests for log in (self.closed.log_as_sent, self.closed.log, self.open.log))
        seen = (naive["finished"] - naive["arrival"]).to_numpy()
        return {
            "closed": seen,
            "closed, corrected by arithmetic": corrected(seen, self.interval),
            "closed, from the wanted send": (wanted["finished"] - wanted["arrival"]).to_numpy(),
            "open": (sent["finished"] - sent["arrival"]).to_numpy(),
        }

    def table(self) -> pd.DataFrame:
        """Return the tails, a row a view: requests, P50, P90, P99, maximum (s)."""
        rows = {
            name: [len(values), *(percentile(values, q) for q in (50, 90, 99, 100))]
            for name, values in self.latencies().items()
        }
        return pd.DataFrame.from_dict(rows, orient="index", columns=["requests", "p50_s", "p90_s", "p99_s", "max_s"])


async def one_stall(
    target: Target, pid: int, rate: float, seconds: float, at: float, stall: float, prompt: int = 8, output: int = 4
) -> ThreeViews:
    """Meet the same stall with an open and a closed test of one user, one after the other.

    Parameters
    ----------
    pid : int
        Of the server's process.
    rate : float
        Requests/s, evenly spaced.
    seconds, at, stall : float
        Length of each test, beginning and length of the stall, s.
    prompt, output : int
        Tokens of each request.
    """
    rate = positive("rate", rate)
    load: Workload = fixed(int(rate * seconds), rate, prompt, output)

    async def meet(test: asyncio.Task[Measured]) -> Measured:
        trouble = asyncio.create_task(Stall(pid, at, stall).happen())
        measured = await test
        await trouble
        return measured

    opened = await meet(asyncio.create_task(open_loop(target, load)))
    closed = await meet(asyncio.create_task(closed_loop(target, load, 1, pace=1 / rate, stop_at=seconds)))
    return ThreeViews(1 / rate, opened, closed)
