"""Result files of GuideLLM (`benchmarks.json`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from labcode.checks import integer, one_of, positive
from labcode.results.logs.log import EventLog
from labcode.results.logs.records import NAN, Entry, count, is_missing, list_of, load_json, requests_table, seconds
from labcode.workload.clock import check_resolution

GROUPS = {"successful": "finished", "incomplete": "unfinished", "errored": "failed"}
#: In the text of an error: the server said no and meant it, which is no fault.
REFUSAL = "429 Too Many Requests"
CLOCKS = {"sent": "request_start", "planned": "targeted_start"}
SUPPORTED = "reports of GuideLLM 0.4 and later can be read"
OLD_KEYS = ("start_time", "first_token_time", "last_token_time", "scheduler_info")


def from_guidellm(source: str | Path | Mapping[str, Any], benchmark: int = 0, clock: str = "sent") -> EventLog:
    """Return the log of one benchmark in a GuideLLM report.

    A report holds ``benchmarks``; each has ``requests`` in three groups, ``successful``, ``incomplete`` and
    ``errored``. Of a request this reads ``info.timings`` (Unix times: ``targeted_start, request_start,
    first_token_iteration, last_token_iteration``, ``token_iterations``), ``prompt_tokens`` and
    ``output_tokens``. Three things to know:

    * Its *time per output token* counts the first token in, (last - start)/O, and what it calls *inter-token latency*
      is this book's TPOT, (last - first)/(O - 1). The columns here are this book's.
    * Only the first and the last moment of an output are kept, so that there is no ITL and no chunk interval.
    * A report may hold a sample of the requests only; shares and rates are then over the sample.

    An error that says 429 is a refusal; all others are failures. A request without a part is read without it: not
    streamed, it has no TTFT and its end is ``request_end``; cut off before the server counted its tokens, it has as
    many as pieces came. Rates are over the benchmark's ``duration``.

    Parameters
    ----------
    source : path or mapping
        The JSON file, or its content.
    benchmark : int
        Which of the report's benchmarks, from 0.
    clock : "sent" or "planned"
        Where a request's clock starts: when it was sent (as the tool's own numbers have it), or when the
        plan wanted it sent, which also counts the wait in a client that fell behind.

    Raises
    ------
    ValueError
        If the report is none, or of an older layout; if no request has times; if a value cannot be, or times are out
        of order. Group and entry (from 0) are named.
    """
    name, content = load_json(source, "guidellm report")
    start_key = CLOCKS[str(one_of("clock", clock, CLOCKS))]
    benchmarks = content.get("benchmarks")
    if not isinstance(benchmarks, list) or not benchmarks:
        raise ValueError(f"{name}: benchmarks missing or empty; {SUPPORTED}")
    chosen = benchmarks[integer("benchmark", benchmark, at_least=0, at_most=len(benchmarks) - 1)]
    groups = chosen.get("requests") if isinstance(chosen, Mapping) else None
    if not isinstance(groups, Mapping):
        raise ValueError(f"{name}: benchmarks[{benchmark}].requests missing; {SUPPORTED}")
    found = [
        (f"{name}, {group} request {i}", entry if isinstance(entry, Mapping) else {}, outcome)
        for group, outcome in GROUPS.items()
        for i, entry in enumerate(list_of(f"{name}: {group}", groups.get(group) or ()))
    ]
    if not found:
        raise ValueError(f"{name}: benchmarks[{benchmark}] holds no requests")
    check_layout(found)
    entries = [entry_of(where, entry, outcome, start_key) for where, entry, outcome in found]
    starts = [entry.start for entry in entries if not math.isnan(entry.start)]
    if not starts:
        raise ValueError(f"{found[0][0]}: info.timings.{start_key} missing, as in all others; a start is needed")
    origin = min(starts)
    entries = [replace(entry, start=entry.start - origin) for entry in entries]
    window, window_is, notes = window_of(name, chosen, entries, origin)
    none = pd.DataFrame({"request": [], "seconds": [], "tokens": []}, dtype=float)
    return EventLog(requests_table(entries), none, window, False, window_is, notes, origin)


def check_layout(found: Sequence[tuple[str, Mapping[str, Any], str]]) -> None:
    """Raise a `ValueError` if no request has the times that this layout keeps in ``info.timings``."""
    if any(timings_of(entry) for _, entry, _ in found):
        return
    where, entry, _ = found[0]
    old = [key for key in OLD_KEYS if key in entry]
    if old and "info" not in entry:
        raise ValueError(f"{where}: {', '.join(old)} beside the request: an older layout; {SUPPORTED}")
    raise ValueError(f"{where}: info.timings missing, as in all others; {SUPPORTED}")


def timings_of(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the times of a request, empty if there are none."""
    info = entry.get("info")
    timings = info.get("timings") if isinstance(info, Mapping) else None
    return timings if isinstance(timings, Mapping) else {}


def window_of(
    name: str, chosen: Mapping[str, Any], entries: Sequence[Entry], origin: float
) -> tuple[tuple[float, float], str, tuple[str, ...]]:
    """Return the window (s, counted from `origin` as the entries are), where it comes from, and what to say of it."""
    last = float(np.nanmax([[entry.start, entry.start + entry.ttft, entry.start + entry.e2e] for entry in entries]))
    check_resolution(f"{name}: the last time", origin + last)
    if is_missing(chosen.get("duration")):
        return (0.0, last), "first start to the last thing that the report saw; it has no duration", ()
    duration = positive(f"{name}: duration", chosen["duration"])
    begin = seconds(f"{name}: start_time", chosen.get("start_time"))
    start = 0.0 if math.isnan(begin) else begin - origin
    beyond = f"requests go on until {last:.6g} s, the benchmark's window ends at {start + duration:.6g} s"
    notes = (beyond,) if last > start + duration + 1e-3 else ()
    return (start, start + duration), "the benchmark's own duration", notes


def entry_of(where: str, entry: Mapping[str, Any], outcome: str, start_key: str) -> Entry:
    """Return one request of a report, on the report's clock."""
    timings = timings_of(entry)

    def time(key: str) -> float:
        return seconds(f"{where}: {key}", timings.get(key))

    start, first, last = time(start_key), time("first_token_iteration"), time("last_token_iteration")
    if math.isnan(start) and start_key == "request_start":
        start = seconds(f"{where}: request_start_time", entry.get("request_start_time"))
    end = time("request_end")
    if math.isnan(end):
        end = seconds(f"{where}: request_end_time", entry.get("request_end_time"))
    told = [moment for moment in (start, first, last) if not math.isnan(moment)]
    if told != sorted(told) or end < start:
        raise ValueError(f"{where}: out of order: start {start}, first token {first}, last token {last}, end {end}")
    pieces = count(f"{where}: token_iterations", timings.get("token_iterations"))
    output = count(f"{where}: output_tokens", entry.get("output_tokens"))
    if not output > 0 and pieces > 0:
        output = pieces  # the server's count comes last, and a stream that broke never got it
    if output == 0 and not math.isnan(first):
        output = NAN  # a first token came, so this is no number of tokens
    info = entry.get("info")
    reason = info.get("error") if isinstance(info, Mapping) else None
    if outcome == "failed" and REFUSAL in str(reason):
        outcome = "refused"
    return Entry(
        str(entry.get("request_id") or where),
        outcome,
        str(reason or ""),
        start,
        first - start,
        last - first,
        (end if math.isnan(last) else last) - start,
        count(f"{where}: prompt_tokens", entry.get("prompt_tokens")),
        output,
        pieces or NAN,
    )
