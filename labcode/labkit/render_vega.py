"""The page's renderer, first half: a Vega specification for each panel (https://vega.github.io/vega/docs/specification/).

A specification holds no numbers. `book/assets/labs-charts.js` keeps a view for each panel alive and moves data and
ranges into it:

- data ``d0``, ``d1``, ... : the rows of each series, ``{x, y, y2}``; bars over numbers have edges ``x`` and ``y2``;
- data ``vlines``, ``hlines``, ``points``: the marks, ``{x, y, label, i}``;
- signals ``xdom``, ``ydom``: ranges; ``xticks``, ``yticks``: positions or null; ``note``: text in place of data.
Colours are CSS variables, so a change of theme repaints a chart without any script.
"""

from __future__ import annotations

from typing import Any

from labcode.labkit.panel import Axis, Series
from labcode.labkit.theme import DASH_LIMIT, FONT, ROLE_LOOKS, SHAPES_UP_TO, Look, variable

Spec = dict[str, Any]

# Lines that run along an edge of the plot are not cut in half.
_CLIP = {"path": {"signal": "'M-3,-3h' + (width + 6) + 'v' + (height + 6) + 'h' + (-width - 6) + 'Z'"}}
_TICK_TEXT = "abs(datum.value) >= 10000 ? format(datum.value, '~s') : format(datum.value, '.5~g')"
_CATEGORY_TEXT = "length(datum.label) * 6.2 > bandwidth('x') * 1.3 ? split(datum.label, ' ') : datum.label"


def _value(value: Any) -> Spec:
    return {"value": value}


def _signal(expression: str) -> Spec:
    return {"signal": expression}


def _at(scale: str, field: str) -> Spec:
    return {"scale": scale, "field": field}


def _dash(look: Look) -> Spec:
    return _value(list(look.dash))


def _line(data: str, look: Look, colour: str, interpolate: str, field: str = "y", thin: bool = False) -> Spec:
    return {
        "type": "line",
        "clip": _CLIP,
        "from": {"data": data},
        "encode": {
            "update": {
                "x": _at("x", "x"),
                "y": _at("y", field),
                "defined": _signal(f"isValid(datum.{field})"),
                "interpolate": _value(interpolate),
                "stroke": _value(colour),
                "strokeDash": _dash(look),
                "strokeCap": _value("butt" if look.dash else "round"),
                "strokeJoin": _value("round"),
                "strokeWidth": _value(1.0 if thin else look.width),
                "strokeOpacity": _value(0.7 if thin else 1.0),
            }
        },
    }


def _fill(data: str, colour: str, interpolate: str, lower: Spec, opacity: float) -> Spec:
    return {
        "type": "area",
        "clip": _CLIP,
        "from": {"data": data},
        "encode": {
            "update": {
                "x": _at("x", "x"),
                "y": _at("y", "y"),
                "y2": lower,
                "defined": _signal("isValid(datum.y)"),
                "interpolate": _value(interpolate),
                "fill": _value(colour),
                "fillOpacity": _value(opacity),
            }
        },
    }


def _symbols(data: str, look: Look, colour: str, size: str, hollow: bool) -> Spec:
    shown = "isValid(datum.y) && inrange(datum.x, xdom) && inrange(datum.y, ydom)"
    return {
        "type": "symbol",
        "from": {"data": data},
        "encode": {
            "update": {
                "x": _at("x", "x"),
                "y": _at("y", "y"),
                "shape": _value(look.shape),
                "size": _signal(f"{shown} ? {size} : 0"),
                "stroke": _value(colour if hollow else variable("paper")),
                "strokeWidth": _value(1.4 if hollow else 0.8),
                "fill": _value(variable("paper") if hollow else colour),
            }
        },
    }


def _bars(data: str, series: Series, colour: str, place: tuple[int, int], categorical: bool) -> Spec:
    if categorical:
        i, n = place
        x = {
            "x": _signal(f"scale('x', datum.x) + bandwidth('x') * {i / n:.4f}"),
            "width": _signal(f"bandwidth('x') * {1 / n:.4f} - 1"),
        }
    else:
        x = {"x": _at("x", "x"), "x2": _at("x", "y2")}
    fill = colour if not ROLE_LOOKS[series.role].hatch else f"url(#lab-hatch-{series.role})"
    return {
        "type": "rect",
        "clip": _CLIP,
        "from": {"data": data},
        "encode": {
            "update": x
            | {
                "y": _signal("scale('y', isValid(datum.y) ? datum.y : ydom[0])"),
                "y2": _signal("scale('y', clamp(0, ydom[0], ydom[1]))"),
                "opacity": _signal("isValid(datum.y) ? 1 : 0"),
                "fill": _value(fill),
                "stroke": _value(colour),
                "strokeWidth": _value(1),
            }
        },
    }


def _cells(data: str, series: Series, colour: str) -> list[Spec]:
    """A unit square around each point, and the letter in it; "muted" squares are hollow."""
    faint = series.role == "muted"
    corner = {
        key: _signal(f"scale('{key[0]}', datum.{key[0]} {sign} 0.46)")
        for key, sign in (("x", "-"), ("x2", "+"), ("y", "-"), ("y2", "+"))
    }
    return [
        {
            "type": "rect",
            "clip": True,
            "from": {"data": data},
            "encode": {
                "update": corner
                | {
                    "fill": _value(variable("paper") if faint else colour),
                    "stroke": _value(colour),
                    "strokeWidth": _value(0.8),
                }
            },
        },
        {
            "type": "text",
            "clip": True,
            "from": {"data": data},
            "encode": {
                "update": {
                    "x": _at("x", "x"),
                    "y": _at("y", "y"),
                    "text": _value(series.glyph),
                    "align": _value("center"),
                    "baseline": _value("middle"),
                    "fontSize": _value(11),
                    "fontWeight": _value("bold"),
                    "fill": _value(colour if faint else variable("paper")),
                }
            },
        },
    ]


def _series_marks(data: str, series: Series, log_y: bool, bar: tuple[int, int], categorical: bool) -> list[Spec]:
    look, colour = ROLE_LOOKS[series.role], variable(series.role)
    if series.kind == "bar":
        return [_bars(data, series, colour, bar, categorical)]
    if series.kind == "cells":
        return _cells(data, series, colour)
    if series.kind == "scatter":
        return [_symbols(data, look, colour, "48", hollow=bool(look.dash))]
    if series.kind == "band":
        return [
            _fill(data, colour, "linear", _at("y", "y2"), 0.16),
            _line(data, look, colour, "linear", thin=True),
            _line(data, look, colour, "linear", "y2", thin=True),
        ]
    if series.kind == "area":
        floor = _signal("scale('y', ydom[0])") if log_y else _signal("scale('y', clamp(0, ydom[0], ydom[1]))")
        return [_fill(data, colour, "linear", floor, 0.2), _line(data, look, colour, "linear")]
    line = _line(data, look, colour, "step-after" if series.kind == "step" else "linear")
    if series.kind == "step":
        return [line]
    shape = f"(length(data('{data}')) <= {SHAPES_UP_TO} ? 40 : 0)"
    return [line, _symbols(data, look, colour, shape, hollow=False)]


def _text(data: str, name: str, colour: str, place: Spec) -> Spec:
    return {
        "type": "text",
        "name": name,
        "from": {"data": data},
        "encode": {
            "update": place
            | {
                "text": {"field": "label"},
                "fill": _value(variable(colour)),
                "fontSize": _value(11),
                "fontWeight": _value(600),
                "limit": _signal("width * 0.7"),
            }
        },
    }


def _limits(categorical: bool) -> list[Spec]:
    """Rules and labels of the marks, drawn over everything else."""
    x = "scale('x', datum.x) + bandwidth('x') / 2" if categorical else "scale('x', datum.x)"
    y = "scale('y', datum.y)"
    rule = {"stroke": _value(variable("limit")), "strokeDash": _value(list(DASH_LIMIT)), "strokeWidth": _value(1.5)}
    flip = f"{x} > width * 0.55"
    return [
        {
            "type": "rule",
            "from": {"data": "vlines"},
            "encode": {"update": rule | {"x": _signal(x), "y": _value(0), "y2": _signal("height")}},
        },
        {
            "type": "rule",
            "from": {"data": "hlines"},
            "encode": {"update": rule | {"x": _value(0), "x2": _signal("width"), "y": _signal(y)}},
        },
        {
            "type": "symbol",
            "name": "point-marks",
            "from": {"data": "points"},
            "encode": {
                "update": {
                    "x": _signal(x),
                    "y": _signal(y),
                    "shape": _value("diamond"),
                    "size": _value(150),
                    "fill": _value(variable("mark")),
                    "stroke": _value(variable("paper")),
                    "strokeWidth": _value(2),
                }
            },
        },
        _text(
            "vlines",
            "labels-v",
            "limit",
            {
                "x": _signal(x),
                "y": _signal("9 + 14 * datum.i"),
                "baseline": _value("middle"),
                "dx": _signal(f"{flip} ? -5 : 5"),
                "align": _signal(f"{flip} ? 'right' : 'left'"),
            },
        ),
        _text(
            "hlines",
            "labels-h",
            "limit",
            {
                "x": _signal("datum.i % 2 ? 5 : width - 4"),
                "align": _signal("datum.i % 2 ? 'left' : 'right'"),
                "y": _signal(y),
                "dy": _signal(f"{y} < 16 ? 5 : -5"),
                "baseline": _signal(f"{y} < 16 ? 'top' : 'bottom'"),
            },
        ),
        _text(
            "points",
            "labels-p",
            "mark",
            {
                "x": _signal(x),
                "y": _signal(y),
                "dx": _signal(f"{flip} ? -10 : 10"),
                "align": _signal(f"{flip} ? 'right' : 'left'"),
                "baseline": _value("middle"),
                "dy": _signal(f"{y} < height / 2 ? 10 : -10"),
            },
        ),
    ]


def _scale(name: str, axis: Axis, categorical: bool) -> Spec:
    common: Spec = {"name": name, "domain": _signal(f"{name}dom"), "range": "width" if name == "x" else "height"}
    if categorical:
        return common | {"type": "band", "paddingInner": 0.28, "paddingOuter": 0.2}
    return common | {"type": axis.scale, "nice": False} | ({"zero": False} if axis.scale == "linear" else {})


def _axis(name: str, axis: Axis, categorical: bool) -> Spec:
    across = name == "x"
    spec: Spec = {
        "scale": name,
        "orient": "bottom" if across else "left",
        "grid": not categorical,
        "gridColor": variable("grid"),
        "domain": across,
        "domainColor": variable("axis"),
        "ticks": across,
        "tickColor": variable("axis"),
        "tickSize": 4,
        "labelColor": variable("quiet"),
        "labelFontSize": 11,
        "labelFont": FONT,
        "labelPadding": 4,
        "labelOverlap": "greedy",
        "labelFlush": across and not categorical,
        "zindex": 0,
        "encode": {"labels": {"update": {"text": _signal(_CATEGORY_TEXT if categorical else _TICK_TEXT)}}},
    }
    if across:
        spec |= {
            "title": axis.label,
            "titleColor": variable("quiet"),
            "titleFont": FONT,
            "titleFontSize": 11,
            "titleFontWeight": "normal",
            "titlePadding": 6,
            "titleLimit": _signal("width"),
        }
    else:
        spec |= {"minExtent": 34}
    if not categorical:
        spec |= {
            "values": _signal(f"{name}ticks"),
            "tickCount": _signal("ceil(width / 70)" if across else "ceil(height / 45)"),
        }
    return spec


def panel_spec(x: Axis, y: Axis, series: list[Series], categorical: bool) -> Spec:
    """Return the Vega specification of a panel with these axes and series, whose names, kinds and roles matter.

    The title of the y axis is written flat above the plot, where it needs no turned head and no width on a phone.
    """
    bars = [s.name for s in series if s.kind == "bar"]
    marks: list[Spec] = []
    cells = any(s.kind == "cells" for s in series)
    order = {"band": 0, "area": 0, "bar": 1, "cells": 1, "step": 2, "line": 2, "scatter": 3}
    # Fills lie below lines, and dashes over "ours", so that both are seen where curves coincide.
    for i, s in sorted(enumerate(series), key=lambda pair: (order[pair[1].kind], pair[1].role != "ours")):
        place = (bars.index(s.name) if s.kind == "bar" else 0, max(len(bars), 1))
        marks += _series_marks(f"d{i}", s, y.scale == "log", place, categorical)
    marks += _limits(categorical)
    marks.append(
        {
            "type": "text",
            "encode": {
                "update": {
                    "x": _signal("width / 2"),
                    "y": _signal("height / 2"),
                    "align": _value("center"),
                    "text": _signal("note"),
                    "fill": _value(variable("quiet")),
                    "fontSize": _value(14),
                    "fontStyle": _value("italic"),
                }
            },
        }
    )
    scale_y, axes = _scale("y", y, False), [_axis("x", x, categorical), _axis("y", y, False)]
    if cells:  # Row 0 at the top; there are no rows or columns between two.
        scale_y["reverse"] = True
        axes = [axis | {"tickMinStep": 1, "grid": False} for axis in axes]
    return {
        "$schema": "https://vega.github.io/schema/vega/v6.json",
        "width": 360,
        "height": 220,
        "padding": {"left": 2, "right": 8, "top": 4, "bottom": 2},
        "autosize": {"type": "fit", "contains": "padding", "resize": True},
        "config": {"text": {"font": FONT}, "group": {"stroke": "transparent"}},
        "title": {
            "text": y.label,
            "anchor": "start",
            "frame": "bounds",
            "offset": 6,
            "fontSize": 11,
            "fontWeight": "normal",
            "font": FONT,
            "color": variable("quiet"),
        },
        "signals": [
            {"name": "xdom", "value": ["?"] if categorical else [1, 10]},
            {"name": "ydom", "value": [1, 10]},
            {"name": "xticks", "value": None},
            {"name": "yticks", "value": None},
            {"name": "note", "value": ""},
        ],
        "data": [
            {"name": name, "values": []}
            for name in [f"d{i}" for i in range(len(series))] + ["vlines", "hlines", "points"]
        ],
        "scales": [_scale("x", x, categorical), scale_y],
        "axes": axes,
        "marks": marks,
    }
