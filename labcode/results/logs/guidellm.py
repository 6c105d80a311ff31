"""Result files of GuideLLM (`benchmarks.json`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from labcode.checks import integer, one_of
from labcode.results.logs.log import EventLog
from labcode.results.logs.records import Measured, count, load_json, requests_table, seconds

GROUPS = {"successful": "finished", "incomplete": "unfinished", "errored": "failed"}
CLOCKS = {"sent": "request_start", "planned": "targeted_start"}


def from_guidellm(source: str | Path | Mapping[str, Any], benchmark: int = 0, clock: str = "sent") -> EventLog:
    """Return the log of one benchmark in a GuideLLM report.

    A report holds ``benchmarks``; each has ``requests`` in three groups, ``successful``, ``incomplete`` and
    ``errored``. Of a request this reads ``info.timings`` (Unix times: ``targeted_start, request_start,
    first_token_iteration, last_token_iteration``, ``token_iterations``), ``prompt_tokens`` and
    ``output_tokens``. Three things to know:

    * Its *time per output token* counts the first token in, (last - start)/O, and what it calls *inter-token
    latency* is
      this book's TPOT, (last - first)/(O - 1). The columns here are this book's.
    * Only the first and the last moment of an output are kept, so that there is no ITL and no chunk interval.
    * A report may hold a sample of the requests only; shares are then over the sample.

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
        If the report lacks a key or holds a value that cannot be; group and entry (from 0) are named.
    """
    name, content = load_json(source, "guidellm report")
    start_key = CLOCKS[str(one_of("clock", clock, CLOCKS))]
    benchmarks = content.get("benchmarks")
    if not isinstance(benchmarks, list) or not benchmarks:
        raise ValueError(f"{name}: benchmarks missing or empty; is this a GuideLLM report?")
    chosen = benchmarks[integer("benchmark", benchmark, at_least=0, at_most=len(benchmarks) - 1)]
    groups = chosen.get("requests")
    if not isinstance(groups, Mapping):
        raise ValueError(f"{name}: benchmarks[{benchmark}].requests missing")
    records = [
        measured(f"{name}, {group} request {i}", entry, outcome, start_key)
        for group, outcome in GROUPS.items()
        for i, entry in enumerate(groups.get(group) or [])
    ]
    if not records:
        raise ValueError(f"{name}: benchmarks[{benchmark}] holds no requests")
    origin = min(record.start for record in records)
    frame = requests_table(records)
    for column in ("arrival", "first_token", "finished"):
        frame[column] -= origin
    end = float(np.nanmax(frame[["arrival", "first_token", "finished"]].to_numpy(dtype=np.float64)))
    none = pd.DataFrame({"request": [], "seconds": [], "tokens": []}, dtype=float)
    return EventLog(frame, none, (0.0, end), intervals_seen=False)


def measured(where: str, entry: Any, outcome: str, start_key: str) -> Measured:
    """Return one request of a report."""
    timings = entry.get("info", {}).get("timings") if isinstance(entry, Mapping) else None
    if not isinstance(timings, Mapping):
        raise ValueError(f"{where}: info.timings missing")
    start = timings.get(start_key)
    if start is None:
        start = entry.get("request_start_time")
    if start is None:
        raise ValueError(f"{where}: {start_key} missing")
    start = seconds(f"{where}: {start_key}", start)
    first, last = timings.get("first_token_iteration"), timings.get("last_token_iteration")
    prompt = count(f"{where}: prompt_tokens", entry.get("prompt_tokens") or 0)
    output = count(f"{where}: output_tokens", entry.get("output_tokens") or 0)
    request = str(entry.get("request_id", where))
    reason = str(entry["info"].get("error") or "")
    if first is None or last is None:
        if outcome == "finished":
            raise ValueError(f"{where}: first_token_iteration missing, but the request was successful")
        return Measured(request, start, float("nan"), float("nan"), prompt, output, outcome, reason)
    first, last = seconds(f"{where}: first token", first), seconds(f"{where}: last token", last)
    if not start <= first <= last:
        raise ValueError(f"{where}: out of order: start {start}, first token {first}, last token {last}")
    if output < 1:
        raise ValueError(f"{where}: output_tokens = {output}, but a first token came")
    return Measured(request, start, first - start, last - first, prompt, output, outcome, reason)
