"""A run as a trace that any viewer of Chrome's trace event format opens (chrome://tracing, https://ui.perfetto.dev).

Two processes are shown.  *Engine*: one slice a segment, a prefill or a run of decode steps, and counters: how many
sequences decode, how many requests wait, how full the KV cache is.  *Requests*: for each a slice from arrival to end,
with waiting, prefill and decoding inside, on as few rows as they need.  Times are microseconds, as the format wants.
"""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labcode.checks import integer

if TYPE_CHECKING:
    from labcode.results.run import Run

ENGINE, REQUESTS = 1, 2
Event = dict[str, Any]


def microseconds(seconds: float) -> float:
    """Return a time in the format's unit, to the nanosecond."""
    return round(float(seconds) * 1e6, 3)


def trace_events(run: Run, most: int | None = None) -> list[Event]:
    """Return the events of a run.

    Parameters
    ----------
    run : Run
        The outcome of `simulate`.
    most : int, optional
        Show only the first so many requests (viewers become slow beyond some ten thousand), and the engine up to the
        end of the last of them.

    Returns
    -------
    list of dict
        Metadata first, then everything else by time.
    """
    shown = len(run.load) if most is None else min(integer("most", most), len(run.load))
    ends = _ends(run)[:shown]
    events = _request_events(run, ends)
    horizon = math.inf if shown == len(run.load) else float(ends.max())
    events += _engine_events(run, horizon)
    events.sort(key=lambda event: (event["ts"], -event.get("dur", 0.0)))
    return [*_names(), *events]


def write_chrome_trace(run: Run, path: str | PathLike[str], most: int | None = None) -> Path:
    """Write a run as a file for a trace viewer and return its path; see `trace_events`."""
    path = Path(path)
    content = {"displayTimeUnit": "ms", "traceEvents": trace_events(run, most)}
    path.write_text(json.dumps(content, separators=(",", ":"), allow_nan=False))
    return path


def _names() -> list[Event]:
    names = ((ENGINE, "Engine"), (REQUESTS, "Requests"))
    return [{"ph": "M", "ts": 0, "pid": pid, "tid": 0, "name": "process_name", "args": {"name": name}}
            for pid, name in names]  # fmt: skip


def _slice(name: str, kind: str, pid: int, tid: int, start: float, end: float, args: dict[str, Any]) -> Event:
    ts = microseconds(start)
    # Rounded ends, not rounded lengths: what touches in the run touches in the trace.
    return {"name": name, "cat": kind, "ph": "X", "pid": pid, "tid": tid, "ts": ts,
            "dur": round(microseconds(end) - ts, 3), "args": args}  # fmt: skip


def _ends(run: Run) -> np.ndarray:
    """Return until when each request is shown (s): its end, or that of the run if it never had one."""
    requests = run.requests
    stop = np.nanmax([requests["arrival"].max(), requests["finished"].max(), requests["first_token"].max()])
    ends = requests["finished"].to_numpy(dtype=float, copy=True)
    refused = (requests["outcome"] == "refused").to_numpy()
    ends[refused] = requests["arrival"].to_numpy()[refused]
    return np.where(np.isnan(ends), np.maximum(stop, requests["arrival"]), ends)


def _request_events(run: Run, ends: np.ndarray) -> list[Event]:
    """Return a slice a request and its phases, each in the first row that is free."""
    events: list[Event] = []
    free: list[int] = []  # rows that nobody uses, smallest first
    leaving: list[tuple[float, int]] = []
    rows = 0
    table = run.requests.iloc[: len(ends)]
    requests: list[Any] = list(table.itertuples(index=False))
    for i, request in enumerate(requests):
        while leaving and leaving[0][0] <= request.arrival:
            heapq.heappush(free, heapq.heappop(leaving)[1])
        if free:
            row = heapq.heappop(free)
        else:
            row, rows = rows, rows + 1
        heapq.heappush(leaving, (float(ends[i]), row))
        args = {
            "prompt_tokens": int(request.prompt_tokens),
            "output_tokens": int(request.output_tokens),
            "outcome": str(request.outcome),
            "preemptions": int(request.preemptions),
        }
        if request.reason:
            args["reason"] = request.reason
        if request.outcome == "refused":
            events.append({"name": f"request {i} refused", "cat": "request", "ph": "i", "s": "t", "pid": REQUESTS,
                           "tid": row, "ts": microseconds(request.arrival), "args": args})  # fmt: skip
            continue
        events.append(_slice(f"request {i}", "request", REQUESTS, row, request.arrival, ends[i], args))
        marks = [request.arrival, request.admitted, request.first_token, ends[i]]
        for name, start, end in zip(("waiting", "prefill", "decode"), marks, marks[1:], strict=False):
            end = ends[i] if math.isnan(end) else end
            if end > start:  # not if it did not happen, or took no time
                events.append(_slice(name, name, REQUESTS, row, start, end, {"request": i}))
    return events


def _engine_events(run: Run, horizon: float) -> list[Event]:
    """Return a slice a segment, and the counters that change with it."""
    events: list[Event] = []
    end = 0.0
    segments: list[Any] = list(run.steps.itertuples(index=False))
    for segment in segments:
        if segment.start >= horizon:
            break
        kind = "prefill" if segment.n_prefill else "decode"
        both = " + decode" if segment.n_prefill and segment.n_decode else ""
        count = f" x {segment.steps}" if segment.steps > 1 else ""
        args = {
            "steps": int(segment.steps),
            "prefill_sequences": int(segment.n_prefill),
            "prefill_tokens": int(segment.prefill_tokens),
            "decode_sequences": int(segment.n_decode),
            "bound": str(segment.bound),
        }
        events.append(_slice(f"{kind}{both}{count}", kind, ENGINE, 0, segment.start, segment.end, args))
        start, end = microseconds(segment.start), segment.end
        sequences = {"decoding": int(segment.n_decode), "prefilling": int(segment.n_prefill)}
        cache = {"used": int(segment.kv_used), "reserved": max(0, int(segment.kv_reserved) - int(segment.kv_used))}
        for name, values in (("sequences", sequences), ("waiting", {"requests": int(segment.waiting)}),
                             ("KV cache, tokens", cache)):  # fmt: skip
            events.append({"name": name, "ph": "C", "pid": ENGINE, "tid": 0, "ts": start, "args": values})
    counters = {
        "sequences": ("decoding", "prefilling"),
        "waiting": ("requests",),
        "KV cache, tokens": ("used", "reserved"),
    }
    for name, keys in counters.items():  # down to nothing at the end
        events.append({"name": name, "ph": "C", "pid": ENGINE, "tid": 0, "ts": microseconds(end),
                       "args": dict.fromkeys(keys, 0)})  # fmt: skip
    return events


#: Phase -> (colour, hatch): told apart without colour as well.
LOOKS = {
    "waiting": ("#c9510c", "////"),
    "prefill": ("#00805d", "...."),
    "decode": ("#0072b2", ""),
}


def draw(events: list[Event], axes: Sequence[Any]) -> None:
    """Draw a trace as a viewer would show it: requests in the first of two matplotlib axes, the engine in the second.

    Parameters
    ----------
    events : list of dict
        The ``traceEvents`` of a file, or what `trace_events` returns.
    axes : two Axes
    """
    from matplotlib.patches import Patch

    for axis, pid in zip(axes, (REQUESTS, ENGINE), strict=True):
        slices = [event for event in events if event["ph"] == "X" and event["pid"] == pid]
        for kind, (colour, hatch) in LOOKS.items():
            look = {"facecolor": colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0.6}
            for event in slices:
                if event["cat"] == kind:
                    span = (event["ts"] * 1e-6, event["dur"] * 1e-6)
                    axis.broken_barh([span], (event["tid"] - 0.4, 0.8), **look)
        axis.set_yticks(sorted({event["tid"] for event in slices}))
        axis.invert_yaxis()
    for event in events:
        if event["ph"] == "X" and event["cat"] == "request":
            place = (event["ts"] * 1e-6, event["tid"])
            axes[0].annotate(event["name"].split()[-1], place, xytext=(3, 0), textcoords="offset points", va="center",
                             fontsize=7, bbox={"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none"})  # fmt: skip
    handles = [Patch(facecolor=c, hatch=h, edgecolor="white", label=kind) for kind, (c, h) in LOOKS.items()]
    axes[0].legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)
    axes[0].set_ylabel("Row")
    axes[1].set_yticks([0], ["engine"])
    axes[1].set_xlabel("Time (s)")
