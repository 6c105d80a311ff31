"""Result files of `vllm bench serve --save-result --save-detailed`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from labcode.checks import positive
from labcode.results.logs.log import EventLog
from labcode.results.logs.records import Measured, count, load_json, requests_table, seconds

NAN = float("nan")
NEEDED = ("input_lens", "output_lens", "ttfts", "itls", "errors", "duration")


def from_vllm(source: str | Path | Mapping[str, Any]) -> EventLog:
    """Return the log in a result file of vLLM's serving benchmark.

    The file holds a list entry a request: ``input_lens``, ``output_lens`` (tokens), ``ttfts`` (s), ``itls``
    (lists, s), ``errors`` ("" for success) and, since late 2025, ``start_times`` (s). Three things to know
    about them:

    * What the tool calls ITL are the gaps between the pieces of the stream. Where a piece holds several
    tokens
      (speculative decoding, a busy server), there are fewer gaps than tokens; this log then reports them as
      chunk intervals.
    * A request that failed is written with a TTFT of 0. Here it has none, and stays in every denominator.
    * A request's clock starts when it is sent. With ``--max-concurrency`` it may have stood in the client
    before
      that, and that wait is in no number of the file.

    Parameters
    ----------
    source : path or mapping
        The JSON file, or its content.

    Returns
    -------
    EventLog
        Times count from the first start. Without ``start_times`` there is no common clock: every request
        starts at 0, and only what lies within a request (and the rates, from ``duration``) has a meaning.

    Raises
    ------
    ValueError
        If a key is missing, lists differ in length, or an entry cannot be; the entry is named, from 0.
    """
    name, content = load_json(source, "vllm result")
    missing = [key for key in NEEDED if key not in content]
    if missing:
        raise ValueError(f"{name}: {', '.join(missing)} missing; was the benchmark run with --save-detailed?")
    starts = content.get("start_times") or [0.0] * len(content["ttfts"])
    columns = {key: content[key] for key in NEEDED[:-1]} | {"start_times": starts}
    lengths = {key: len(column) for key, column in columns.items()}
    if len(set(lengths.values())) != 1:
        raise ValueError(f"{name}: lists of different length: {lengths}")
    if not starts:
        raise ValueError(f"{name}: no requests")
    origin = min(seconds(f"{name}: start_times[{i}]", value) for i, value in enumerate(starts))
    records = [measured(name, i, columns, origin) for i in range(len(starts))]
    gaps = [(i, gap) for i, row in enumerate(columns["itls"]) for gap in row if not math.isnan(records[i].ttft)]
    by_arrival = np.argsort([record.start for record in records], kind="stable")
    rank = np.empty(len(records), dtype=np.int64)
    rank[by_arrival] = np.arange(len(records))
    owner = np.array([i for i, _ in gaps], dtype=np.int64)
    whole = np.array([record.chunks == record.output for record in records])
    intervals = pd.DataFrame(
        {
            "request": rank[owner],
            "seconds": np.array([gap for _, gap in gaps], dtype=np.float64),
            "tokens": np.where(whole[owner], 1.0, np.nan),
        }
    )
    duration = positive(f"{name}: duration", content["duration"])
    return EventLog(requests_table(records), intervals, (0.0, duration))


def measured(name: str, i: int, columns: Mapping[str, Any], origin: float) -> Measured:
    """Return entry `i` of the lists."""
    where = f"{name}, request {i}"
    start = seconds(f"{where}: start_times", columns["start_times"][i]) - origin
    prompt = count(f"{where}: input_lens", columns["input_lens"][i])
    error = columns["errors"][i] or ""
    if not isinstance(error, str):
        raise ValueError(f"{where}: errors = {error!r}: a text is needed")
    ttft = seconds(f"{where}: ttfts", columns["ttfts"][i] or 0.0)
    gaps = [seconds(f"{where}: itls", gap) for gap in columns["itls"][i]]
    output = count(f"{where}: output_lens", columns["output_lens"][i] or 0)
    if not ttft and not gaps and (error or not output):
        # A refusal without a reason phrase leaves the error empty, too.
        reason = last_line(error) or "no output, no reason given"
        return Measured(str(i), start, NAN, NAN, prompt, 0, "failed", reason, chunks=0)
    chunks = 1 + len(gaps)
    if error:
        output = max(output, chunks)  # the server's count comes last, and a stream that broke never got it
    if output < 1:
        raise ValueError(f"{where}: output_lens = {output}: a request with a TTFT and no error must have output")
    largest = max(gaps) if gaps and chunks == output else NAN
    outcome = "failed" if error else "finished"
    return Measured(str(i), start, ttft, sum(gaps), prompt, output, outcome, last_line(error), chunks, largest)


def last_line(error: str) -> str:
    """Return the last line of an error text: of a traceback, what went wrong."""
    lines = error.strip().splitlines()
    return lines[-1] if lines else ""
