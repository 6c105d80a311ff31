"""The matplotlib renderer of panels: for a live kernel, for print, and for the first picture of a page."""

from __future__ import annotations

import io
import math
from collections.abc import Hashable, Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from matplotlib.transforms import Bbox

from labcode.labkit import scales
from labcode.labkit.matplotlib_artists import DPI, NO_DATA, bars, cells, curve, keep_apart, legend_entry, limit
from labcode.labkit.panel import Axis, Panel
from labcode.labkit.svg import inline
from labcode.labkit.theme import SHAPES_UP_TO, colours
from labcode.labkit.view import in_page

PANEL_SIZE = (4.7, 3.1)  # Inches, with everything around a panel.
PLAIN_SIZE = (4.7, 2.55)  # The same without title and legend.
LEGEND_ROW = 0.155  # Inches.
FRAMES_KEPT = 64  # About half a megabyte each.


def tick_text(value: float, _position: int | None = None) -> str:
    """Return a number the way the page writes it: 0.5, 250, 10k, 2.5M."""
    for power, letter in ((9, "G"), (6, "M"), (3, "k")):
        if abs(value) >= max(10.0**power, 10_000):
            return f"{value / 10**power:.4g}{letter}"
    return f"{value:.5g}"


def legend_columns(panel: Panel) -> int:
    """Return how many legend entries of a panel go side by side, judged by the lengths of their names."""
    widths = [33 + 4.3 * len(s.name) for s in panel.series]  # Points.
    room = 72 * (PANEL_SIZE[0] - 0.6)
    for columns in range(len(widths), 1, -1):
        # matplotlib fills a legend column by column.
        rows = math.ceil(len(widths) / columns)
        if sum(max(widths[i : i + rows]) for i in range(0, len(widths), rows)) <= room:
            return columns
    return 1


class ShownFigure(Figure):
    """A figure of panels that a notebook shows by itself, without pyplot's backend.

    In the book's pages it is SVG that follows the reader's theme, elsewhere a PNG.
    """

    panels: Sequence[Panel] = ()

    def _repr_html_(self) -> str | None:
        if not in_page():
            return None
        alt = " ".join(f"{p.title}. {p.y.label} against {p.x.label}. {p.text}".strip() for p in self.panels)
        return inline(self, alt, alt).replace("lab-picture", "figure-picture")

    def _repr_png_(self) -> bytes:
        out = io.BytesIO()
        self.savefig(out, format="png", dpi=1.5 * DPI, facecolor=self.get_facecolor())
        return out.getvalue()


class Picture:
    """A figure of panels that can be redrawn with new ones.

    Titles, legends, axes and grids are most of the work of drawing and seldom change. They are drawn once and kept as
    pixels; `png` copies them and draws series and marks on top.

    Parameters
    ----------
    panels : sequence of Panel
        What to draw first. Its extents are the base of the axis ranges, which stretch for panels that exceed them.
    theme : {"light", "dark"}
    size : (width, height), optional
        Of the figure, in inches.
    plain : bool
        Without titles and legends: for a page, which sets them as text.
    """

    def __init__(
        self,
        panels: Sequence[Panel],
        theme: str = "light",
        size: tuple[float, float] | None = None,
        plain: bool = False,
    ) -> None:
        self.inks = colours(theme)
        self._plain = plain
        self._columns = min(2, len(panels))
        self._rows = math.ceil(len(panels) / self._columns)
        legend_rows = max(math.ceil(len(panel.series) / legend_columns(panel)) for panel in panels)
        extra = PLAIN_SIZE[1] - PANEL_SIZE[1] + 0.07 if plain else LEGEND_ROW * (legend_rows - 1)
        width, height = size or (self._columns * PANEL_SIZE[0], self._rows * (PANEL_SIZE[1] + extra))
        self.figure = ShownFigure(figsize=(width, height), dpi=DPI, facecolor=self.inks["paper"])
        self._canvas = FigureCanvasAgg(self.figure)
        # Margins by hand: a layout engine would draw everything twice.
        across, down = width / self._columns, height / self._rows
        self.figure.subplots_adjust(
            left=0.55 / width,
            right=1 - 0.12 / width,
            top=1 - (0.7 + extra) / height,
            bottom=0.5 / height,
            wspace=0.67 / (across - 0.67),
            hspace=(1.2 + extra) / (down - 1.2 - extra),
        )
        self.figure.panels = panels
        self.axes = [self.figure.add_subplot(self._rows, self._columns, i + 1) for i in range(len(panels))]
        self._base = [{along: scales.extent(panel, along) for along in "xy"} for panel in panels]
        self._frames: list[Hashable] = [None] * len(panels)
        self._kept: dict[Hashable, Any] = {}  # Pixels of frames that have been drawn.
        self._data: list[list[Artist]] = [[] for _ in panels]
        self._blank: object = None
        self.update(panels)

    def update(self, panels: Sequence[Panel]) -> None:
        """Show `panels`, as many as before; raise `ValueError` otherwise."""
        if len(panels) != len(self.axes):
            raise ValueError(f"panels: {len(panels)} of them: the picture has {len(self.axes)}")
        for i, panel in enumerate(panels):
            names = scales.categories([panel])
            ranges = {
                along: scales.domain(axis, self._base[i][along], scales.extent(panel, along), along)
                for along, axis in (("x", panel.x), ("y", panel.y))
            }
            looks = tuple((s.name, s.kind, s.role, s.empty, len(s.x) <= SHAPES_UP_TO) for s in panel.series)
            frame = (i, panel.title, panel.x, panel.y, looks, tuple(names), ranges["x"], ranges["y"])
            for artist in self._data[i]:
                artist.remove()
            if frame in self._kept:
                self._limit(self.axes[i], panel, ranges, names)
            elif frame != self._frames[i]:
                self._draw_frame(self.axes[i], panel, ranges, names)
            self._frames[i] = frame
            self._data[i] = self._draw_data(self.axes[i], panel, names)
            for artist in self._data[i]:
                artist.set_animated(True)

    def _draw_frame(self, ax: Axes, panel: Panel, ranges: dict[str, scales.Range], names: list[str]) -> None:
        """Draw title, legend, axes and grid: all that does not change with the data."""
        ax.clear()
        quiet = self.inks["quiet"]
        ax.set_facecolor(self.inks["paper"])
        for side, spine in ax.spines.items():
            spine.set_visible(side == "bottom")
            spine.set_color(self.inks["axis"])
        for text, up, size, weight, colour in (
            (
                panel.title,
                26 + 72 * LEGEND_ROW * math.ceil(len(panel.series) / legend_columns(panel)),
                10.5,
                "bold",
                self.inks["ink"],
            ),
            (panel.y.label, 5, 8, "normal", quiet),
        )[1 if self._plain else 0 :]:
            ax.annotate(
                text,
                (0, 1),
                (0, up),
                xycoords="axes fraction",
                textcoords="offset points",
                fontsize=size,
                fontweight=weight,
                color=colour,
                annotation_clip=False,
            )
        ax.annotate(
            panel.x.label,
            (0.5, 0),
            (0, -26),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=8,
            color=quiet,
            ha="center",
            annotation_clip=False,
        )
        ax.tick_params(which="both", labelsize=8, labelcolor=quiet, color=self.inks["axis"], length=3, pad=3)
        ax.tick_params(axis="y", which="both", length=0)
        ax.set_axisbelow(True)
        self._scale(ax, "x", panel.x, ranges["x"], names)
        self._scale(ax, "y", panel.y, ranges["y"], [])
        if any(s.kind == "cells" for s in panel.series):
            ax.invert_yaxis()
            for axis in (ax.xaxis, ax.yaxis):  # There are no rows or columns between two.
                axis.set_major_locator(MaxNLocator(12, integer=True))
                axis.grid(False)
        if self._plain:
            return
        legend = ax.legend(
            handles=[legend_entry(s, self.inks) for s in panel.series],
            loc="lower left",
            ncols=legend_columns(panel),
            frameon=False,
            bbox_to_anchor=(-0.012, 1.06),
            fontsize=8,
            labelcolor=self.inks["ink"],
            borderpad=0.2,
            handlelength=2.4,
            columnspacing=1.2,
            handletextpad=0.5,
        )
        legend.set_in_layout(False)

    def _limit(self, ax: Axes, panel: Panel, ranges: dict[str, scales.Range], names: list[str]) -> None:
        """Set the ranges only: what data need where the frame is there as pixels."""
        ax.set(yscale=panel.y.scale, ylim=ranges["y"])
        if names:
            ax.set_xlim(-0.6, len(names) - 0.4)
        else:
            ax.set(xscale=panel.x.scale, xlim=ranges["x"])
        if any(s.kind == "cells" for s in panel.series):
            ax.invert_yaxis()

    def _scale(self, ax: Axes, along: str, known: Axis, limits: scales.Range, names: list[str]) -> None:
        """Set scale, range, ticks and grid of one axis."""
        axis = ax.xaxis if along == "x" else ax.yaxis
        if names:
            broken = [name.replace(" ", "\n") if len(names) > 4 else name for name in names]
            axis.set_ticks(range(len(names)), broken)
            ax.set_xlim(-0.6, len(names) - 0.4)
            return
        ax.set(**{f"{along}scale": known.scale, f"{along}lim": limits})
        if known.scale == "log":
            # Powers of ten, with 2 and 5 in between where there is little range.
            few = (1.0, 2.0, 5.0) if limits[1] / limits[0] < 300 else (1.0,)
            axis.set_major_locator(LogLocator(subs=few, numticks=9))
        else:
            axis.set_major_locator(MaxNLocator(6 if along == "x" else 5, steps=[1, 2, 2.5, 5, 10]))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(tick_text))
        axis.grid(True, color=self.inks["grid"], linewidth=0.8)

    def _draw_data(self, ax: Axes, panel: Panel, names: list[str]) -> list[Artist]:
        """Draw series and marks; return what was drawn."""
        edges = scales.bar_edges(panel)
        together = [s.name for s in panel.series if s.kind == "bar"]
        drawn: list[Artist] = []
        for s in panel.series:
            if not s.empty:
                if s.kind == "bar":
                    drawn += bars(ax, s, edges, names, together, self.inks)
                else:
                    drawn += cells(ax, s, self.inks) if s.kind == "cells" else curve(ax, s, self.inks)
        marks: list[Artist] = []
        for j, mark in enumerate(panel.marks):
            marks += limit(ax, mark, names, sum(m.kind == mark.kind for m in panel.marks[:j]), self.inks)
        keep_apart(ax, marks, self._canvas.get_renderer())
        drawn += marks
        if all(s.empty for s in panel.series):
            drawn.append(
                ax.text(
                    0.5,
                    0.5,
                    NO_DATA,
                    transform=ax.transAxes,
                    ha="center",
                    va="center",
                    style="italic",
                    color=self.inks["quiet"],
                    fontsize=10,
                )
            )
        return drawn

    def _cell(self, i: int) -> Bbox:
        """Return the pixels that belong to panel `i`, title and all."""
        width, height = self._canvas.get_width_height(physical=True)
        row, column = divmod(i, self._columns)
        return Bbox.from_extents(
            width * column / self._columns,
            height * (1 - (row + 1) / self._rows),
            width * (column + 1) / self._columns,
            height * (1 - row / self._rows),
        )

    def png(self) -> bytes:
        """Return the picture as PNG bytes, compressed little: in a kernel the time counts, not the size."""
        from PIL import Image  # matplotlib depends on it.

        canvas = self._canvas
        if self._blank is None:
            renderer = canvas.get_renderer()
            renderer.clear()
            self.figure.patch.draw(renderer)
            self._blank = canvas.copy_from_bbox(self.figure.bbox)
        canvas.restore_region(self._blank)
        for i, (ax, frame) in enumerate(zip(self.axes, self._frames, strict=True)):
            if frame in self._kept:
                canvas.restore_region(self._kept[frame])
                continue
            ax.draw(canvas.get_renderer())
            if len(self._kept) >= FRAMES_KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[frame] = canvas.copy_from_bbox(self._cell(i))
        for ax, data in zip(self.axes, self._data, strict=True):
            for artist in sorted(data, key=lambda artist: artist.get_zorder()):
                ax.draw_artist(artist)
        out = io.BytesIO()
        size = canvas.get_width_height(physical=True)
        Image.frombuffer("RGBA", size, canvas.buffer_rgba()).convert("RGB").save(out, "png", compress_level=1)
        return out.getvalue()


def draw(
    panels: Sequence[Panel],
    figsize: tuple[float, float] | None = None,
    theme: str = "light",
    plain: bool = False,
) -> Figure:
    """Return a new figure of `panels`, two side by side.

    Parameters
    ----------
    panels : sequence of Panel
    figsize : (width, height), optional
        Inches; 4.7 x 3.1 a panel by default.
    theme : {"light", "dark"}
    plain : bool
        Without titles and legends.
    """
    return Picture(panels, theme, figsize, plain).figure
