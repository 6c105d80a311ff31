"""Rows of the ledger, how they are judged, and the register of the functions that compute them."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

#: Modules that register rows, in the order of the ledger.
MODULES = ("model_rows", "scheduling_rows", "serving_rows", "clipper_rows", "knob_rows", "chapter_rows")
SEEDS = tuple(range(20))


@dataclass(frozen=True)
class Row:
    """One stated figure.

    Attributes
    ----------
    id : str
        As in the list of figures: L01 ... for the lecture, C01 ... for the chapter.
    what : str
        What is measured, with its unit.
    stated, ours : str
        The two figures as text; a stochastic one of ours with its range over 20 seeds.
    tolerance : str
        How near they must be.
    ok : bool
        Whether they are.
    source : str
        Document and section: 000 is the lecture, 003 the chapter.
    """

    id: str
    what: str
    stated: str
    ours: str
    tolerance: str
    ok: bool
    source: str


_REGISTER: list[tuple[tuple[str, ...], Callable[[], Iterable[Row]]]] = []


def rows(*ids: str) -> Callable[[Callable[[], Iterable[Row]]], Callable[[], Iterable[Row]]]:
    """Register a function that yields the rows `ids`."""

    def register(function: Callable[[], Iterable[Row]]) -> Callable[[], Iterable[Row]]:
        _REGISTER.append((ids, function))
        return function

    return register


def show(value: object) -> str:
    """Return a figure as text: four significant digits for what is not whole."""
    if isinstance(value, (bool, np.bool_, str)):
        return str(value)
    if isinstance(value, (int, np.integer)):
        return f"{value:,}"
    if isinstance(value, (float, np.floating)):
        value = float(value)
        return f"{value:,.0f}" if abs(value) >= 1000 or value.is_integer() else f"{value:.4g}"
    each = list(value)  # type: ignore[call-overload]
    if len(each) > 4 and len(set(each)) == 1:
        return f"{show(each[0])} ({len(each)} times)"
    return ", ".join(show(v) for v in each)


def exact(id: str, what: str, stated: object, ours: object, source: str) -> Row:
    """Judge by equality, to the last digit stated (1e-9 relative for what went through floating point)."""
    pairs = zip(_flat(stated), _flat(ours), strict=True)
    ok = all(a == b if isinstance(a, str) else math.isclose(a, b, rel_tol=1e-9) for a, b in pairs)
    return Row(id, what, show(stated), show(ours), "exact", ok, source)


def rounded(id: str, what: str, stated: float, ours: float, digits: int, source: str) -> Row:
    """Judge an exact figure that is stated rounded to `digits` decimals (negative: tens, hundreds)."""
    return Row(
        id,
        what,
        show(stated),
        show(ours),
        f"exact, as rounded to {10.0**-digits:g}",
        round(ours, digits) == stated,
        source,
    )


def approx(id: str, what: str, stated: float, ours: float | Sequence[float], relative: float, source: str) -> Row:
    """Judge the figure, or its mean over seeds, by a relative distance."""
    value = float(np.mean(ours))
    ok = abs(value - stated) <= relative * abs(stated)
    return Row(id, what, show(stated), spread(ours), f"±{relative:.0%}", ok, source)


def within(id: str, what: str, stated: str, ours: float | Sequence[float], low: float, high: float, source: str) -> Row:
    """Judge by a range, which the mean over seeds must lie in."""
    return Row(id, what, stated, spread(ours), f"{low:g} to {high:g}", low <= float(np.mean(ours)) <= high, source)


def shape(
    id: str, what: str, stated: str, ours: str, holds: bool | Sequence[bool] | NDArray[np.bool_], source: str
) -> Row:
    """Judge by an ordering that must hold, for every seed where there are several."""
    each = np.atleast_1d(holds)
    tolerance = "shape" if len(each) == 1 else f"shape, every one of {len(each)} seeds"
    text = ours if len(each) == 1 else f"{ours}; holds for {each.sum()} of {len(each)}"
    return Row(id, what, stated, text, tolerance, bool(each.all()), source)


def spread(values: float | Sequence[float]) -> str:
    """Return a figure as text; several as their mean and range."""
    each = np.atleast_1d(np.asarray(values, dtype=float))
    if len(each) == 1:
        return show(float(each[0]))
    return f"{show(float(each.mean()))} ({show(float(each.min()))} to {show(float(each.max()))})"


def _flat(value: object) -> list:
    if isinstance(value, (str, int, float, np.integer, np.floating)):
        return [value]
    return list(value)  # type: ignore[call-overload]


def ledger(only: Iterable[str] | None = None) -> list[Row]:
    """Compute the rows, all of them or those of the ids in `only`.

    Raises
    ------
    ValueError
        If an id is unknown.
    """
    for module in MODULES:
        importlib.import_module(f"labcode.course.ledger.{module}")
    known = {id for ids, _ in _REGISTER for id in ids}
    wanted = known if only is None else set(only)
    if wanted - known:
        raise ValueError(f"only = {sorted(wanted - known)}: known are {', '.join(sorted(known))}")
    computed = [row for ids, function in _REGISTER if wanted & set(ids) for row in function() if row.id in wanted]
    return sorted(computed, key=lambda row: (row.id[0] != "L", row.id))


def table(computed: list[Row]) -> pd.DataFrame:
    """Return rows as a table."""
    return pd.DataFrame([asdict(row) for row in computed])
