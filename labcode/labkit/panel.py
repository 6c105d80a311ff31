"""A panel is data, not a drawing: named series, marks, axes with units, and one sentence in words.

Two renderers draw every panel of the book (`render_matplotlib`, and `render_vega` in the page), so
what a lab claims can be tested without a picture. A *role* stands for a colour and, always, a dash and a marker shape
besides: a series with role "ours" looks the same in every panel of the book, and nothing depends on colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any

from labcode import checks

KINDS = ("line", "step", "band", "bar", "scatter", "area", "cells")
ROLES = ("ours", "baseline", "alt1", "alt2", "alt3", "muted")
MARK_KINDS = ("vline", "hline", "point")
SCALES = ("linear", "log")

# Series of one group and one role would be drawn alike, so a panel may not hold two of them.
_LOOKS_ALIKE = {
    "line": "line",
    "step": "line",
    "band": "fill",
    "area": "fill",
    "bar": "bar",
    "scatter": "points",
    "cells": "cells",
}


def said(name: str, text: str) -> str:
    """Return `text` stripped if it is a string that says something; raise `ValueError` otherwise."""
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{name} = {text!r}: a non-empty text is needed")
    return text.strip()


def numbers(name: str, values: Iterable[float], gaps: bool = False) -> tuple[float, ...]:
    """Return `values` as a tuple of floats; NaN is let through as a gap if `gaps`.

    Raises
    ------
    ValueError
        If a value is not a number or is infinite, or NaN where no gap is allowed. The message gives its position.
    """
    result: list[float] = []
    for i, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, Real):
            raise ValueError(f"{name}[{i}] = {value!r}: a number is needed")
        number = float(value)
        if math.isinf(number) or (math.isnan(number) and not gaps):
            allowed = "a finite number or NaN (a gap)" if gaps else "a finite number"
            raise ValueError(f"{name}[{i}] = {value!r}: {allowed} is needed")
        result.append(number)
    return tuple(result)


@dataclass(frozen=True)
class Axis:
    """An axis: title, unit, scale, and limits if it should not follow the data.

    Parameters
    ----------
    title : str
        What is shown, e.g. "Arrival rate".
    unit : str
        Unit of the numbers, e.g. "req/s"; empty for a pure number.
    scale : {"linear", "log"}
        A log axis takes numbers above 0 only.
    limits : (low, high), optional
        Fixed limits, which may differ from state to state where the structure does. Without them the page takes one
        range that holds every state of the lab (or of `Lab.scaled_by`), so that a slider moves the curves and not
        the axis.
    key : str
        What a place on this axis is: "request" (its number, from 1), "time", "step" ...  The page marks the same one in
        all panels of a lab whose x axes have the same key; without one, axes with the same title and unit are the same.
    """

    title: str
    unit: str = ""
    scale: str = "linear"
    limits: tuple[float, float] | None = None
    key: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", said("Axis title", self.title))
        if not isinstance(self.unit, str):
            raise ValueError(f"Axis unit = {self.unit!r}: a text is needed")
        checks.one_of("Axis scale", self.scale, SCALES)
        if self.limits is not None:
            limits = numbers("Axis limits", self.limits)
            if len(limits) != 2 or not limits[0] < limits[1]:
                raise ValueError(f"Axis limits = {self.limits!r}: (low, high) with low < high is needed")
            if self.scale == "log" and limits[0] <= 0:
                raise ValueError(f"Axis limits = {self.limits!r}: a log axis needs limits above 0")
            object.__setattr__(self, "limits", limits)

    @property
    def label(self) -> str:
        """Title with the unit in parentheses, as written beside the axis."""
        return f"{self.title} ({self.unit})" if self.unit else self.title


@dataclass(frozen=True)
class Series:
    """Named data of one kind, in one role.

    Parameters
    ----------
    name : str
        Name in the legend.
    kind : {"line", "step", "band", "bar", "scatter", "area", "cells"}
        "step" holds y[i] from x[i] up to x[i+1]; "band" fills between `y` and `y2`; "area" fills down to 0 (a log
        axis: to its lower end); "bar" draws a bar for each x; "cells" draws a unit square around each (x, y), with
        the first word of `name` (a letter, as a rule) in it, and turns the y axis so that row 0 is at the top, as in
        a timetable.
    x : sequence
        Numbers, or strings for bars (then the axis is categorical). No gaps.
    y, y2 : sequence of numbers
        As long as `x`; NaN is a gap; `y2` only for bands. An empty series is drawn as the note "no data".
    role : {"ours", "baseline", "alt1", "alt2", "alt3", "muted"}
        Colour, dash and marker shape, the same in every panel of the book.
    """

    name: str
    kind: str
    x: tuple[Any, ...]
    y: tuple[float, ...]
    y2: tuple[float, ...] | None = None
    role: str = "ours"

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", said("Series name", self.name))
        checks.one_of(f"Series {self.name!r}: kind", self.kind, KINDS)
        checks.one_of(f"Series {self.name!r}: role", self.role, ROLES)
        x = tuple(self.x)
        if x and all(isinstance(value, str) for value in x):
            if self.kind != "bar":
                raise ValueError(f"Series {self.name!r}: x of strings is for bars only, kind is {self.kind!r}")
            if len(set(x)) != len(x):
                raise ValueError(f"Series {self.name!r}: x = {x!r}: each category once")
        else:
            x = numbers(f"Series {self.name!r}: x", x)
        object.__setattr__(self, "x", tuple(str(v) if isinstance(v, str) else v for v in x))
        object.__setattr__(self, "y", numbers(f"Series {self.name!r}: y", self.y, gaps=True))
        if len(self.y) != len(x):
            raise ValueError(f"Series {self.name!r}: len(y) = {len(self.y)}: must be len(x) = {len(x)}")
        if (self.y2 is not None) != (self.kind == "band"):
            raise ValueError(
                f"Series {self.name!r}: y2 is needed for a band, and for nothing else (kind {self.kind!r})"
            )
        if self.y2 is not None:
            object.__setattr__(self, "y2", numbers(f"Series {self.name!r}: y2", self.y2, gaps=True))
            if len(self.y2) != len(x):
                raise ValueError(f"Series {self.name!r}: len(y2) = {len(self.y2)}: must be len(x) = {len(x)}")

    @property
    def categorical(self) -> bool:
        """Whether x is made of category names."""
        return bool(self.x) and isinstance(self.x[0], str)

    def at(self, x: Any) -> float:
        """Return y at this x; raise `ValueError` if the series has no such x."""
        checks.one_of(f"Series {self.name!r}: x", x, self.x)
        return self.y[self.x.index(x)]

    @property
    def glyph(self) -> str:
        """The letter in each square of "cells": the first word of the name."""
        return self.name.split()[0]

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw: no points, or gaps only."""
        return all(math.isnan(value) for value in self.y)


@dataclass(frozen=True)
class Mark:
    """A limit, a capacity or the operating point, drawn over the series and always labelled.

    Parameters
    ----------
    kind : {"vline", "hline", "point"}
        A line at x, a line at y, or a point.
    at : number, or (x, y) for a point
        Where; finite. Leave a mark out where its value does not exist.
    label : str
        What it is, e.g. "SLO 1 s".
    """

    kind: str
    at: Any
    label: str

    def __post_init__(self) -> None:
        checks.one_of("Mark kind", self.kind, MARK_KINDS)
        object.__setattr__(self, "label", said("Mark label", self.label))
        if self.kind == "point":
            if not isinstance(self.at, Iterable) or isinstance(self.at, str):
                raise ValueError(f"Mark {self.label!r}: at = {self.at!r}: a point needs (x, y)")
            at = tuple(self.at)
            if len(at) != 2:
                raise ValueError(f"Mark {self.label!r}: at = {self.at!r}: a point needs (x, y)")
            y = checks.number(f"Mark {self.label!r}: at[1]", at[1])
            x = at[0] if isinstance(at[0], str) else checks.number(f"Mark {self.label!r}: at[0]", at[0])
            object.__setattr__(self, "at", (x, y))
        elif not (self.kind == "vline" and isinstance(self.at, str)):
            object.__setattr__(self, "at", checks.number(f"Mark {self.label!r}: at", self.at))


@dataclass(frozen=True)
class Panel:
    """One chart: axes, series, marks, and what it shows in words.

    Parameters
    ----------
    key : str
        Name of the panel within its lab, e.g. "ttft".
    title : str
        Heading, the same in every state of a lab; what changes belongs into `text`.
    x, y : Axis
        The axes, the same in every state of a lab.
    series : tuple of Series
        At least one. Names differ, and no two look alike (same role and same sort of drawing).
    marks : tuple of Mark
        Limits and operating points.
    text : str
        One sentence, computed from the data.
    """

    key: str
    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    marks: tuple[Mark, ...] = ()
    text: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", said("Panel key", self.key))
        here = f"Panel {self.key!r}"
        object.__setattr__(self, "title", said(f"{here}: title", self.title))
        object.__setattr__(self, "series", tuple(self.series))
        object.__setattr__(self, "marks", tuple(self.marks))
        if not isinstance(self.text, str):
            raise ValueError(f"{here}: text = {self.text!r}: a text is needed")
        if not self.series:
            raise ValueError(f"{here}: at least one series is needed")
        self._check_names(here)
        self._check_x(here)
        self._check_log(here)

    def _check_names(self, here: str) -> None:
        names, looks = set(), set()
        for s in self.series:
            look = (_LOOKS_ALIKE[s.kind], s.role)
            if s.name in names:
                raise ValueError(f"{here}: two series are named {s.name!r}; each name once")
            if look in looks:
                raise ValueError(
                    f"{here}: series {s.name!r}: another {s.kind} has role {s.role!r} already; "
                    f"they would look alike, roles are {', '.join(ROLES)}"
                )
            names.add(s.name)
            looks.add(look)

    def _check_x(self, here: str) -> None:
        filled = [s for s in self.series if s.x]
        if len({s.categorical for s in filled}) > 1:
            raise ValueError(f"{here}: x is strings in one series and numbers in another")
        for mark in self.marks:
            x = mark.at[0] if mark.kind == "point" else mark.at
            if filled and mark.kind != "hline" and isinstance(x, str) != self.categorical:
                raise ValueError(f"{here}: mark {mark.label!r}: x = {x!r} does not fit the x of the series")

    def _check_log(self, here: str) -> None:
        for name, axis in (("x", self.x), ("y", self.y)):
            if axis.scale != "log":
                continue
            for s in self.series:
                columns = [s.x] if name == "x" else [s.y, s.y2 or ()]
                if any(isinstance(v, str) for v in columns[0]):
                    raise ValueError(f"{here}: series {s.name!r}: categories on a log x axis")
                low = min((v for column in columns for v in column if not math.isnan(v)), default=1.0)
                if low <= 0:
                    raise ValueError(
                        f"{here}: series {s.name!r}: {name} = {low!r} on a log axis: must be above 0 (NaN makes a gap)"
                    )
            for mark in self.marks:
                along = {"vline": "x", "hline": "y"}.get(mark.kind)
                at = mark.at[name == "y"] if mark.kind == "point" else mark.at if along == name else 1.0
                if at <= 0:
                    raise ValueError(f"{here}: mark {mark.label!r}: {name} = {at!r} on a log axis: must be above 0")

    def curve(self, name: str) -> Series:
        """Return the series of this name; raise `ValueError` if there is none."""
        found = {s.name: s for s in self.series}
        checks.one_of(f"Panel {self.key!r}: series", name, found)
        return found[name]

    @property
    def categorical(self) -> bool:
        """Whether the x axis shows category names."""
        return any(s.categorical for s in self.series)
