"""A measured log: the same flat table as a simulated run's, and what the observer could and could not see."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.results.metrics import SLO, Summary, summarise, weighted_percentile
from labcode.workload.request import FloatArray


@dataclass(frozen=True, eq=False)
class EventLog:
    """Requests of a measured run, and the intervals between what arrived of each.

    Attributes
    ----------
    requests : DataFrame
        A row a request, in order of submission; the index holds the log's own names. Columns as those of
        `run.requests`: ``arrival, admitted, first_token, finished`` (s), ``prompt_tokens, output_tokens``,
        ``outcome, reason``, ``ttft, tpot, itl_max, waited`` (s), ``tenant``; and ``chunks``, the number of
        pieces in which the output came. NaN where a thing has no value or could not be observed. ``lacks`` names
        the parts that a complete log would have, separated by "; ".
    intervals : DataFrame
        A row for each gap between two pieces of the same request: ``request`` (row of `requests`, from 0),
        ``seconds``, and ``tokens`` that came at its end (NaN where only their total is known).
    window : (float, float)
        Start and end of the observation (s); rates are taken over it.
    intervals_seen : bool
        False if the log holds only the first and the last moment of each output.
    window_is : str
        Where the window comes from, in words.
    notes : tuple of str
        What is to be known of the log as a whole before its numbers are read.
    origin : float
        What has been subtracted from the file's times, s.
    """

    requests: pd.DataFrame
    intervals: pd.DataFrame
    window: tuple[float, float]
    intervals_seen: bool = True
    window_is: str = "first submission to the last thing that the log saw"
    notes: tuple[str, ...] = ()
    origin: float = 0.0

    @property
    def duration(self) -> float:
        """Length of the observation, s."""
        return self.window[1] - self.window[0]

    @property
    def per_token(self) -> bool:
        """Whether every piece held one token, so that its intervals are inter-token latencies."""
        return self.intervals_seen and not self._in_pieces().any()

    def _in_pieces(self) -> NDArray[np.bool_]:
        """Return which requests came in another number of pieces than tokens, as far as somebody counted."""
        chunks = self.requests["chunks"].to_numpy(dtype=np.float64)
        return (chunks != self.requests["output_tokens"].to_numpy(dtype=np.float64)) & ~np.isnan(chunks)

    def itl(self) -> tuple[FloatArray, FloatArray]:
        """Return the token-level inter-token latencies as (values in s, weights of 1).

        Raises
        ------
        ValueError
            If some piece of the stream held several tokens, or intervals were not recorded: then nobody saw
            when a token came, and `chunk_intervals` is what can be reported.
        """
        if not self.intervals_seen:
            raise ValueError("this log has no times between the first and the last token, so it has no ITL")
        if not self.per_token:
            row = int(np.flatnonzero(self._in_pieces())[0])
            request = self.requests.iloc[row]
            raise ValueError(
                f"request {self.requests.index[row]} got {request['output_tokens']:.0f} tokens in "
                f"{request['chunks']:.0f} pieces: these are chunk intervals, not ITL; use chunk_intervals()"
            )
        seconds = self.intervals["seconds"].to_numpy(dtype=np.float64)
        return seconds, np.ones(len(seconds))

    def chunk_intervals(self) -> tuple[FloatArray, FloatArray]:
        """Return the intervals between pieces as (seconds, tokens at the end of each; NaN if unknown)."""
        if not self.intervals_seen:
            raise ValueError("this log has no times between the first and the last token")
        return (
            self.intervals["seconds"].to_numpy(dtype=np.float64),
            self.intervals["tokens"].to_numpy(dtype=np.float64),
        )

    def summary(self, slo: SLO | None = None) -> Summary:
        """Return one flat mapping, the keys of `metrics.summarise`, over all requests of the log.

        Its first key, ``partial``, counts the requests of which the log lacks a part; the table and ``.notes`` say
        what. Added at the end are percentiles of the chunk intervals. The ITL keys are NaN ("no data") unless every
        piece held one token.

        Raises
        ------
        ValueError
            If the SLO limits the ITL and the log does not show it.
        """
        if slo is not None and slo.itl is not None:
            self.itl()
        values, weights = self.itl() if self.per_token else (np.empty(0), np.empty(0))
        summary = summarise(self.requests, values, weights, slo, self.window)
        summary.window = self.window_is
        summary.notes = (*summary.notes, *self.notes)
        seconds = self.chunk_intervals()[0] if self.intervals_seen else np.empty(0)
        for q in (50, 99):
            summary[f"chunk_interval_p{q}_s"] = weighted_percentile(seconds, None, q)
        return summary

    def slices(self, by: str, slo: SLO | None = None, edges: tuple[float, ...] = ()) -> pd.DataFrame:
        """Return the summary of each slice of the requests, a row a slice.

        Parameters
        ----------
        by : str
            A column of `requests`, such as "tenant" or "prompt_tokens".
        slo : SLO, optional
            Without one the keys about it are NaN.
        edges : tuple of float
            For a column of numbers: the slices are (-inf, e1], (e1, e2], ... (ek, inf). A slice that holds
            no request is left out. Without edges there is a slice for each value of the column.
        """
        return summary_by(self.requests, by, slo, edges, self.window)


def summary_by(
    requests: pd.DataFrame,
    by: str,
    slo: SLO | None = None,
    edges: tuple[float, ...] = (),
    window: tuple[float, float] | None = None,
) -> pd.DataFrame:
    """Return a table with the summary of each slice of a table of requests; see `EventLog.slices`.

    Works on `run.requests` too. Rates of all slices are over the same `window` (start and end, s), so that they add
    up to the whole run's; token-level keys are NaN, as a table of requests does not hold them.

    Raises
    ------
    ValueError
        If the column is not there, or the edges do not ascend.
    """
    if by not in requests.columns:
        raise ValueError(f"by = {by!r}: the columns are {', '.join(requests.columns)}")
    if any(high <= low for low, high in pairwise(edges)):
        raise ValueError(f"edges = {edges!r}: must ascend")
    if window is None:
        last = np.nanmax(requests[["arrival", "first_token", "finished"]].to_numpy(dtype=np.float64))
        window = float(requests["arrival"].min()), float(last)
    key = pd.cut(requests[by], [-np.inf, *edges, np.inf]) if edges else requests[by]
    groups = requests.groupby(key, observed=True)
    rows = {name: summarise(part, slo=slo, window=window) for name, part in groups}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(by)
