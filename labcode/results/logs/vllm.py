"""Result files of `vllm bench serve --save-result --save-detailed`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labcode.checks import positive
from labcode.results.logs.log import EventLog
from labcode.results.logs.records import (
    NAN,
    Entry,
    count,
    intervals_table,
    list_of,
    load_json,
    requests_table,
    seconds,
    text_of,
)
from labcode.workload.clock import check_resolution

NEEDED = ("input_lens", "output_lens", "ttfts", "itls", "errors", "duration")
NO_CLOCK = "no start_times in the file: every request starts at 0"


def from_vllm(source: str | Path | Mapping[str, Any]) -> EventLog:
    """Return the log in a result file of vLLM's serving benchmark.

    The file holds a list entry a request: ``input_lens``, ``output_lens`` (tokens), ``ttfts`` (s), ``itls``
    (lists, s), ``errors`` ("" for success) and, since late 2025, ``start_times`` (s). Three things to know
    about them:

    * What the tool calls ITL are the gaps between the pieces of the stream. Where a piece holds several tokens
      (speculative decoding, a busy server), there are fewer gaps than tokens; this log then reports them as chunk
      intervals.
    * A time that was not seen is written as 0: the TTFT of a request that failed, or of one whose answer came as a
      whole. Here it has none, is not within an SLO that limits it, and stays in every denominator.
    * A request's clock starts when it is sent. With ``--max-concurrency`` it may have stood in the client before
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
        If a key is missing, lists differ in length, or an entry holds what cannot be (a negative time, a text for
        a number); the entry is named, from 0. An entry that lacks a part is read without it.
    """
    name, content = load_json(source, "vllm result")
    missing = [key for key in NEEDED if key not in content]
    if missing:
        raise ValueError(f"{name}: {', '.join(missing)} missing; was the benchmark run with --save-detailed?")
    columns = {key: list_of(f"{name}: {key}", content[key]) for key in NEEDED[:-1]}
    given = content.get("start_times") or [0.0] * len(columns["ttfts"])
    columns["start_times"] = list_of(f"{name}: start_times", given)
    lengths = {key: len(column) for key, column in columns.items()}
    if len(set(lengths.values())) != 1:
        raise ValueError(f"{name}: lists of different length: {lengths}")
    if not columns["ttfts"]:
        raise ValueError(f"{name}: no requests")
    starts = [seconds(f"{name}: start_times[{i}]", value) for i, value in enumerate(columns["start_times"])]
    known = [start for start in starts if not math.isnan(start)] or [0.0]
    check_resolution(f"{name}: start_times", max(known))
    origin = min(known)
    entries = [entry_of(name, i, columns, start - origin) for i, start in enumerate(starts)]
    duration = positive(f"{name}: duration", content["duration"])
    return EventLog(
        requests_table(entries),
        intervals_table(entries),
        (0.0, duration),
        window_is="the benchmark's own duration",
        notes=() if content.get("start_times") else (NO_CLOCK,),
        origin=origin,
    )


def entry_of(name: str, i: int, columns: Mapping[str, Any], start: float) -> Entry:
    """Return entry `i` of the lists, sent at `start` s."""
    where = f"{name}, request {i}"
    prompt = count(f"{where}: input_lens", columns["input_lens"][i])
    output = count(f"{where}: output_lens", columns["output_lens"][i])
    error = text_of(f"{where}: errors", columns["errors"][i])
    ttft = seconds(f"{where}: ttfts", columns["ttfts"][i]) or NAN
    pieces = list_of(f"{where}: itls", columns["itls"][i] or ())
    gaps = [seconds(f"{where}: itls", gap) for gap in pieces]
    if not any(gaps):
        gaps = []  # none, or all of them 0: nobody saw when the pieces came
    if math.isnan(ttft) and not gaps and (error or not output > 0):
        if not error and math.isnan(output):
            return Entry(str(i), "unknown", "nothing is known of it", start, prompt=prompt)
        # A refusal without a reason phrase leaves the error empty, too.
        reason = last_line(error) or "no output, no reason given"
        return Entry(str(i), "failed", reason, start, prompt=prompt, output=0, chunks=0)
    chunks = float(1 + len(gaps))
    if error:
        output = max(chunks, output)  # the server's count comes last, and a stream that broke never got it
    elif output == 0:
        output = NAN  # something came, so this is no number of tokens
    if not gaps and output != 1:
        chunks = NAN  # all at once: not a stream
    span = sum(gaps)  # NaN if one is missing
    seen = tuple(gap for gap in gaps if not math.isnan(gap))
    if not any(seen):
        seen = ()
    outcome = "failed" if error else "finished"
    return Entry(str(i), outcome, last_line(error), start, ttft, span, ttft + span, prompt, output, chunks, seen)


def last_line(error: str) -> str:
    """Return the last line of an error text: of a traceback, what went wrong."""
    return error.strip().rpartition("\n")[2].strip()
