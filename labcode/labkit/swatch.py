"""The small sample of a series in a legend, as SVG for a page: one source for the still picture and the live chart."""

from __future__ import annotations

from html import escape

from labcode.labkit.panel import Series
from labcode.labkit.theme import ROLE_LOOKS, variable

# Shapes by their Vega names, drawn around (14, 7).
_SHAPES = {
    "circle": '<circle cx="14" cy="7" r="3.6"/>',
    "square": '<rect x="10.8" y="3.8" width="6.4" height="6.4"/>',
    "triangle-up": '<path d="M14 3l4 7.4h-8z"/>',
    "diamond": '<path d="M14 2.4l4.4 4.6-4.4 4.6-4.4-4.6z"/>',
    "triangle-down": '<path d="M14 11l4-7.4h-8z"/>',
    "cross": '<path d="M14 3v8M10 7h8"/>',
}


def _line(series: Series, height: str, width: float, colour: str) -> str:
    dash = " ".join(f"{length:g}" for length in ROLE_LOOKS[series.role].dash)
    return f'<path d="{height}" fill="none" stroke="{colour}" stroke-width="{width:g}" stroke-dasharray="{dash}"/>'


def _body(series: Series, shapes: bool) -> str:
    look, colour, paper = ROLE_LOOKS[series.role], variable(series.role), variable("paper")
    if series.kind == "bar":
        fill = f"url(#lab-hatch-{series.role})" if look.hatch else colour
        return f'<rect x="3" y="2" width="22" height="10" fill="{fill}" stroke="{colour}"/>'
    if series.kind == "cells":
        ground, ink = (paper, colour) if series.role == "muted" else (colour, paper)
        return (
            f'<rect x="7" y="1" width="13" height="12" fill="{ground}" stroke="{colour}"/><text x="13.5" y="11" '
            f'text-anchor="middle" font-size="10" font-weight="700" fill="{ink}">{escape(series.glyph)}</text>'
        )
    shape = _SHAPES[look.shape]
    if series.kind == "scatter":
        fill = paper if look.dash else colour
        return f'<g fill="{fill}" stroke="{colour}" stroke-width="1.4">{shape}</g>'
    if series.kind in ("band", "area"):
        edge = _line(series, "M1 2H27M1 12H27", 1, colour) if series.kind == "band" else ""
        top = _line(series, "M1 2H27", look.width, colour) if series.kind == "area" else ""
        return f'<rect x="1" y="2" width="26" height="10" fill="{colour}" fill-opacity=".18"/>{edge}{top}'
    marked = f'<g fill="{colour}" stroke="{colour}">{shape}</g>' if shapes else ""
    return _line(series, "M1 7H27", look.width, colour) + marked


def swatch(series: Series, shapes: bool = False) -> str:
    """Return a sample of 28 x 14 pixels; `shapes` puts the shape of its points on a line."""
    return (
        f'<svg viewBox="0 0 28 14" width="28" height="14" aria-hidden="true" focusable="false">'
        f"{_body(series, shapes)}</svg>"
    )
