"""Cost models in the one form that compiled loops understand.

A loop over arrays cannot call a method of an object that it does not know.  It gets a `CompiledCost` instead, flat
and of the same types whatever the model is, and asks two functions: what one step takes, and how far a run of decode
steps comes.  They return what ``step_time`` and ``advance`` of the model itself return (a test holds them to it).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labcode.cost.formula import Roofline, scalar_combine, scalar_compute_time, scalar_memory_time
from labcode.cost.leap import SAME_INSTANT, run_length, steps_until
from labcode.jit import compiled

Floats = NDArray[np.float64]
ROOFLINE, MEASURED = 0, 1
_NO_ROOFS = Roofline(*[0.0] * len(Roofline._fields))


class CompiledGrid(NamedTuple):
    """A :class:`labcode.cost.measured.Grid` as arrays: rows (r,), columns (c,), values (r, c)."""

    rows: Floats
    columns: Floats
    values: Floats


class CompiledCost(NamedTuple):
    """A cost model as numbers and arrays.

    Attributes
    ----------
    kind : int
        `ROOFLINE` or `MEASURED`.
    p, roofs : float, Roofline
        Of a roofline.
    compute, decode, prefill : CompiledGrid
        Of measured tables; empty for a roofline.
    round_tokens, round_kv, batching
        As in :class:`labcode.cost.measured.MeasuredCost`; 1, 1 and 0 for a roofline.
    """

    kind: int
    p: float
    roofs: Roofline
    compute: CompiledGrid
    decode: CompiledGrid
    prefill: CompiledGrid
    round_tokens: int
    round_kv: int
    batching: float


def grid_form(rows: ArrayLike, columns: ArrayLike, values: ArrayLike) -> CompiledGrid:
    """Return a grid as fresh C-ordered arrays, so that the compiler always meets the same types."""
    parts = (np.array(part, dtype=np.float64, order="C") for part in (rows, columns, values))
    return CompiledGrid(*parts)


def roofline_form(roofs: Roofline, p: float) -> CompiledCost:
    """Return the form of a roofline."""
    empty = grid_form([], [], np.empty((0, 0)))
    return CompiledCost(ROOFLINE, float(p), Roofline(*map(float, roofs)), empty, empty, empty, 1, 1, 0.0)


def measured_form(
    compute: CompiledGrid,
    decode: CompiledGrid,
    prefill: CompiledGrid,
    round_tokens: int,
    round_kv: int,
    batching: float,
) -> CompiledCost:
    """Return the form of measured tables."""
    return CompiledCost(
        MEASURED, 1.0, _NO_ROOFS, compute, decode, prefill, int(round_tokens), int(round_kv), float(batching)
    )


@compiled
def round_up(x, multiple):  # type: ignore[no-untyped-def]
    """Round an integer up to a multiple."""
    return -(-x // multiple) * multiple


@compiled
def _interval(lines, x):  # type: ignore[no-untyped-def]
    i = min(max(np.searchsorted(lines, x, "right") - 1, 0), len(lines) - 2)
    return i, (x - lines[i]) / (lines[i + 1] - lines[i])


@compiled
def look_up(grid, row, column):  # type: ignore[no-untyped-def]
    """Return the value of a grid at one place, as :meth:`labcode.cost.measured.Grid.at` does."""
    i, u = _interval(grid.rows, max(row, grid.rows[0]))
    j, v = _interval(grid.columns, max(column, grid.columns[0]))
    low = grid.values[i, j] * (1 - v) + grid.values[i, j + 1] * v
    high = grid.values[i + 1, j] * (1 - v) + grid.values[i + 1, j + 1] * v
    return low * (1 - u) + high * u


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
        memory = scalar_memory_time(form.roofs, float(new), float(kv))
        compute = scalar_compute_time(form.roofs, float(new), float(n_prefill + n_decode), float(pairs))
        return scalar_combine(memory, compute, form.p)
    time = look_up(form.compute, float(round_up(new, form.round_tokens)), 0.0)
    if n_prefill > 0:
        chunk = float(math.floor(math.sqrt(prefill_squares) + 0.5))
        share = 1.0 + form.batching if n_prefill > 1 else 1.0
        time += look_up(form.prefill, chunk, float(prefill_past)) * share
    if n_decode > 0:
        mean = float(round_up(decode_kv // n_decode, form.round_kv))
        share = 1.0 + form.batching if n_decode > 1 else 1.0
        time += look_up(form.decode, float(n_decode), mean) * share
    return time


@compiled
def compiled_advance(form, n_decode, decode_kv, start, limit, until):  # type: ignore[no-untyped-def]
    """Return (steps, end) as :meth:`labcode.cost.base.CostModel.advance` does for a decode-only step."""
    if form.kind == ROOFLINE:
        batch, kv = float(n_decode), float(decode_kv)
        memory = scalar_memory_time(form.roofs, batch, kv)
        compute = scalar_compute_time(form.roofs, batch, batch, kv)
        memory_slope, compute_slope = form.roofs.move_kv * batch, form.roofs.attention * batch
        steps = limit
        if not math.isinf(until):
            steps = steps_until(memory, memory_slope, compute, compute_slope, form.p, until - start, limit)
        return steps, start + run_length(memory, memory_slope, compute, compute_slope, form.p, float(steps))
    steps, end, kv = 0, start, decode_kv
    while steps < limit and (steps == 0 or end < until - SAME_INSTANT):
        end += compiled_step_time(form, n_decode, kv, kv, 0, 0, 0, n_decode, kv)
        steps += 1
        kv += n_decode
    return steps, end
