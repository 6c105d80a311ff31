"""The page's data of one lab: every state, compact enough to be loaded when the lab comes into view.

What is the same in all states (titles, axes, names, specifications) is stored once. A state is a row of indices into
three tables: sentences, arrays of numbers, lists of marks. Curves that do not change from state to state are stored
once that way.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from labcode.labkit import scales
from labcode.labkit.flow import compact
from labcode.labkit.flow_picture import legend
from labcode.labkit.lab import NUMBERS, Lab, Result, describe
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.render_vega import panel_spec
from labcode.labkit.swatch import swatch

DIGITS = 4


def rounded(values: Sequence[float]) -> list[float | None]:
    """Round to 4 significant digits, or to 1/1000 of the spread of the values where that is finer; NaN becomes None."""
    known = [v for v in values if not math.isnan(v)]
    spread = max(known) - min(known) if known else 0.0
    finest = DIGITS - 1 - math.floor(math.log10(spread)) if spread > 0 else -400

    def one(v: float) -> float | None:
        if math.isnan(v):
            return None
        if v == 0:
            return 0
        short = round(v, max(DIGITS - 1 - math.floor(math.log10(abs(v))), finest))
        return int(short) if short == int(short) and abs(short) < 1e15 else short

    return [one(v) for v in values]


class _Table:
    """Things stored once: `index` gives the place of a thing, appending it if it is new."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self._places: dict[str, int] = {}

    def index(self, row: Any) -> int:
        key = json.dumps(row, ensure_ascii=False)
        if key not in self._places:
            self._places[key] = len(self.rows)
            self.rows.append(row)
        return self._places[key]


def _frame(panel: Panel) -> tuple[str, ...]:
    """Return what must not change from state to state; the limits of an axis may."""
    return (panel.key, panel.title, *(t for a in (panel.x, panel.y) for t in (a.title, a.unit, a.scale)))


def _structure(lab: Lab, results: Sequence[Result]) -> list[list[Panel]]:
    """Return for each panel its states, after checking that keys, titles and axes are the same in all of them."""
    first = results[0].panels
    for result in results:
        for panel, same in zip(result.panels, first, strict=False):
            if _frame(panel) != _frame(same):
                raise ValueError(
                    f"Lab {lab.id!r}: panel {panel.key!r}: key, title and axes must be the same in every "
                    f"state; {panel.title!r} and {same.title!r}, or their axes, differ"
                )
        if len(result.panels) != len(first):
            raise ValueError(f"Lab {lab.id!r}: {len(result.panels)} panels in one state, {len(first)} in another")
    return [[result.panels[i] for result in results] for i in range(len(first))]


def _all_series(lab: Lab, panels: Sequence[Panel]) -> list[Series]:
    """Return every series that appears in some state of a panel, in order of first appearance."""
    seen: dict[str, Series] = {}
    for panel in panels:
        for s in panel.series:
            same = seen.setdefault(s.name, s)
            if (same.kind, same.role) != (s.kind, s.role):
                raise ValueError(
                    f"Lab {lab.id!r}: panel {panel.key!r}: series {s.name!r} is {s.kind}, {s.role} in one "
                    f"state and {same.kind}, {same.role} in another"
                )
    return list(seen.values())


def _mark_rows(marks: Sequence[Mark], strings: _Table) -> list[list[Any]]:
    """Return marks as rows [kind, x, y, label]; null where a line has no such coordinate."""
    rows = []
    for mark in marks:
        x, y = {"vline": (mark.at, None), "hline": (None, mark.at), "point": mark.at}[mark.kind]
        short = [v if v is None or isinstance(v, str) else rounded([v])[0] for v in (x, y)]
        rows.append([mark.kind, *short, strings.index(mark.label)])
    return rows


def _columns(series: Series, edges: dict[str, tuple[list[float], list[float]]]) -> list[Any]:
    """Return x, y, y2 of a series as the page wants them; a bar over numbers has its edges in x and y2."""
    x: Sequence[Any] = series.x
    y2: Sequence[float] | None = series.y2
    if series.name in edges:
        x, y2 = edges[series.name]
    return [list(x) if series.categorical else rounded(x), rounded(series.y), None if y2 is None else rounded(y2)]


class _PanelPage:
    """One panel over all states: its constant part and, state by state, its row of indices."""

    def __init__(self, lab: Lab, panels: Sequence[Panel], groups: Sequence[int]) -> None:
        first = panels[0]
        self.panels = panels
        self.groups = groups
        self.series = _all_series(lab, panels)
        self.categories = scales.categories(panels)
        self.bases: dict[str, dict[int, scales.Range | None]] = {}
        self.extents: dict[str, list[scales.Range | None]] = {}
        for along, axis in (("x", first.x), ("y", first.y)):
            self.extents[along] = [scales.extent(panel, along) for panel in panels]
            self.bases[along] = self._bases(lab, self.extents[along], axis.scale)

    def _bases(self, lab: Lab, extents: list[scales.Range | None], scale: str) -> dict[int, scales.Range | None]:
        """Return for each group of states that share a scale the range that holds them."""
        default = list(lab.states()).index(lab.default)
        bases = {}
        for group in sorted(set(self.groups)):
            places = [i for i, other in enumerate(self.groups) if other == group]
            at = places.index(default) if default in places else None
            bases[group] = scales.base_range([extents[i] for i in places], at, scale)
        return bases

    def constant(self) -> dict[str, Any]:
        first = self.panels[0]
        return {
            "key": first.key,
            "title": first.title,
            "x": self._axis("x", first.x) | {"key": first.x.key or first.x.label},
            "y": self._axis("y", first.y),
            "categories": self.categories or None,
            "series": [self._series(s) for s in self.series],
            "spec": panel_spec(first.x, first.y, self.series, bool(self.categories)),
        }

    def _series(self, s: Series) -> dict[str, Any]:
        drawn = [swatch(s)] + [swatch(s, shapes=True)] * (s.kind == "line")
        return {"name": s.name, "kind": s.kind, "role": s.role, "swatch": drawn}

    def _axis(self, along: str, axis: Axis) -> dict[str, Any]:
        return {"label": axis.label, "title": axis.title, "unit": axis.unit, "scale": axis.scale}

    def row(self, i: int, strings: _Table, arrays: _Table, marks: _Table) -> list[int]:
        """Return the indices of state `i`: text, marks, x range, y range, then x, y, y2 of each series (-1: none)."""
        panel = self.panels[i]
        row = [strings.index(panel.text), marks.index(_mark_rows(panel.marks, strings))]
        for along, axis in (("x", panel.x), ("y", panel.y)):
            if along == "x" and self.categories:
                row.append(arrays.index(self.categories))
            else:
                base = self.bases[along][self.groups[i]]
                here = scales.domain(axis, base, self.extents[along][i], along)
                row.append(arrays.index(rounded(here)))
        edges = scales.bar_edges(panel)
        by_name = {s.name: s for s in panel.series}
        for s in self.series:
            columns = _columns(by_name[s.name], edges) if s.name in by_name else [[], [], None]
            row += [-1 if column is None else arrays.index(column) for column in columns]
        return row


def _question(lab: Lab, results: Sequence[Result]) -> dict[str, Any] | None:
    """Return the lab's question with its verdict, which the results decide; None if it asks nothing."""
    if lab.predict is None:
        return None
    verdict = lab.predict.verdict(results[list(lab.states()).index(lab.deciding)])
    return {
        "question": lab.predict.question,
        "options": list(lab.predict.options),
        "right": lab.predict.options.index(verdict.right),
        "why": verdict.why,
        "reveal": _indices(lab, lab.deciding),
    }


def _indices(lab: Lab, setting: dict[str, Any]) -> list[int]:
    """Return a setting as the place of each value among its control's."""
    return [c.values.index(setting[c.name]) for c in lab.controls]


def _challenge(lab: Lab, results: Sequence[Result]) -> dict[str, Any] | None:
    """Return the lab's goal with the numbers of the states that reach it; None if it has none."""
    if lab.challenge is None:
        return None
    met = [i for i, (params, r) in enumerate(zip(lab.states(), results, strict=True)) if lab.challenge.met(params, r)]
    return {"goal": lab.challenge.goal, "met": met}


def page_data(lab: Lab, results: Sequence[Result]) -> dict[str, Any]:
    """Return everything the page needs to know of a lab, ready for JSON.

    Parameters
    ----------
    lab : Lab
    results : sequence of Result
        One for each of `lab.states()`, in that order.

    Raises
    ------
    ValueError
        If there are not as many results as states, or if panels, titles, axes or the looks of a series change from
        state to state. The message names the lab.
    """
    if len(results) != lab.size:
        raise ValueError(f"Lab {lab.id!r}: {len(results)} results: {lab.size} states need as many")
    states = list(lab.states())
    scaled = _Table()
    groups = [scaled.index([params[name] for name in lab.scaled_by]) for params in states]
    pages = [_PanelPage(lab, panels, groups) for panels in _structure(lab, results)]
    strings, arrays, marks, flows = _Table(), _Table(), _Table(), _Table()
    rows = []
    for i, (result, params) in enumerate(zip(results, states, strict=True)):
        alt = -1 if lab.alt is describe else strings.index(lab.alt_text(result, params))
        row = [strings.index(result.headline), alt]
        for page in pages:
            row += page.row(i, strings, arrays, marks)
        if result.flow is not None:
            row.append(flows.index(compact(result.flow)))
        rows.append(row)
    if flows.rows and any(result.flow is None for result in results):
        raise ValueError(f"Lab {lab.id!r}: a flow is needed in every state or in none")
    moving = {"flows": flows.rows, "flowLegend": legend(), "plays": lab.plays} if flows.rows else {}
    return {
        "id": lab.id,
        "title": lab.title,
        "ask": _question(lab, results),
        "presets": [[words, _indices(lab, lab.whole(setting))] for words, setting in lab.presets.items()],
        "challenge": _challenge(lab, results),
        "numbers": [[kind, NUMBERS[kind]] for kind in lab.numbers],
        "controls": [
            {
                "name": c.name,
                "label": c.label,
                "unit": c.unit,
                "choice": c.choice,
                "values": list(c.values),
                "texts": [c.text(v) for v in c.values],
                "default": c.values.index(c.default),
            }
            for c in lab.controls
        ],
        "panels": [page.constant() for page in pages],
        "strings": strings.rows,
        "arrays": arrays.rows,
        "marks": marks.rows,
        "states": rows,
    } | moving


def script(data: dict[str, Any]) -> str:
    """Return `data` as a script that registers it: script tags load from file:// and http alike, fetch does not."""
    body = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("</", "<\\/")
    return f"(window.labData=window.labData||{{}})[{json.dumps(data['id'])}]={body};\n"
