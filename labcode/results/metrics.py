"""Everything reported about a run, from its two flat tables.  Also for logs of a reader's own server.

Two rules hold throughout.  A statistic of nothing is NaN ("no data"), never zero.  And every share names its
denominator: requests that were refused or failed stay in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from labcode.checks import positive
from labcode.results.outcomes import OUTCOMES

if TYPE_CHECKING:
    from labcode.results.logs import EventLog


@dataclass(frozen=True)
class SLO:
    """A service level objective: upper limits in seconds, each optional.

    Attributes
    ----------
    ttft : float or None
        Time to first token, from arrival: queueing included.
    tpot : float or None
        Mean time per output token after the first.  Requests with one output token have none and meet it.
    itl : float or None
        Largest inter-token latency of the request.
    e2e : float or None
        Time from arrival to the end.
    """

    ttft: float | None = 1.0
    tpot: float | None = 0.05
    itl: float | None = None
    e2e: float | None = None

    def __post_init__(self) -> None:
        for name in ("ttft", "tpot", "itl", "e2e"):
            if getattr(self, name) is not None:
                positive(f"SLO.{name}", getattr(self, name))

    def met(self, requests: pd.DataFrame | Mapping[str, Any]) -> NDArray[np.bool_]:
        """Return for each request whether it finished and kept every limit, shape (n,).

        A value that nobody saw (NaN) has not kept a limit: "no data" is not "on time". Only a request with one
        output token is excused from the limits on what lies between tokens.

        Parameters
        ----------
        requests : DataFrame or mapping of columns
            ``outcome``; ``output_tokens``; ``arrival``, ``finished``, ``ttft``, ``tpot`` (s); ``itl_max`` (s)
            if the objective limits it.
        """
        good = np.array(requests["outcome"] == "finished", dtype=bool)

        def column(name: str) -> NDArray[np.float64]:
            return np.asarray(requests[name], dtype=np.float64)

        if self.ttft is not None:
            good &= column("ttft") <= self.ttft
        if self.e2e is not None:
            good &= column("finished") - column("arrival") <= self.e2e
        single = column("output_tokens") == 1
        for limit, name in ((self.tpot, "tpot"), (self.itl, "itl_max")):
            if limit is not None:
                good &= single | (column(name) <= limit)
        return good


def weighted_percentiles(values: ArrayLike, weights: ArrayLike | None, qs: Sequence[float]) -> list[float]:
    """Return for each q the smallest value at or below which at least `q` percent of the weight lies.

    Parameters
    ----------
    values : array_like, shape (n,)
        NaN entries are left out.
    weights : array_like, shape (n,), or None
        Non-negative; None weighs all the same.
    qs : sequence of float
        Percents, in [0, 100].

    Returns
    -------
    list of float
        NaN for all if there is no value.
    """
    for q in qs:
        if not 0 <= q <= 100:
            raise ValueError(f"q = {q!r}: a percentile must lie in [0, 100]")
    numbers = np.asarray(values, dtype=float)
    kept = ~np.isnan(numbers)
    shares = np.array(qs) / 100
    order = None
    if weights is None:
        numbers = np.sort(numbers[kept])
        cumulative = np.arange(1.0, len(numbers) + 1)
    else:
        weighed = np.asarray(weights, dtype=float)
        kept &= weighed > 0
        if not kept.all():
            numbers, weighed = numbers[kept], weighed[kept]
        order = np.argsort(numbers)
        cumulative = weighed[order]
        np.cumsum(cumulative, out=cumulative)
    if not len(numbers):
        return [float("nan")] * len(qs)
    # The tolerance keeps 0.1 + 0.2 from stepping over an exact share.
    indices = np.searchsorted(cumulative, shares * cumulative[-1] * (1 - 1e-12))
    positions = np.minimum(indices, len(numbers) - 1)
    return [float(numbers[position if order is None else order[position]]) for position in positions]


def weighted_percentile(values: ArrayLike, weights: ArrayLike | None, q: float) -> float:
    """Return a single percentile of weighted values; see `weighted_percentiles`."""
    return weighted_percentiles(values, weights, [q])[0]


def percentile(values: ArrayLike, q: float) -> float:
    """Return the q-th percentile over requests (every value weighs the same); NaN if there is no value."""
    return weighted_percentile(values, None, q)


def mean(values: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Return the (weighted) mean without NaN entries; NaN if there is none."""
    numbers = np.asarray(values, dtype=float)
    weighed = np.ones_like(numbers) if weights is None else np.asarray(weights, dtype=float)
    kept = ~np.isnan(numbers) & (weighed > 0)
    if not kept.any():
        return float("nan")
    if not kept.all():
        numbers, weighed = numbers[kept], weighed[kept]
    return float(np.dot(numbers, weighed) / weighed.sum())


#: What `summarise` reports: key -> (unit, over what).
MEANING: dict[str, tuple[str, str]] = {
    "submitted": ("requests", "all that arrived"),
    "finished": ("requests", "got all their tokens"),
    "refused": ("requests", "never admitted"),
    "cancelled": ("requests", "withdrawn by the client"),
    "timed_out": ("requests", "ran past their deadline"),
    "failed": ("requests", "ended in an error of server or network"),
    "unfinished": ("requests", "still there when the observation ended"),
    "unknown": ("requests", "the log does not say what became of them"),
    "window_start_s": ("s", "start of the window"),
    "window_end_s": ("s", "end of the window"),
    "duration_s": ("s", "length of the window"),
    "submitted_per_s": ("requests/s", "submitted / duration"),
    "finished_per_s": ("requests/s", "finished / duration"),
    "goodput_per_s": ("requests/s", "finished within the SLO / duration"),
    "slo_of_submitted": ("share", "within the SLO / submitted"),
    "slo_of_finished": ("share", "within the SLO / finished"),
    "prompt_tokens_per_s": ("tokens/s", "prompt tokens of finished requests / duration"),
    "output_tokens_per_s": ("tokens/s", "output tokens of finished requests / duration"),
    "ttft_mean_s": ("s", "requests with a first token"),
    "ttft_p50_s": ("s", "requests with a first token"),
    "ttft_p90_s": ("s", "requests with a first token"),
    "ttft_p99_s": ("s", "requests with a first token"),
    "ttft_max_s": ("s", "requests with a first token"),
    "tpot_mean_s": ("s", "finished requests with two output tokens or more"),
    "tpot_p50_s": ("s", "finished requests with two output tokens or more"),
    "tpot_p99_s": ("s", "finished requests with two output tokens or more"),
    "e2e_p50_s": ("s", "finished requests"),
    "e2e_p99_s": ("s", "finished requests"),
    "waited_mean_s": ("s", "admitted requests, arrival to seat"),
    "itl_mean_s": ("s", "tokens after a request's first"),
    "itl_p50_s": ("s", "tokens after a request's first"),
    "itl_p99_s": ("s", "tokens after a request's first"),
    "itl_max_s": ("s", "tokens after a request's first"),
    # Measured logs only (`from_events`):
    "partial": ("requests", "the log lacks a part of them"),
    "chunk_interval_p50_s": ("s", "gaps between pieces of a stream"),
    "chunk_interval_p99_s": ("s", "gaps between pieces of a stream"),
    # Load tests of our own only:
    "pieces": ("chunks", "that held a token"),
    "late_p50_s": ("s", "all requests, planned to actual send"),
    "late_p99_s": ("s", "all requests, planned to actual send"),
    "late_max_s": ("s", "all requests, planned to actual send"),
    "late_share": ("share", "sent later than tolerated / submitted"),
}


class Summary(dict[str, float]):
    """A flat mapping of key to number; `table` adds to each its unit and what it is taken over.

    Attributes
    ----------
    population : str
        Whom "submitted" counts, and every share of them.
    window : str
        Where the window of all rates begins and ends, in words; the keys ``window_start_s``, ``window_end_s``
        have the numbers.
    notes : tuple of str
        What the log lacks, and for how many requests.
    """

    population = MEANING["submitted"][1]
    window = "first arrival to last token"
    notes: tuple[str, ...] = ()

    def table(self) -> pd.DataFrame:
        """Return a table, a row a key: value, unit, over."""
        rows = [(key, value, *self.meaning(key)) for key, value in self.items()]
        return pd.DataFrame(rows, columns=["key", "value", "unit", "over"]).set_index("key")

    def meaning(self, key: str) -> tuple[str, str]:
        """Return unit and denominator of a key."""
        unit, over = MEANING.get(key, ENGINE_MEANING.get(key, ("", "")))
        here = {"submitted": self.population, "duration_s": self.window, "partial": "; ".join(self.notes)}
        return unit, here.get(key) or over


ENGINE_MEANING: dict[str, tuple[str, str]] = {
    "mean_batch": ("sequences", "decoding and prefilling, over busy time"),
    "most_running": ("sequences", "largest number in one step"),
    "steps": ("steps", "all"),
    "busy_s": ("s", "time in which the engine worked"),
    "busy_of_duration": ("share", "busy / duration"),
    "steady_tokens_per_s": ("tokens/s", "until the last request starts to produce"),
    "kv_reserved_of_pool": ("share", "tokens taken / pool, over busy time"),
    "kv_used_of_pool": ("share", "tokens written / pool, over busy time"),
    "preemptions": ("events", "all requests"),
    "recomputed_tokens": ("tokens", "all requests"),
}


def summarise(
    requests: pd.DataFrame,
    itl_values: ArrayLike = (),
    itl_weights: ArrayLike | None = None,
    slo: SLO | None = None,
    window: tuple[float, float] | None = None,
) -> Summary:
    """Return the summary of a table of requests: those who had been submitted within the window, and only those.

    Parameters
    ----------
    requests : DataFrame
        Columns ``arrival, first_token, finished`` (s), ``prompt_tokens, output_tokens``, ``outcome``, ``ttft``,
        ``tpot``, ``itl_max``, ``waited`` (s; NaN where there is none); ``lacks`` in a measured log.
    itl_values, itl_weights : array_like
        Token-level inter-token latencies (s) and how many tokens had each.
    slo : SLO, optional
        Without one the keys about it are NaN.
    window : (start, end), optional
        What rates are taken over, s on the clock of `requests`; by default from the first arrival to the last
        token.
    """
    columns = ["arrival", "finished", "prompt_tokens", "output_tokens", "tpot"]
    done = requests.loc[requests["outcome"] == "finished", columns]
    if window is None:
        last = np.fmax(float(requests["finished"].max()), float(requests["first_token"].max()))
        window = float(requests["arrival"].min()), float(last)
    start, end = window
    duration = end - start if end > start else float("nan")
    good = float(slo.met(requests).sum()) if slo is not None else float("nan")
    counts = requests["outcome"].value_counts()
    summary = Summary()
    if "lacks" in requests:  # a measured log
        summary["partial"] = float((requests["lacks"] != "").sum())
        summary.notes = notes_on(requests["lacks"])
    summary["submitted"] = float(len(requests))
    for outcome in OUTCOMES:
        summary[outcome] = float(counts.get(outcome, 0))
    summary.update(window_start_s=start, window_end_s=end, duration_s=duration)
    summary["submitted_per_s"] = len(requests) / duration
    summary["finished_per_s"] = len(done) / duration
    summary["goodput_per_s"] = good / duration
    summary["slo_of_submitted"] = good / len(requests) if len(requests) else float("nan")
    summary["slo_of_finished"] = good / len(done) if len(done) else float("nan")
    summary["prompt_tokens_per_s"] = float(done["prompt_tokens"].sum()) / duration
    summary["output_tokens_per_s"] = float(done["output_tokens"].sum()) / duration
    ttft, tpot, e2e = requests["ttft"], done["tpot"], done["finished"] - done["arrival"]
    summary["ttft_mean_s"] = mean(ttft)
    percentiles = weighted_percentiles(ttft, None, (50, 90, 99, 100))
    for key, value in zip(("p50", "p90", "p99", "max"), percentiles, strict=True):
        summary[f"ttft_{key}_s"] = value
    summary["tpot_mean_s"] = mean(tpot)
    for name, values, qs in (("tpot", tpot, (50, 99)), ("e2e", e2e, (50, 99))):
        for q, value in zip(qs, weighted_percentiles(values, None, qs), strict=True):
            summary[f"{name}_p{q}_s"] = value
    summary["waited_mean_s"] = mean(requests["waited"])
    summary.update(itl_summary(itl_values, itl_weights))
    return summary


def notes_on(lacks: pd.Series) -> tuple[str, ...]:
    """Return what requests lack and how many do, in words; `lacks` names it for each, separated by "; "."""
    parts = Counter(part for text in lacks for part in text.split("; ") if part)
    return tuple(f"{count} of {len(lacks)} without {part}" for part, count in parts.items())


def itl_summary(values: ArrayLike, weights: ArrayLike | None) -> dict[str, float]:
    """Return the keys of a summary about inter-token latencies (s), each weighed by its number of tokens."""
    percentiles = weighted_percentiles(values, weights, (50, 99, 100))
    keys = ("itl_mean_s", "itl_p50_s", "itl_p99_s", "itl_max_s")
    return dict(zip(keys, (mean(values, weights), *percentiles), strict=True))


def from_events(
    tokens: str | Path | pd.DataFrame,
    submissions: str | Path | pd.DataFrame,
    window: tuple[float, float] | None = None,
) -> EventLog:
    """Return a reader's own log in the form of a run; see `labcode.results.logs.from_events`.

    Parameters
    ----------
    tokens : path or DataFrame
        ``request``, ``time_s`` (s) and either ``token`` (index) or ``tokens`` (number in the piece).
    submissions : path or DataFrame
        ``request``, ``submitted_s`` (s), ``prompt_tokens``; optional ``outcome, reason, tenant, admitted_s``.
    window : (start, end), optional
        Observation that rates are taken over, s.
    """
    from labcode.results import logs as eventlog  # here, as that package stands on this module

    return eventlog.from_events(tokens, submissions, window)
