"""A log of one's own: a table of what arrived when, and a table of what was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.checks import number
from labcode.results.logs.log import EventLog
from labcode.results.logs.records import NO_BETWEEN, NO_END, NO_FIRST
from labcode.results.outcomes import OUTCOMES
from labcode.workload.clock import check_resolution, origin_of
from labcode.workload.request import FloatArray, IntArray
from labcode.workload.table import Table, csv_table, frame_table, is_blank, read_text

Source = str | Path | pd.DataFrame


def from_events(tokens: Source, submissions: Source, window: tuple[float, float] | None = None) -> EventLog:
    """Return the log of a reader's own measurement.

    Both tables are CSV files or data frames. All times are in seconds on one clock that starts at 0 or later, read
    where the client receives (or wherever else, but everywhere the same; say where when you report the numbers).
    Epoch times, and all others that begin at 1e6 s or later, are counted from the whole second of the first
    submission; `EventLog.origin` keeps it.

    Parameters
    ----------
    tokens : path or DataFrame
        A row for each piece of output, rows of one request in the order of arrival, requests interleaved as
        they come. Columns ``request``, ``time_s`` and one of: ``token``, the index of the single token that
        came (counted from 0 or from 1); ``tokens``, the number of tokens in the piece.
    submissions : path or DataFrame
        A row for each request that was asked for, also those that were refused or failed. Columns
        ``request``, ``submitted_s``, ``prompt_tokens``; optional ``outcome`` (one of `OUTCOMES`; "rejected"
        is read as refused), ``reason``, ``tenant``, ``admitted_s``. Without an outcome, a request with output is
        taken as finished; what became of one without is unknown.
    window : (start, end), optional
        The observation, s on the clock of the tables; by default from the first submission to the last thing that
        the log saw.

    Returns
    -------
    EventLog
        The last token of a request is its end: a closing message that comes later is not in this log. Tokens at the
        very moment of submission, or several at one moment, come from a clock that is too coarse, or from an answer
        that came as a whole: they have no time to first token, or between tokens, and the summary says how many.

    Raises
    ------
    ValueError
        Naming file and line (or argument and row, from 0): missing columns; values that cannot be read;
        negative times; a request in `tokens` that `submissions` does not know, or twice in `submissions`; a
        first token that is missing, an index that is skipped or comes twice, a time before the one before it
        or before the submission; a finished request without output, a refused one with output.
    """
    asked = table_of("submissions", submissions)
    asked.require(("request", "submitted_s", "prompt_tokens"))
    if not len(asked):
        raise ValueError(f"{asked.name}: no requests")
    pieces = table_of("tokens", tokens)
    pieces.require(("request", "time_s"))
    counted = [name for name in ("token", "tokens") if name in pieces.columns]
    if len(counted) != 1:
        raise ValueError(
            f"{pieces.name}: one of the columns token (an index) and tokens (a number) is needed; "
            f"there are {', '.join(pieces.columns)}"
        )
    rows = rows_of_requests(asked)
    submitted, prompts = asked.times("submitted_s"), asked.tokens("prompt_tokens")
    request = np.array([rows.get(name, -1) for name in pieces.text("request")], dtype=np.int64)
    pieces.refuse("request", request < 0, f"not in {asked.name}")
    time = pieces.times("time_s")
    pieces.refuse("time_s", time < submitted[request], "before the request was submitted")
    if counted == ["token"]:
        check_indices(pieces, request)
        size = np.ones(len(pieces), dtype=np.int64)
    else:
        size = pieces.tokens("tokens")
    last = float(np.append(time, submitted).max())
    check_resolution(f"{pieces.name if len(pieces) else asked.name}: the last time", last)
    origin = origin_of(float(submitted.min()))
    submitted, time = submitted - origin, time - origin
    order = np.argsort(request, kind="stable")  # by request, each in the order of the log
    owner, gaps = gaps_of(request[order], time[order])
    back = np.zeros(len(pieces), dtype=bool)
    back[order] = (owner >= 0) & (gaps < 0)
    pieces.refuse("time_s", back, "earlier than the piece before it")
    frame = request_frame(asked, submitted, origin, request[order], time[order], size[order])
    frame.insert(4, "prompt_tokens", prompts)
    by_arrival = np.argsort(submitted, kind="stable")
    rank = np.empty(len(asked), dtype=np.int64)
    rank[by_arrival] = np.arange(len(asked))
    inner = (owner >= 0) & np.isfinite(frame["tpot"].to_numpy())[owner]  # several at one moment have no gaps
    intervals = pd.DataFrame(
        {
            "request": rank[owner[inner]],
            "seconds": gaps[inner],
            "tokens": size[order][inner].astype(np.float64),
        }
    )
    start, end = observed(window, origin + float(submitted.min()), last)
    return EventLog(
        frame.iloc[by_arrival],
        intervals,
        (start - origin, end - origin),
        window_is=EventLog.window_is if window is None else "the observation, as given",
        origin=origin,
    )


def gaps_of(request: IntArray, time: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return for each piece the request whose gap ends with it (-1: a first piece), and that gap.

    Pieces are sorted by request; shapes (pieces,).
    """
    owner = np.full(len(request), -1, dtype=np.int64)
    inner = request[1:] == request[:-1]
    owner[1:][inner] = request[1:][inner]
    return owner, np.diff(time, prepend=time[:1])


def table_of(name: str, source: Source) -> Table:
    """Return the cells of a CSV file or a data frame."""
    if isinstance(source, pd.DataFrame):
        return frame_table(name, source)
    if not isinstance(source, (str, Path)):
        raise ValueError(f"{name} = {type(source).__name__}: the path of a CSV or a DataFrame is needed")
    path = Path(source)
    return csv_table(path.name, read_text(path))


def rows_of_requests(asked: Table) -> dict[str, int]:
    """Return request name -> row of the submissions; every name stands once and is not empty."""
    names = asked.text("request")
    asked.refuse("request", np.array([not name for name in names]), "a name is needed")
    rows: dict[str, int] = {}
    twice = np.array([rows.setdefault(name, row) != row for row, name in enumerate(names)])
    asked.refuse("request", twice, "submitted twice")
    return rows


def check_indices(pieces: Table, request: IntArray) -> None:
    """Check that the token indices of each request start at the log's first index and go up by one."""
    index = pieces.tokens("token", at_least=0)
    if not len(index):
        return
    start = int(index.min())
    if start > 1:
        first = int(np.argmin(index))
        raise ValueError(
            f"{pieces.where(first)}: token = {start}: the first token is missing (indices start at 0 or 1)"
        )
    expected: dict[int, int] = {}
    for row, (who, token) in enumerate(zip(request.tolist(), index.tolist(), strict=True)):
        wanted = expected.get(who, start)
        if token != wanted:
            raise ValueError(
                f"{pieces.where(row)}: token = {token}: {problem(token, wanted, start)}"
                f" (request {pieces.columns['request'][row]})"
            )
        expected[who] = wanted + 1


def problem(token: int, wanted: int, start: int) -> str:
    """Say what is wrong with a token index where `wanted` should stand."""
    if wanted == start:
        return f"the first token is missing, it has index {start}"
    if token == wanted - 1:
        return "this token came already"
    return "out of order, it came already or late" if token < wanted else f"out of order, token {wanted} is missing"


def outcomes_of(asked: Table, output: IntArray) -> NDArray[np.object_]:
    """Return the outcome of each request, stated or (where it is not) inferred from its output."""
    inferred = np.where(output > 0, "finished", "unknown").astype(object)
    if "outcome" not in asked.columns:
        return inferred
    stated = ["refused" if text == "rejected" else text for text in asked.text("outcome")]
    known = np.array([text in OUTCOMES or not text for text in stated], dtype=bool)
    asked.refuse("outcome", ~known, f"known are {', '.join(OUTCOMES)}")
    outcome = np.array([text or guess for text, guess in zip(stated, inferred, strict=True)], dtype=object)
    asked.refuse("outcome", (outcome == "finished") & (output == 0), "but its first token is missing")
    asked.refuse("outcome", (outcome == "refused") & (output > 0), "but tokens of it arrived")
    return outcome


def request_frame(
    asked: Table, submitted: FloatArray, origin: float, request: IntArray, time: FloatArray, size: IntArray
) -> pd.DataFrame:
    """Return the table of requests, in the order of the submissions.

    `request`, `time`, `size` describe the pieces, sorted by request and then by time. Times count from `origin`.
    """
    n = len(asked)
    chunks = np.bincount(request, minlength=n)
    output = np.bincount(request, weights=size, minlength=n).astype(np.int64)
    ends = np.cumsum(chunks)
    got = chunks > 0
    first, last, largest = (np.full(n, np.nan) for _ in range(3))
    first[got], last[got] = time[(ends - chunks)[got]], time[ends[got] - 1]
    owner, gaps = gaps_of(request, time)
    # A gap is an ITL only if every piece of its request held one token.
    own = (owner >= 0) & (chunks == output)[request]
    np.fmax.at(largest, owner[own], gaps[own])
    outcome = outcomes_of(asked, output)
    admitted = np.full(n, np.nan)
    if "admitted_s" in asked.columns:
        admitted = asked.times("admitted_s", blank=float("nan")) - origin
        asked.refuse("admitted_s", admitted < submitted, "before it was submitted")
    done, more = outcome == "finished", output - 1
    # What took no time was not seen; `last` alone stays, as a moment that the log saw.
    first_seen = np.where(first > submitted, first, np.nan)
    between = np.where((more > 0) & (last > first), (last - first) / np.maximum(more, 1), np.nan)
    finished = np.where(done & (last > submitted), last, np.nan)
    missing = {
        NO_FIRST: got & np.isnan(first_seen),
        NO_BETWEEN: (more > 0) & np.isnan(between),
        NO_END: done & np.isnan(finished),
    }
    return pd.DataFrame(
        {
            "arrival": submitted,
            "admitted": admitted,
            "first_token": first_seen,
            "finished": finished,
            "output_tokens": output,
            "outcome": pd.Categorical(outcome, categories=list(OUTCOMES)),
            "reason": optional_text(asked, "reason"),
            "ttft": first_seen - submitted,
            "tpot": between,
            "itl_max": np.where(largest > 0, largest, np.nan),
            "waited": admitted - submitted,
            "chunks": chunks,
            "tenant": optional_text(asked, "tenant"),
            "lacks": ["; ".join(name for name, row in missing.items() if row[i]) for i in range(n)],
        },
        index=pd.Index(asked.text("request"), name="request"),
    )


def optional_text(asked: Table, column: str) -> list[Any]:
    """Return a column of text, "" where it or a cell is not there."""
    if column not in asked.columns:
        return [""] * len(asked)
    return ["" if is_blank(cell) else str(cell).strip() for cell in asked.columns[column]]


def observed(window: tuple[float, float] | None, first: float, last: float) -> tuple[float, float]:
    """Return the window of observation (s), checked: it must hold everything that the log saw, `first` to `last`."""
    if window is None:
        return first, last
    start, end = number("window start", window[0]), number("window end", window[1])
    if end <= start:
        raise ValueError(f"window = {window!r}: the end must lie after the start")
    if start > first or end < last:
        raise ValueError(f"window = {window!r}: the log goes from {first:.10g} to {last:.10g} s, outside it")
    return start, end
