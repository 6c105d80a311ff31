"""The page's renderer, first half: a Vega specification for each panel (https://vega.github.io/vega/docs/specification/).

A specification holds no numbers. `book/assets/labs-charts.js` keeps a view for each panel alive and moves data and
ranges into it:

- data ``d0``, ``d1``, ... : the rows of each series, ``{x, y, y2}``; bars over numbers have edges ``x`` and ``y2``;
- data ``p0``, ...: the same of a setting that the reader has pinned, for the series in role "ours";
- data ``vlines``, ``hlines``, ``points``: the marks, ``{x, y, label, i}``;
- signals ``xdom``, ``ydom``: ranges; ``xticks``, ``yticks``: positions or null; ``note``: text in place of data;
  ``linked``: the place that the reader points at in another panel, or null.

Colours are CSS variables, so a change of theme repaints a chart without any script.
"""

from __future__ import annotations

from labcode.labkit.panel import Axis, Series
from labcode.labkit.theme import FONT, ROLE_LOOKS, SHAPES_UP_TO, Look, variable
from labcode.labkit.vega_overlays import Spec, at, limits, linked, pins, signal, value

# Lines that run along an edge of the plot are not cut in half.
_CLIP = {"path": {"signal": "'M-3,-3h' + (width + 6) + 'v' + (height + 6) + 'h' + (-width - 6) + 'Z'"}}
_TICK_TEXT = "abs(datum.value) >= 10000 ? format(datum.value, '~s') : format(datum.value, '.5~g')"
_CATEGORY_TEXT = "length(datum.label) * 6.2 > bandwidth('x') * 1.3 ? split(datum.label, ' ') : datum.label"


def _dash(look: Look) -> Spec:
    return value(list(look.dash))


def _line(data: str, look: Look, colour: str, interpolate: str, field: str = "y", thin: bool = False) -> Spec:
    return {
        "type": "line",
        "clip": _CLIP,
        "from": {"data": data},
        "encode": {
            "update": {
                "x": at("x", "x"),
                "y": at("y", field),
                "defined": signal(f"isValid(datum.{field})"),
                "interpolate": value(interpolate),
                "stroke": value(colour),
                "strokeDash": _dash(look),
                "strokeCap": value("butt" if look.dash else "round"),
                "strokeJoin": value("round"),
                "strokeWidth": value(1.0 if thin else look.width),
                "strokeOpacity": value(0.7 if thin else 1.0),
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
                "x": at("x", "x"),
                "y": at("y", "y"),
                "y2": lower,
                "defined": signal("isValid(datum.y)"),
                "interpolate": value(interpolate),
                "fill": value(colour),
                "fillOpacity": value(opacity),
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
                "x": at("x", "x"),
                "y": at("y", "y"),
                "shape": value(look.shape),
                "size": signal(f"{shown} ? {size} : 0"),
                "stroke": value(colour if hollow else variable("paper")),
                "strokeWidth": value(1.4 if hollow else 0.8),
                "fill": value(variable("paper") if hollow else colour),
            }
        },
    }


def _bars(data: str, series: Series, colour: str, place: tuple[int, int], categorical: bool) -> Spec:
    if categorical:
        i, n = place
        x = {
            "x": signal(f"scale('x', datum.x) + bandwidth('x') * {i / n:.4f}"),
            "width": signal(f"bandwidth('x') * {1 / n:.4f} - 1"),
        }
    else:
        x = {"x": at("x", "x"), "x2": at("x", "y2")}
    fill = colour if not ROLE_LOOKS[series.role].hatch else f"url(#lab-hatch-{series.role})"
    return {
        "type": "rect",
        "clip": _CLIP,
        "from": {"data": data},
        "encode": {
            "update": x
            | {
                "y": signal("scale('y', isValid(datum.y) ? datum.y : ydom[0])"),
                "y2": signal("scale('y', clamp(0, ydom[0], ydom[1]))"),
                "opacity": signal("isValid(datum.y) ? 1 : 0"),
                "fill": value(fill),
                "stroke": value(colour),
                "strokeWidth": value(1),
            }
        },
    }


def _cells(data: str, series: Series, colour: str) -> list[Spec]:
    """A unit square around each point, and the letter in it; "muted" squares are hollow."""
    faint = series.role == "muted"
    corner = {
        key: signal(f"scale('{key[0]}', datum.{key[0]} {sign} 0.46)")
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
                    "fill": value(variable("paper") if faint else colour),
                    "stroke": value(colour),
                    "strokeWidth": value(0.8),
                }
            },
        },
        {
            "type": "text",
            "clip": True,
            "from": {"data": data},
            "encode": {
                "update": {
                    "x": at("x", "x"),
                    "y": at("y", "y"),
                    "text": value(series.glyph),
                    "align": value("center"),
                    "baseline": value("middle"),
                    "fontSize": value(11),
                    "fontWeight": value("bold"),
                    "fill": value(colour if faint else variable("paper")),
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
            _fill(data, colour, "linear", at("y", "y2"), 0.16),
            _line(data, look, colour, "linear", thin=True),
            _line(data, look, colour, "linear", "y2", thin=True),
        ]
    if series.kind == "area":
        floor = signal("scale('y', ydom[0])") if log_y else signal("scale('y', clamp(0, ydom[0], ydom[1]))")
        return [_fill(data, colour, "linear", floor, 0.2), _line(data, look, colour, "linear")]
    line = _line(data, look, colour, "step-after" if series.kind == "step" else "linear")
    if series.kind == "step":
        return [line]
    shape = f"(length(data('{data}')) <= {SHAPES_UP_TO} ? 40 : 0)"
    return [line, _symbols(data, look, colour, shape, hollow=False)]


def _scale(name: str, axis: Axis, categorical: bool) -> Spec:
    common: Spec = {"name": name, "domain": signal(f"{name}dom"), "range": "width" if name == "x" else "height"}
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
        "encode": {"labels": {"update": {"text": signal(_CATEGORY_TEXT if categorical else _TICK_TEXT)}}},
    }
    if across:
        spec |= {
            "title": axis.label,
            "titleColor": variable("quiet"),
            "titleFont": FONT,
            "titleFontSize": 11,
            "titleFontWeight": "normal",
            "titlePadding": 6,
            "titleLimit": signal("width"),
        }
    else:
        spec |= {"minExtent": 34}
    if not categorical:
        spec |= {
            "values": signal(f"{name}ticks"),
            "tickCount": signal("ceil(width / 70)" if across else "ceil(height / 45)"),
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
    held, pinned = pins(series, categorical)
    marks += [*pinned, linked(categorical), *limits(categorical)]
    marks.append(
        {
            "type": "text",
            "encode": {
                "update": {
                    "x": signal("width / 2"),
                    "y": signal("height / 2"),
                    "align": value("center"),
                    "text": signal("note"),
                    "fill": value(variable("quiet")),
                    "fontSize": value(14),
                    "fontStyle": value("italic"),
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
            # A title wider than the drawing would make "fit" take the difference from the plot at each new drawing.
            "limit": signal("width + 30"),
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
            {"name": "linked", "value": None},
        ],
        "data": [
            {"name": name, "values": []}
            for name in [f"d{i}" for i in range(len(series))] + held + ["vlines", "hlines", "points"]
        ],
        "scales": [_scale("x", x, categorical), scale_y],
        "axes": axes,
        "marks": marks,
    }
