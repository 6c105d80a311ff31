"""Axis ranges of panels: one range for every state of a lab, so that a slider moves the curves and not the axis."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

from labcode.labkit.panel import Axis, Panel

Range = tuple[float, float]

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
BAR_FILL = 0.86  # Share of the room between two numeric bars that bars take.


def bar_edges(panel: Panel) -> dict[str, tuple[list[float], list[float]]]:
    """Return series name -> (left edges, right edges) of the bars over a numeric x axis.

    Bars are as wide as the closest two x allow; several series share that room side by side. On a log axis the widths
    are equal in log x.
    """
    bars = [s for s in panel.series if s.kind == "bar" and s.x and not s.categorical]
    log = panel.x.scale == "log"
    there = math.log if log else float
    back = math.exp if log else float
    places = sorted({there(v) for s in bars for v in s.x})
    room = min((b - a for a, b in itertools.pairwise(places)), default=0.1 if log else 1.0) * BAR_FILL
    edges = {}
    for i, s in enumerate(bars):
        left = -room / 2 + room * i / len(bars)
        edges[s.name] = ([back(there(v) + left) for v in s.x], [back(there(v) + left + room / len(bars)) for v in s.x])
    return edges


def categories(panels: Iterable[Panel]) -> list[str]:
    """Return the category names on the x axis of a panel's states, in order of first appearance."""
    return list(dict.fromkeys(v for panel in panels for s in panel.series if s.categorical for v in s.x))


def extent(panel: Panel, along: str) -> Range | None:
    """Return (lowest, highest) of a panel's data and marks along "x" or "y"; None if there are no numbers."""
    values: list[float] = []
    edges = bar_edges(panel) if along == "x" else {}
    for s in panel.series:
        if s.name in edges:
            values += edges[s.name][0] + edges[s.name][1]
        elif s.kind == "cells":
            values += [v + side for v in (s.x if along == "x" else s.y) if not math.isnan(v) for side in (-0.5, 0.5)]
        elif along == "y":
            values += [v for v in (*s.y, *(s.y2 or ())) if not math.isnan(v)]
            if s.kind in ("bar", "area") and panel.y.scale == "linear":
                values.append(0.0)
        elif not s.categorical:
            values += s.x
    for mark in panel.marks:
        if mark.kind == "point":
            values.append(mark.at[along == "y"])
        elif (mark.kind == "vline") == (along == "x"):
            values.append(mark.at)
    values = [v for v in values if not isinstance(v, str)]
    return (min(values), max(values)) if values else None


def _round_up(value: float) -> float:
    """Return the smallest of 1, 2, 2.5, 5 times a power of ten that is not below `value` > 0."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in _STEPS if value <= step * power * (1 + 1e-12))


def padded(low: float, high: float, scale: str, along: str) -> Range:
    """Return a tidy range that holds [low, high]: x fits, y has room above and starts at 0 where that is natural."""
    if scale == "log":
        if along == "x" and low < high:
            return low, high
        low, high = (low / 2, high * 2) if high < 1.01 * low else (low, high)
        grain = math.log10(high / low) / 12
        return 10 ** (math.log10(low) - grain), 10 ** (math.log10(high) + grain)
    if high - low <= 1e-9 * max(abs(low), abs(high)):  # One value, as far as anybody can see.
        low, high = (0.0, 1.0) if low == 0 else (min(0.0, 2 * low), max(0.0, 2 * high))
    if along == "x":
        return low, high
    if low >= 0 and low < 0.5 * high:
        low = 0.0
    grain = _round_up((high - low) / 8) / 2
    top = math.ceil((high + 0.02 * (high - low)) / grain - 1e-9) * grain
    bottom = low if low == 0 else math.floor(low / grain + 1e-9) * grain
    return min(bottom, low), max(top, high)


def domain(axis: Axis, base: Range | None, here: Range | None, along: str) -> Range:
    """Return the range of an axis for one state: `axis.limits`, or `base` stretched to hold the state's own extent."""
    if axis.limits is not None:
        return axis.limits
    both = [r for r in (base, here) if r is not None]
    if not both:
        return (1.0, 10.0) if axis.scale == "log" else (0.0, 1.0)
    if base is not None and (here is None or base[0] <= here[0] <= here[1] <= base[1]):
        return padded(*base, axis.scale, along)
    low, high = min(r[0] for r in both), max(r[1] for r in both)
    if base is None:
        return padded(low, high, axis.scale, along)
    # Round ranges, so that states in a row stretch the axis alike.
    low = low if low == base[0] else -stretched(-low) if low < 0 else stretched(low, up=False)
    high = high if high == base[1] else -stretched(-high, up=False) if high < 0 else stretched(high)
    return (low, high) if low < high and high != base[1] else padded(low, high, axis.scale, along)


def stretched(value: float, up: bool = True) -> float:
    """Return the nearest of 1, 1.5, 2, 3, 5, 7 times a power of ten that is not below (not above) `value` >= 0."""
    if value == 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(value))
    steps = [step * power for step in (1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0)]
    if up:
        return next((step for step in steps if value <= step * (1 + 1e-12)), 10 * power)
    return next((step for step in reversed(steps) if value >= step * (1 - 1e-12)), power)


def base_range(extents: Sequence[Range | None], default: int | None, scale: str) -> Range | None:
    """Return the range shared by the states of a lab, from their extents.

    It holds the default state, where it is among them, and nine states in ten. The few that go far beyond (an overload
    may be a thousand times the rest) stretch the axis for themselves instead of pressing all others flat. Where the
    farthest state is within three times of that (a decade on a log axis), the range holds every state.
    """
    known = [e for e in extents if e is not None]
    if not known:
        return None
    lows, highs = sorted(e[0] for e in known), sorted(e[1] for e in known)
    last = len(known) - 1
    low, high = lows[math.floor(0.1 * last)], highs[math.ceil(0.9 * last)]
    opening = None if default is None else extents[default]
    if opening is not None:
        low, high = min(low, opening[0]), max(high, opening[1])
    if scale == "log":
        near_low, near_high = lows[0] >= low / 10, highs[-1] <= high * 10
    else:
        span = high - min(low, 0.0) if high > 0 else high - low
        near_low, near_high = lows[0] >= low - 2 * span, highs[-1] <= high + 2 * span
    return (lows[0] if near_low else low, highs[-1] if near_high else high)
