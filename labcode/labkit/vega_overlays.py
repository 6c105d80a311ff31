"""What lies over the curves of a chart in the page: limits and points with their labels, and a pinned setting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labcode.labkit.panel import Series
from labcode.labkit.theme import DASH_LIMIT, variable

Spec = dict[str, Any]
PINNED = [1, 3]  # Dash of a pinned setting.


def value(value: Any) -> Spec:
    """Return a fixed value of an encoding."""
    return {"value": value}


def signal(expression: str) -> Spec:
    """Return a value that an expression gives."""
    return {"signal": expression}


def at(scale: str, field: str) -> Spec:
    """Return the place of a field on a scale."""
    return {"scale": scale, "field": field}


def linked(categorical: bool) -> Spec:
    """Return the mark of what the reader points at in another panel: a line at the signal ``linked``, unless null."""
    place = "scale('x', linked)" + (" + bandwidth('x') / 2" if categorical else "")
    there = "linked !== null" if categorical else "linked !== null && inrange(linked, xdom)"
    return {
        "type": "rule",
        "encode": {
            "update": {
                "x": signal(f"{there} ? {place} : 0"),
                "y": value(0),
                "y2": signal("height"),
                "stroke": value(variable("mark")),
                "strokeWidth": value(1.5),
                "strokeOpacity": signal(f"{there} ? 0.6 : 0"),
            }
        },
    }


def pins(series: Sequence[Series], categorical: bool) -> tuple[list[str], list[Spec]]:
    """Return the data sets and the marks that show a pinned setting: dotted, in ink, for each series "ours"."""
    ours = [(i, s) for i, s in enumerate(series) if s.role == "ours" and s.kind != "cells"]
    bars = [s.name for s in series if s.kind == "bar"]
    marks: list[Spec] = []
    for i, s in ours:
        look = {"stroke": value(variable("ink")), "strokeWidth": value(1.8), "strokeDash": value(PINNED)}
        if s.kind == "bar":
            left, n = bars.index(s.name), len(bars)
            x = (
                {
                    "x": signal(f"scale('x', datum.x) + bandwidth('x') * {left / n:.4f}"),
                    "x2": signal(f"scale('x', datum.x) + bandwidth('x') * {(left + 1) / n:.4f}"),
                }
                if categorical
                else {"x": at("x", "x"), "x2": at("x", "y2")}
            )
            marks.append(
                {"type": "rule", "from": {"data": f"p{i}"}, "encode": {"update": look | x | {"y": at("y", "y")}}}
            )
        else:
            place = {
                "x": at("x", "x"),
                "y": at("y", "y"),
                "defined": signal("isValid(datum.y)"),
                "interpolate": value("step-after" if s.kind == "step" else "linear"),
            }
            marks.append({"type": "line", "clip": True, "from": {"data": f"p{i}"}, "encode": {"update": look | place}})
    return [f"p{i}" for i, _ in ours], marks


def _text(data: str, name: str, colour: str, place: Spec) -> Spec:
    return {
        "type": "text",
        "name": name,
        "from": {"data": data},
        "encode": {
            "update": place
            | {
                "text": {"field": "label"},
                "fill": value(variable(colour)),
                "fontSize": value(11),
                "fontWeight": value(600),
                "limit": signal("width * 0.7"),
            }
        },
    }


def limits(categorical: bool) -> list[Spec]:
    """Rules and labels of the marks, drawn over everything else."""
    x = "scale('x', datum.x) + bandwidth('x') / 2" if categorical else "scale('x', datum.x)"
    y = "scale('y', datum.y)"
    rule = {"stroke": value(variable("limit")), "strokeDash": value(list(DASH_LIMIT)), "strokeWidth": value(1.5)}
    flip = f"{x} > width * 0.55"
    return [
        {
            "type": "rule",
            "from": {"data": "vlines"},
            "encode": {"update": rule | {"x": signal(x), "y": value(0), "y2": signal("height")}},
        },
        {
            "type": "rule",
            "from": {"data": "hlines"},
            "encode": {"update": rule | {"x": value(0), "x2": signal("width"), "y": signal(y)}},
        },
        {
            "type": "symbol",
            "name": "point-marks",
            "from": {"data": "points"},
            "encode": {
                "update": {
                    "x": signal(x),
                    "y": signal(y),
                    "shape": value("diamond"),
                    "size": value(150),
                    "fill": value(variable("mark")),
                    "stroke": value(variable("paper")),
                    "strokeWidth": value(2),
                }
            },
        },
        _text(
            "vlines",
            "labels-v",
            "limit",
            {
                "x": signal(x),
                "y": signal("9 + 14 * datum.i"),
                "baseline": value("middle"),
                "dx": signal(f"{flip} ? -5 : 5"),
                "align": signal(f"{flip} ? 'right' : 'left'"),
            },
        ),
        _text(
            "hlines",
            "labels-h",
            "limit",
            {
                "x": signal("datum.i % 2 ? 5 : width - 4"),
                "align": signal("datum.i % 2 ? 'left' : 'right'"),
                "y": signal(y),
                "dy": signal(f"{y} < 16 ? 5 : -5"),
                "baseline": signal(f"{y} < 16 ? 'top' : 'bottom'"),
            },
        ),
        _text(
            "points",
            "labels-p",
            "mark",
            {
                "x": signal(x),
                "y": signal(y),
                "dx": signal(f"{flip} ? -10 : 10"),
                "align": signal(f"{flip} ? 'right' : 'left'"),
                "baseline": value("middle"),
                "dy": signal(f"{y} < height / 2 ? 10 : -10"),
            },
        ),
    ]
