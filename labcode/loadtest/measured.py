"""The outcome of a load test, in the tables of every other log, and whether it counts."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from labcode.loadtest.exchange import Exchange
from labcode.results.logs import EventLog, from_events
from labcode.results.metrics import SLO, Summary, percentile

#: A request that goes out more than this after its time is late, s.
TOLERANCE = 0.05
#: Share of late requests from which on a test has not done what it says.
TOO_MANY = 0.01


@dataclass
class Measured:
    """What a load test saw.

    Attributes
    ----------
    exchanges : list of Exchange
        In order of their schedule.
    loop : {"open", "closed"}
    window : (float, float)
        Start and end of the observation, s.
    tolerance : float
        Lateness from which on a request counts as late, s.
    """

    exchanges: list[Exchange]
    loop: str
    window: tuple[float, float]
    tolerance: float = field(default=TOLERANCE)

    @cached_property
    def lateness(self) -> dict[str, float]:
        """How well the schedule was kept: P50, P99 and maximum of the lateness (s), and the share of late requests."""
        late = np.array([exchange.late for exchange in self.exchanges])
        share = float(np.mean(late > self.tolerance)) if len(late) else math.nan
        return {
            "late_p50_s": percentile(late, 50),
            "late_p99_s": percentile(late, 99),
            "late_max_s": percentile(late, 100),
            "late_share": share,
        }

    @property
    def problem(self) -> str | None:
        """Why the result does not count, or None.  A closed loop has no schedule that it could miss."""
        if not self.exchanges:
            return "no request was sent"
        share = self.lateness["late_share"]
        if self.loop == "open" and share > TOO_MANY:
            return (
                f"{share:.1%} of the requests went out more than {self.tolerance:g} s late: the load generator could "
                "not keep the schedule, and what was measured is not the load that was planned"
            )
        return None

    @property
    def valid(self) -> bool:
        """Whether the schedule was kept."""
        return self.problem is None

    @cached_property
    def log(self) -> EventLog:
        """The log, with times from the *scheduled* send."""
        return self._log([exchange.scheduled for exchange in self.exchanges])

    @cached_property
    def log_as_sent(self) -> EventLog:
        """The log with times from the actual send: what a client that forgets its own lateness would report."""
        return self._log([exchange.sent for exchange in self.exchanges])

    def _log(self, submitted: list[float]) -> EventLog:
        rows: dict[str, list[Any]] = {"request": [], "time_s": [], "tokens": []}
        uncounted = set()
        for k, exchange in enumerate(self.exchanges):
            sizes: list[int | None] = [tokens for _, tokens in exchange.pieces]
            if not exchange.counted:
                # How many tokens a piece held is not known, only their sum: the last one stands for the rest.
                uncounted.add(k)
                total = exchange.output or len(sizes)
                sizes = [*[1] * (len(sizes) - 1), max(1, total - len(sizes) + 1)]
            rows["request"] += [str(exchange.number)] * len(sizes)
            rows["time_s"] += [max(time, submitted[k]) for time, _ in exchange.pieces]
            rows["tokens"] += sizes
        frame = pd.DataFrame(
            {
                "request": [str(exchange.number) for exchange in self.exchanges],
                "submitted_s": submitted,
                "prompt_tokens": [exchange.prompt for exchange in self.exchanges],
                "outcome": [exchange.outcome for exchange in self.exchanges],
                "reason": [exchange.reason for exchange in self.exchanges],
                "tenant": [exchange.tenant for exchange in self.exchanges],
            }
        )
        last = max([*rows["time_s"], *submitted, self.window[1]])
        log = from_events(pd.DataFrame(rows), frame, (min(0.0, *submitted), last))
        if not uncounted:
            return log
        order = np.argsort(np.array(submitted), kind="stable")  # rows of the log, which is sorted by submission
        unknown = log.intervals["request"].map(lambda row: int(order[int(row)]) in uncounted)
        intervals = log.intervals.assign(tokens=log.intervals["tokens"].mask(unknown))
        return dataclasses.replace(log, intervals=intervals)

    def summary(self, slo: SLO | None = None) -> Summary:
        """Return the summary of `log`, the lateness behind it."""
        summary = self.log.summary(slo)
        summary.update(self.lateness)
        summary["pieces"] = float(sum(len(exchange.pieces) for exchange in self.exchanges))
        if self.problem:
            summary.notes = (*summary.notes, f"NOT VALID: {self.problem}")
        return summary

    def report(self, slo: SLO | None = None, **about: Any) -> dict[str, Any]:
        """Return everything as plain data for JSON: NaN is None; every request, so that nothing has to be believed."""
        summary = {key: None if math.isnan(value) else value for key, value in self.summary(slo).items()}
        reasons = Counter(exchange.reason for exchange in self.exchanges if exchange.reason)
        return about | {
            "loop": self.loop,
            "valid": self.valid,
            "problem": self.problem,
            "window_s": list(self.window),
            "summary": summary,
            "reasons": dict(reasons.most_common(10)),
            "requests": [_plain(dataclasses.asdict(exchange)) for exchange in self.exchanges],
        }


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in row.items()}
