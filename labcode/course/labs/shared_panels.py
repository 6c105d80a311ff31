"""Curves that several labs draw: distributions, and what happens over the time of a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.results.metrics import weighted_percentiles
from labcode.results.run import Run

#: Shares at which a distribution is drawn: close together at both ends, where something happens.
SHARES = (0.01, 0.05, *np.linspace(0.1, 0.9, 17).round(3).tolist(), 0.95, 0.97, 0.98, 0.99, 0.995, 1.0)


def distribution(values: ArrayLike, weights: ArrayLike | None = None, floor: float = 1e-3) -> tuple[float, ...]:
    """Return the values (at least `floor`, for a log axis) below which each of `SHARES` of the weight lies.

    Empty if there are no values: a panel then says "no data".
    """
    points = weighted_percentiles(values, weights, [100 * share for share in SHARES])
    return () if np.isnan(points[0]) else tuple(max(point, floor) for point in points)


def shares(points: tuple[float, ...]) -> tuple[float, ...]:
    """Return the y values that go with `distribution`'s x values."""
    return SHARES if points else ()


def said(seconds: float) -> str:
    """Return a time as a person would say it."""
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


@dataclass(frozen=True)
class Compared:
    """Two runs of one lab, and what its legends call them."""

    run: Run
    pinned: Run
    name: str
    pinned_name: str

    def ttft_panel(
        self, text: str, limit: float = 1.0, title: str = "Time to first token, request by request"
    ) -> Panel:
        """Return the distribution of TTFT over requests, with the SLO's limit in seconds."""
        ours, base = (distribution(one.record.first_token - one.load.arrival) for one in (self.run, self.pinned))
        mark = Mark("vline", limit, f"SLO {limit:g} s")
        return self._panel("ttft", title, "TTFT", "requests", ours, base, mark, text)

    def itl_panel(self, text: str, limit: float = 0.050) -> Panel:
        """Return the distribution of inter-token latency over tokens, with the limit on TPOT in seconds."""
        ours, base = (distribution(*one.itl()) for one in (self.run, self.pinned))
        mark = Mark("vline", limit, f"TPOT goal {1000 * limit:.0f} ms")
        return self._panel("itl", "Inter-token latency, token by token", "ITL", "tokens", ours, base, mark, text)

    def _panel(
        self,
        key: str,
        title: str,
        axis: str,
        over: str,
        ours: tuple[float, ...],
        base: tuple[float, ...],
        mark: Mark,
        text: str,
    ) -> Panel:
        series = (
            Series(self.name, "line", ours, shares(ours)),
            Series(self.pinned_name, "line", base, shares(base), role="baseline"),
        )
        return Panel(
            key,
            title,
            Axis(axis, "s", "log"),
            Axis(f"Share of {over}", limits=(0, 1)),
            series,
            marks=(mark,),
            text=text,
        )


def first_tokens(run: Run) -> NDArray[np.float64]:
    """Return each request's time to first token, in ms."""
    return np.asarray((run.record.first_token - run.load.arrival) * 1e3)


def ttft_by_request(name: str, ours: NDArray[np.float64], pinned: str, base: NDArray[np.float64], text: str) -> Panel:
    """Return the times to first token (ms) of two runs over the same requests, by their numbers from 1."""
    number = tuple(range(1, len(ours) + 1))
    return Panel(
        "ttft",
        "Time to first token, request by request",
        Axis("Request, by arrival", key="request"),
        Axis("TTFT", "ms"),
        (
            Series(name, "line", number, tuple(ours.tolist())),
            Series(pinned, "line", number, tuple(base.tolist()), role="baseline"),
        ),
        text=text,
    )


def over_time(run: Run, column: NDArray[np.float64], points: int = 40) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return times (s) and the time average of a segment column over each of `points` equal intervals of a run.

    Idle time counts as zero.
    """
    segments = run.record.segments
    if not len(segments["start"]):
        return (), ()
    edges = np.linspace(0.0, float(segments["end"][-1]), points + 1)
    # The integral of the column up to any time is piecewise linear; interpolate it at the edges.
    knots = np.ravel(np.column_stack([segments["start"], segments["end"]]))
    area = np.cumsum(np.ravel(np.column_stack([np.zeros(len(column)), column * (segments["end"] - segments["start"])])))
    averages = np.diff(np.interp(edges, knots, area)) / np.diff(edges)
    return tuple((edges[:-1] + edges[1:]) / 2), tuple(averages)


def running(run: Run) -> NDArray[np.float64]:
    """Return the sequences in each segment."""
    segments = run.record.segments
    return np.asarray(segments["n_prefill"] + segments["n_decode"], dtype=float)


#: What `what_binds` says, in words.
WAITING = {"nothing": "nobody waits", "places": "requests wait for a place", "memory": "requests wait for KV cache"}


def what_binds(run: Run, places: int) -> str:
    """Return what makes requests wait for most of the waiting time: "places", "memory" or "nothing"."""
    segments = run.record.segments
    length = segments["end"] - segments["start"]
    waiting = segments["waiting"] > 0
    if not waiting.any():
        return "nothing"
    full = float(length[waiting & (running(run) >= places)].sum())
    return "places" if full >= float(length[waiting].sum()) / 2 else "memory"
