"""The playground's charts, as the page's renderer wants them; the page moves a run's numbers into them."""

from __future__ import annotations

from typing import Any

from labcode.labkit.panel import Axis, Series
from labcode.labkit.render_vega import panel_spec
from labcode.labkit.swatch import swatch


def _series(name: str, kind: str, role: str = "ours") -> Series:
    return Series(name, kind, (), (), role=role)


PANELS: tuple[tuple[str, str, Axis, Axis, tuple[Series, ...]], ...] = (
    (
        "ttft",
        "Time to first token, request by request",
        Axis("Arrival", "s"),
        Axis("TTFT", "s"),
        (_series("this run", "scatter"), _series("first come, first served", "scatter", "baseline")),
    ),
    (
        "itl",
        "Gaps between tokens",
        Axis("Gap", "ms", scale="log"),
        Axis("Share of gaps that are not longer"),
        (_series("this run", "step"), _series("first come, first served", "step", "baseline")),
    ),
    (
        "queue",
        "Who runs and who waits",
        Axis("Time", "s"),
        Axis("Requests"),
        (_series("running", "step"), _series("waiting", "step", "alt1")),
    ),
    (
        "kv",
        "KV cache",
        Axis("Time", "s"),
        Axis("Share of the pool"),
        (_series("written", "step"), _series("taken", "step", "alt1")),
    ),
)


def frames() -> list[dict[str, Any]]:
    """Return for each panel all but its numbers, as `book/assets/labs-charts.js` reads it."""
    return [
        {
            "key": key,
            "title": title,
            "x": {"label": x.label, "title": x.title, "unit": x.unit, "scale": x.scale},
            "y": {"label": y.label, "title": y.title, "unit": y.unit, "scale": y.scale},
            "categories": None,
            "series": [{"name": s.name, "kind": s.kind, "role": s.role, "swatch": [swatch(s)]} for s in series],
            "spec": panel_spec(x, y, list(series), False),
        }
        for key, title, x, y, series in PANELS
    ]
