"""Series, marks and legend entries as matplotlib draws them: put into axes by `render_matplotlib`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path
from matplotlib.text import Annotation

from labcode.labkit.panel import Mark, Series
from labcode.labkit.theme import DASH_LIMIT, ROLE_LOOKS, SHAPES_UP_TO

Inks = dict[str, str]  # Name of a role or an ink -> hex colour.

DPI = 96.0
POINTS = 72.0 / DPI  # Looks are given in pixels, matplotlib wants points.
NO_DATA = "no data"


def dashes(lengths: Sequence[float]) -> Any:
    """Return a dash in pixels as matplotlib's line style."""
    return (0.0, [length * POINTS for length in lengths]) if lengths else "solid"


def curve(ax: Axes, s: Series, inks: Inks) -> list[Artist]:
    """Draw a line, step, band, area or scatter."""
    look, colour = ROLE_LOOKS[s.role], inks[s.role]
    x, y = np.asarray(s.x, dtype=float), np.asarray(s.y, dtype=float)
    # Dashes lie over "ours", so that both are seen where curves coincide.
    order = 3 if s.role == "ours" else 4
    if s.kind == "scatter":
        return list(
            ax.plot(
                x,
                y,
                linestyle="none",
                marker=look.marker,
                markersize=5,
                zorder=order,
                color=colour,
                markerfacecolor=inks["paper"] if look.dash else colour,
            )
        )
    drawn: list[Artist] = []
    if s.kind in ("band", "area"):
        if s.y2 is not None:
            lower = np.asarray(s.y2, dtype=float)
            drawn += ax.plot(x, lower, linestyle=dashes(look.dash), linewidth=0.8, color=colour, zorder=order)
        else:
            lower = np.full(len(x), ax.get_ylim()[0] if ax.get_yscale() == "log" else 0.0)
        drawn.append(ax.fill_between(x, lower, y, color=colour, alpha=0.16, linewidth=0, zorder=2))
    shown = s.kind == "line" and len(x) <= SHAPES_UP_TO
    drawn += ax.plot(
        x,
        y,
        linestyle=dashes(look.dash),
        color=colour,
        zorder=order,
        drawstyle="steps-post" if s.kind == "step" else None,
        linewidth=0.8 if s.kind == "band" else look.width * POINTS,
        marker=look.marker if shown else None,
        markersize=4.5,
        markeredgecolor=inks["paper"],
        markeredgewidth=0.6,
    )
    return drawn


def cells(ax: Axes, s: Series, inks: Inks) -> list[Artist]:
    """Draw a square with a letter around each point."""
    colour, paper = inks[s.role], inks["paper"]
    corners = ((-0.46, -0.44), (0.46, -0.44), (0.46, 0.44), (-0.46, 0.44), (-0.46, -0.44))
    squares = [
        Path([(x + across, y + down) for across, down in corners], closed=True) for x, y in zip(s.x, s.y, strict=True)
    ]
    faint = s.role == "muted"
    drawn: list[Artist] = [
        ax.add_patch(
            PathPatch(
                Path.make_compound_path(*squares),
                facecolor=paper if faint else colour,
                edgecolor=colour,
                linewidth=0.6,
                zorder=2,
            )
        )
    ]
    return drawn + [
        ax.text(
            x,
            y,
            s.glyph,
            ha="center",
            va="center_baseline",
            fontsize=7.5,
            fontweight="bold",
            zorder=3,
            color=colour if faint else paper,
            clip_on=True,
        )
        for x, y in zip(s.x, s.y, strict=True)
    ]


def bars(
    ax: Axes,
    s: Series,
    edges: dict[str, tuple[list[float], list[float]]],
    names: list[str],
    together: list[str],
    inks: Inks,
) -> list[Artist]:
    """Draw the bars of one series, beside those of the others."""
    look, colour = ROLE_LOOKS[s.role], inks[s.role]
    if s.name in edges:
        left, right = (np.asarray(side) for side in edges[s.name])
    else:
        width = 0.74 / len(together)
        left = np.array([names.index(v) for v in s.x]) - 0.37 + width * together.index(s.name)
        right = left + width
    y = np.asarray(s.y)
    there = ~np.isnan(y)
    floor = ax.get_ylim()[0] if ax.get_yscale() == "log" else 0.0
    return list(
        ax.bar(
            left[there],
            y[there] - floor,
            (right - left)[there],
            floor,
            align="edge",
            zorder=2,
            facecolor=inks["paper"] if look.hatch else colour,
            edgecolor=colour,
            hatch=look.hatch or None,
            linewidth=0.8,
        )
    )


def limit(ax: Axes, mark: Mark, names: list[str], i: int, inks: Inks) -> list[Artist]:
    """Draw a limit or an operating point with its label; `i` counts marks of its kind, to keep labels apart."""
    red, ink, paper = inks["limit"], inks["mark"], inks["paper"]
    line: dict[str, Any] = {"color": red, "linestyle": dashes(DASH_LIMIT), "linewidth": 1.2, "zorder": 5}
    words: dict[str, Any] = {
        "fontsize": 8,
        "fontweight": "bold",
        "textcoords": "offset points",
        "zorder": 7,
        "annotation_clip": False,
        "bbox": {"facecolor": paper, "edgecolor": "none", "alpha": 0.75, "pad": 0.8},
    }
    x = mark.at if mark.kind == "vline" else mark.at[0] if mark.kind == "point" else ax.get_xlim()[0]
    x = float(names.index(x)) if isinstance(x, str) else float(x)
    y = mark.at if mark.kind == "hline" else mark.at[1] if mark.kind == "point" else ax.get_ylim()[0]
    right, up = ax.transLimits.transform(ax.transScale.transform((x, y)))
    if mark.kind == "hline":
        end, high = (i + 1) % 2, up > 0.92
        return [
            ax.axhline(y, **line),
            ax.annotate(
                mark.label,
                (end, y),
                (-3 if end else 3, -4 if high else 4),
                color=red,
                xycoords=ax.get_yaxis_transform(),
                ha="right" if end else "left",
                va="top" if high else "bottom",
                **words,
            ),
        ]
    flip = right > 0.55
    words["ha"], words["va"] = "right" if flip else "left", "center"
    if mark.kind == "vline":
        return [
            ax.axvline(x, **line),
            ax.annotate(
                mark.label,
                (x, 1),
                (-4 if flip else 4, -8 - 11 * i),
                color=red,
                xycoords=ax.get_xaxis_transform(),
                **words,
            ),
        ]
    return [
        *ax.plot(
            [x],
            [y],
            marker="D",
            markersize=8,
            color=ink,
            markeredgecolor=paper,
            markeredgewidth=1.5,
            zorder=8,
            clip_on=False,
        ),
        ax.annotate(mark.label, (x, y), (-8 if flip else 8, -9 if up > 0.5 else 9), color=ink, **words),
    ]


def keep_apart(ax: Axes, artists: Sequence[Artist], renderer: Any) -> None:
    """Move labels that would lie over each other, or over a point, up or down by a line."""
    labels = [artist for artist in artists if isinstance(artist, Annotation)]
    taken = [
        artist.get_window_extent(renderer).padded(4)
        for artist in artists
        if isinstance(artist, Line2D) and artist.get_marker() == "D"
    ]
    inside = ax.get_window_extent(renderer).padded(4)
    for label in labels:
        x, y = label.xyann
        for shift in (0, -11, 11, -22, 22, -33, 33):
            label.xyann = (x, y + shift)
            box = label.get_window_extent(renderer)
            if inside.y0 <= box.y0 and box.y1 <= inside.y1 and not any(box.overlaps(other) for other in taken):
                break
        else:
            label.xyann = (x, y)
            box = label.get_window_extent(renderer)
        taken.append(box)


def legend_entry(s: Series, inks: Inks) -> Line2D | Patch:
    """Return the legend entry of a series; an empty series says so."""
    look, colour = ROLE_LOOKS[s.role], inks[s.role]
    if s.kind == "cells":  # Not being there at the moment is nothing special for a letter.
        faint = s.role == "muted"
        return Patch(facecolor=inks["paper"] if faint else colour, edgecolor=colour, linewidth=0.8, label=s.name)
    name = f"{s.name} ({NO_DATA})" if s.empty else s.name
    if s.kind == "bar":
        return Patch(
            facecolor=inks["paper"] if look.hatch else colour,
            edgecolor=colour,
            hatch=look.hatch or None,
            label=name,
        )
    if s.kind == "scatter":
        return Line2D(
            [],
            [],
            linestyle="none",
            marker=look.marker,
            color=colour,
            label=name,
            markerfacecolor=inks["paper"] if look.dash else colour,
        )
    if s.kind == "band":
        return Patch(facecolor=(colour, 0.2), edgecolor=colour, linewidth=0.8, label=name, linestyle=dashes(look.dash))
    marked = s.kind == "line" and len(s.x) <= SHAPES_UP_TO
    return Line2D(
        [],
        [],
        color=colour,
        linewidth=look.width * POINTS,
        label=name,
        markersize=4.5,
        marker=look.marker if marked else None,
        linestyle=dashes(look.dash),
    )
