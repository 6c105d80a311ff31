"""The outcome of a simulation: two flat tables, and everything that follows from them."""

from __future__ import annotations

import math
from functools import cached_property
from os import PathLike
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.cost import CostModel
from labcode.results.metrics import SLO, Summary, itl_summary, mean, summarise
from labcode.results.outcomes import OUTCOMES, UNFINISHED
from labcode.results.record import Record
from labcode.results.trace_export import write_chrome_trace
from labcode.workload import Workload

OUTCOME = pd.CategoricalDtype(list(OUTCOMES))
#: Decode steps whose times are worked out together.
STEPS_AT_ONCE = 1 << 16


class Run:
    """What a simulated (or real) engine did with a workload.

    Attributes
    ----------
    requests : DataFrame
        A row a request.  Times in seconds; NaN where a thing has no value.
    steps : DataFrame
        A row a segment: one step, or several decode steps of the same sequences.
    stop_at : float
        When the run was told to stop, s; infinite if it was not.
    """

    def __init__(self, load: Workload, record: Record, cost: CostModel, stop_at: float = math.inf) -> None:
        self.load, self.record, self.cost, self.stop_at = load, record, cost, stop_at

    @cached_property
    def requests(self) -> pd.DataFrame:
        """A row a request: arrival, admitted, first_token, finished, lengths, outcome, ttft, tpot, itl_max ..."""
        rec, load = self.record, self.load
        reasons = np.full(len(load), "", dtype=object)
        for request, reason in rec.reasons.items():
            reasons[request] = reason
        frame = pd.DataFrame(
            {
                "arrival": load.arrival,
                "admitted": rec.admitted,
                "first_token": rec.first_token,
                "finished": rec.finished,
                "prompt_tokens": load.prompt,
                "output_tokens": load.output,
                "outcome": self._outcome(),
                "reason": reasons,
                "preemptions": rec.preemptions,
                "recomputed_tokens": rec.recomputed,
                "ttft": rec.first_token - load.arrival,
                "tpot": self._tpot(),
                "itl_max": self.largest_itl(),
                "waited": rec.admitted - load.arrival,
            }
        )
        if load.tenant is not None:
            frame["tenant"] = load.tenant
        return frame.rename_axis("request")

    @cached_property
    def steps(self) -> pd.DataFrame:
        """A row a segment: start, end, steps, n_prefill, n_decode, new_tokens, kv_used, kv_reserved, waiting, bound."""
        frame = pd.DataFrame(self.record.segments)
        frame.insert(5, "new_tokens", frame["prefill_tokens"] + frame["n_decode"] * frame["steps"])
        frame["bound"] = self._bounds()
        return frame

    def _bounds(self) -> NDArray[np.str_]:
        """Which roof binds at the first step of each segment; empty where the cost model does not say.

        Pairs of a prefill are taken from the step's tokens only for a single prompt; for several the linear
        layers decide, which dominate them by far.
        """
        s = self.record.segments
        batch, tokens = s["n_decode"] + s["n_idle"], s["prefill_tokens"]
        per_prompt = tokens / np.maximum(1, s["n_prefill"])
        pairs = tokens * per_prompt / 2 + s["decode_kv"]
        return self.cost.bounds(tokens + batch, s["n_prefill"] + batch, pairs, tokens + s["decode_kv"])

    # Token times ---------------------------------------------------------------------------------------------

    @cached_property
    def decode_ends(self) -> NDArray[np.float64]:
        """End of every decode step of the run, by its number (s)."""
        s = self.record.segments
        rows = np.flatnonzero(s["n_decode"] > 0)
        steps = s["steps"][rows]
        ends = np.repeat(s["end"][rows], steps)
        first = np.cumsum(steps) - steps
        several = np.flatnonzero(steps > 1)
        # Many runs of steps at once, but not all: a block fits into the processor's cache, and its sums stay short.
        blocks = np.cumsum(steps[several]) // STEPS_AT_ONCE
        for part in np.split(several, np.flatnonzero(np.diff(blocks)) + 1):
            self._fill(ends, rows[part], first[part])
        return ends

    def _fill(self, ends: NDArray[np.float64], rows: NDArray[np.intp], first: NDArray[np.intp]) -> None:
        """Write into `ends` those of all steps of the segments `rows`, whose first steps have the numbers `first`."""
        if not len(rows):
            return
        s = self.record.segments
        counts = s["steps"][rows]
        before = np.cumsum(counts) - counts
        inside = np.arange(counts.sum()) - np.repeat(before, counts)  # number of each step within its segment
        batch = np.repeat(s["n_decode"][rows] + s["n_idle"][rows], counts)
        kv = np.repeat(s["decode_kv"][rows], counts) + batch * inside
        sums = np.cumsum(self.cost.decode_times(batch, kv))
        offset = s["start"][rows] - np.concatenate([[0.0], sums])[before]
        ends[np.repeat(first, counts) + inside] = np.repeat(offset, counts) + sums
        ends[first + counts - 1] = s["end"][rows]

    def _gaps(self) -> NDArray[np.float64]:
        """From the end of one decode step to the end of the next (s); the first has none, after the last comes -inf."""
        gaps = np.full(len(self.decode_ends) + 1, -np.inf)
        gaps[0] = np.nan
        np.subtract(self.decode_ends[1:], self.decode_ends[:-1], out=gaps[1:-1])
        return gaps

    def token_times(self, request: int) -> NDArray[np.float64]:
        """Return the time of every token that a request got, in seconds, shape (tokens,)."""
        rec = self.record
        if not 0 <= request < len(self.load):
            raise ValueError(f"request = {request!r}: must be from 0 to {len(self.load) - 1}")
        parts = []
        for k in np.flatnonzero(rec.span_request == request):
            first, count = rec.span_first[k], rec.span_count[k]
            parts += [rec.span_time[k : k + 1], self.decode_ends[first : first + count]]
        return np.concatenate(parts) if parts else np.empty(0)

    def _lone_gaps(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Gaps that do not lie between two decode steps: a span's first, and the wait after a preemption."""
        rec = self.record
        longer = rec.span_count > 0
        requests, gaps = [rec.span_request[longer]], [self.decode_ends[rec.span_first[longer]] - rec.span_time[longer]]
        if len(rec.span_request) > np.count_nonzero(~np.isnan(rec.first_token)):  # somebody has several spans
            order = np.lexsort((rec.span_time, rec.span_request))
            request, time = rec.span_request[order], rec.span_time[order]
            first, count = rec.span_first[order], rec.span_count[order]
            last = np.where(count > 0, self.decode_ends[np.minimum(first + count - 1, len(self.decode_ends) - 1)], time)
            again = np.flatnonzero(request[1:] == request[:-1]) + 1
            requests.append(request[again])
            gaps.append(time[again] - last[again - 1])
        return np.concatenate(requests), np.concatenate(gaps)

    def itl(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the token-level inter-token latencies as (values in s, how many tokens had each).

        One entry for every decode step, weighed by the sequences that had a token in the step before as well, and
        one for each gap that is a request's own.
        """
        rec = self.record
        weights = np.zeros(len(self.decode_ends) + 1)
        longer = rec.span_count > 1
        np.add.at(weights, rec.span_first[longer] + 1, 1.0)
        np.add.at(weights, (rec.span_first + rec.span_count)[longer], -1.0)
        np.cumsum(weights, out=weights)
        shared = weights > 0.5  # never the sentinel at the end
        _, lone = self._lone_gaps()
        return np.concatenate([self._gaps()[shared], lone]), np.concatenate([weights[shared], np.ones(len(lone))])

    def largest_itl(self) -> NDArray[np.float64]:
        """Return the largest inter-token latency of each request in s, NaN where there is none, shape (n,)."""
        rec = self.record
        largest = np.full(len(self.load), -np.inf)
        longer = np.flatnonzero(rec.span_count > 1)
        if len(longer):
            # reduceat takes the maximum over [bounds[0], bounds[1]), [bounds[1], bounds[2]), ...: every other counts.
            longer = longer[np.argsort(rec.span_first[longer], kind="stable")]
            bounds = np.empty(2 * len(longer), dtype=np.int64)
            bounds[0::2] = rec.span_first[longer] + 1
            bounds[1::2] = rec.span_first[longer] + rec.span_count[longer]
            np.maximum.at(largest, rec.span_request[longer], np.maximum.reduceat(self._gaps(), bounds)[0::2])
        requests, lone = self._lone_gaps()
        np.maximum.at(largest, requests, lone)
        return np.where(np.isinf(largest), np.nan, largest)

    def to_chrome_trace(self, path: str | PathLike[str], most: int | None = None) -> Path:
        """Write the run (or its first `most` requests) for a trace viewer; see :mod:`labcode.results.trace_export`."""
        return write_chrome_trace(self, path, most)

    # Summaries -----------------------------------------------------------------------------------------------

    @property
    def cut_off(self) -> bool:
        """Whether `stop_at` ended the run before every request had its outcome."""
        return math.isfinite(self.stop_at) and bool((self.record.outcome == UNFINISHED).any())

    def summary(self, slo: SLO | None = None) -> Summary:
        """Return one flat mapping; ``.table()`` of it adds every key's unit and denominator.

        A run that was cut off is summed up as an observer would who left at `stop_at`: over those who had come
        by then, and from 0 until then. Whoever arrives later is in no number.
        """
        # Before the table of requests is there: with millions of tokens both at once would be much to hold.
        itl = itl_summary(*self.itl())
        if self.cut_off:
            arrived = self.requests[self.load.arrival <= self.stop_at]
            summary = summarise(arrived, slo=slo, window=(0.0, self.stop_at))
            summary.population = f"had arrived by {self.stop_at:g} s, when the run was stopped"
            summary.window = f"0 to {self.stop_at:g} s, when the run was stopped"
        else:
            summary = summarise(self.requests, slo=slo)
        summary.update(itl)
        s = self.record.segments
        length = s["end"] - s["start"]
        busy = float(length.sum())
        running = s["n_prefill"] + s["n_decode"]
        summary["mean_batch"] = mean(running, length)
        summary["most_running"] = float(running.max()) if len(running) else float("nan")
        summary["steps"] = float(s["steps"].sum())
        summary["busy_s"] = busy
        summary["busy_of_duration"] = busy / summary["duration_s"]
        summary["steady_tokens_per_s"] = self.steady_tokens_per_second()
        pool = self.record.capacity
        summary["kv_reserved_of_pool"] = mean(s["kv_reserved"] / pool, length)
        summary["kv_used_of_pool"] = mean(self.kv_used_mean() / pool, length)
        summary["preemptions"] = float(self.record.preemptions.sum())
        summary["recomputed_tokens"] = float(self.record.recomputed.sum())
        return summary

    def kv_used_mean(self) -> NDArray[np.float64]:
        """Return the tokens written to the cache on average over each segment (it grows linearly in it), shape (m,)."""
        s = self.record.segments
        written = s["prefill_tokens"] + s["n_decode"].astype(np.int64) * s["steps"]
        return s["kv_used"] - written / 2

    def attainment(self, slo: SLO) -> float:
        """Return the share of submitted requests that met the SLO; quicker than a whole summary, and the same."""
        rec, load = self.record, self.load
        columns = {
            "outcome": self._outcome(),
            "output_tokens": load.output,
            "arrival": load.arrival,
            "finished": rec.finished,
            "ttft": rec.first_token - load.arrival,
            "tpot": self._tpot(),
        }
        if slo.itl is not None:
            columns["itl_max"] = self.largest_itl()
        met = slo.met(columns)
        if self.cut_off:
            met = met[load.arrival <= self.stop_at]
        return float(met.mean()) if len(met) else float("nan")

    def _outcome(self) -> pd.Categorical:
        """Return what became of each request, by name, shape (n,)."""
        return pd.Categorical.from_codes(self.record.outcome, dtype=OUTCOME, validate=False)

    def _tpot(self) -> NDArray[np.float64]:
        """Mean time per token after the first (s); NaN for requests with one token, or without their last."""
        more = self.load.output - 1
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(more > 0, (self.record.last_token - self.record.first_token) / more, np.nan)

    def steady_tokens_per_second(self) -> float:
        """Return output tokens per second until the last request starts to produce: warm-up in, tail-off out."""
        rec = self.record
        if not np.isfinite(rec.first_token).any():
            return float("nan")
        until = float(np.nanmax(rec.first_token))
        start = float(self.load.arrival[0])
        if until <= start:
            return float("nan")
        s = self.record.segments
        made = np.searchsorted(self.decode_ends, until, "right")
        decode = np.repeat(s["n_decode"][s["n_decode"] > 0], s["steps"][s["n_decode"] > 0])[:made].sum()
        return float(decode + np.count_nonzero(rec.span_time <= until)) / (until - start)
