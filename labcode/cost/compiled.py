"""Cost models in the one form that compiled loops understand.

A loop over arrays cannot call a method of an object that it does not know.  It gets a `CompiledCost` instead, flat
and of the same types whatever the model is, and asks two functions: what one step takes, and how far a run of decode
steps comes.  They return what ``step_time`` and ``advance`` of the model itself return (a test holds them to it).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from labcode.cost.formula import Roofline, scalar_combine, scalar_compute_time, scalar_memory_time
from labcode.cost.leap import SAME_INSTANT, run_length, steps_until
from labcode.jit import compiled

Floats = NDArray[np.float64]
Table = tuple[Floats, Floats, Floats]
ROOFLINE, MEASURED = 0, 1
_NO_ROOFS = Roofline(*[0.0] * len(Roofline._fields))


class CompiledGrid(NamedTuple):
    """Where a grid lies in `CompiledCost.tables`: its rows, then its columns, then its values row by row."""

    start: int
    rows: int
    columns: int


class CompiledCost(NamedTuple):
    """A cost model as numbers and one array (passing many arrays would cost a compiled loop more than pricing a step).

    Attributes
    ----------
    kind : int
        `ROOFLINE` or `MEASURED`.
    p, roofs : float, Roofline
        Of a roofline.
    compute, decode, prefill : CompiledGrid
        Of measured tables.
    tables : shape (k,)
        The numbers of the three grids; empty for a roofline.
    round_tokens, round_kv, batching
        As in :class:`labcode.cost.measured.MeasuredCost`; 1, 1 and 0 for a roofline.
    """

    kind: int
    p: float
    roofs: Roofline
    compute: CompiledGrid
    decode: CompiledGrid
    prefill: CompiledGrid
    tables: Floats
    round_tokens: int
    round_kv: int
    batching: float


def roofline_form(roofs: Roofline, p: float) -> CompiledCost:
    """Return the form of a roofline."""
    nowhere = CompiledGrid(0, 0, 0)
    return CompiledCost(
        ROOFLINE, float(p), Roofline(*map(float, roofs)), nowhere, nowhere, nowhere, np.empty(0), 1, 1, 0.0
    )


def measured_form(
    compute: Table, decode: Table, prefill: Table, round_tokens: int, round_kv: int, batching: float
) -> CompiledCost:
    """Return the form of measured tables, each given as its rows (r,), columns (c,) and values (r, c)."""
    grids, parts, start = [], [], 0
    for rows, columns, values in (compute, decode, prefill):
        grids.append(CompiledGrid(start, len(rows), len(columns)))
        parts += [rows, columns, values.ravel()]
        start += len(rows) + len(columns) + values.size
    places = dict(zip(("compute", "decode", "prefill"), grids, strict=True))
    return CompiledCost(
        MEASURED,
        1.0,
        _NO_ROOFS,
        **places,
        tables=np.concatenate(parts).astype(np.float64),
        round_tokens=int(round_tokens),
        round_kv=int(round_kv),
        batching=float(batching),
    )


@compiled
def round_up(x, multiple):  # type: ignore[no-untyped-def]
    """Round an integer up to a multiple."""
    return -(-x // multiple) * multiple


@compiled
def _interval(tables, start, count, x):  # type: ignore[no-untyped-def]
    """Return the interval of the grid lines that holds `x` (from `start` on, the last one open), and where in it."""
    low, high = start, start + count - 1
    while high - low > 1:
        middle = (low + high) // 2
        if tables[middle] <= x:
            low = middle
        else:
            high = middle
    return low - start, (x - tables[low]) / (tables[low + 1] - tables[low])


@compiled
def look_up(tables, grid, row, column):  # type: ignore[no-untyped-def]
    """Return the value of a grid at one place, as :meth:`labcode.cost.measured.Grid.at` does."""
    lines, values = grid.start + grid.rows, grid.start + grid.rows + grid.columns
    i, u = _interval(tables, grid.start, grid.rows, max(row, tables[grid.start]))
    j, v = _interval(tables, lines, grid.columns, max(column, tables[lines]))
    first = values + i * grid.columns + j
    second = first + grid.columns
    low = tables[first] * (1 - v) + tables[first + 1] * v
    high = tables[second] * (1 - v) + tables[second + 1] * v
    return low * (1 - u) + high * u


@compiled
def _roofline_step(roofs, p, new, seqs, pairs, kv):  # type: ignore[no-untyped-def]
    return scalar_combine(scalar_memory_time(roofs, new, kv), scalar_compute_time(roofs, new, seqs, pairs), p)


@compiled
def _roofline_advance(roofs, p, batch, kv, start, limit, until):  # type: ignore[no-untyped-def]
    memory, compute = scalar_memory_time(roofs, batch, kv), scalar_compute_time(roofs, batch, batch, kv)
    memory_slope, compute_slope = roofs.move_kv * batch, roofs.attention * batch
    steps = limit
    if not math.isinf(until):
        steps = steps_until(memory, memory_slope, compute, compute_slope, p, until - start, limit)
    return steps, start + run_length(memory, memory_slope, compute, compute_slope, p, float(steps))


@compiled
def _measured_step(  # type: ignore[no-untyped-def]
    form, new, n_prefill, prefill_squares, prefill_past, n_decode, decode_kv
):
    time = look_up(form.tables, form.compute, float(round_up(new, form.round_tokens)), 0.0)
    if n_prefill > 0:
        chunk = float(math.floor(math.sqrt(prefill_squares) + 0.5))
        share = 1.0 + form.batching if n_prefill > 1 else 1.0
        time += look_up(form.tables, form.prefill, chunk, float(prefill_past)) * share
    if n_decode > 0:
        mean = float(round_up(decode_kv // n_decode, form.round_kv))
        share = 1.0 + form.batching if n_decode > 1 else 1.0
        time += look_up(form.tables, form.decode, float(n_decode), mean) * share
    return time


@compiled
def _measured_advance(form, n_decode, decode_kv, start, limit, until):  # type: ignore[no-untyped-def]
    steps, end, kv = 0, start, decode_kv
    while steps < limit and (steps == 0 or end < until - SAME_INSTANT):
        end += _measured_step(form, n_decode, 0, 0.0, 0, n_decode, kv)
        steps += 1
        kv += n_decode
    return steps, end


@compiled
def compiled_step_time(  # type: ignore[no-untyped-def]
    form, new, pairs, kv, n_prefill, prefill_squares, prefill_past, n_decode, decode_kv
):
    """Return the duration of a step in seconds.

    Parameters
    ----------
    form : CompiledCost
    new, pairs, kv : int or float
        Over all sequences, as in a `StepShape`.
    n_prefill : int
        Prefills, or chunks of prefills.
    prefill_squares : int or float
        Over those, the sum of the squares of their new positions.
    prefill_past : int
        Over those, the sum of the positions cached before, each ``round_up(past, form.round_kv)``.
    n_decode, decode_kv : int
        As in a `StepShape`.
    """
    if form.kind == ROOFLINE:
        seqs = float(n_prefill + n_decode)
        return _roofline_step(form.roofs, form.p, float(new), seqs, float(pairs), float(kv))
    return _measured_step(form, new, n_prefill, float(prefill_squares), prefill_past, n_decode, decode_kv)


@compiled
def compiled_advance(form, n_decode, decode_kv, start, limit, until):  # type: ignore[no-untyped-def]
    """Return (steps, end) as :meth:`labcode.cost.base.CostModel.advance` does for a decode-only step."""
    if form.kind == ROOFLINE:
        return _roofline_advance(form.roofs, form.p, float(n_decode), float(decode_kv), start, limit, until)
    return _measured_advance(form, n_decode, decode_kv, start, limit, until)
