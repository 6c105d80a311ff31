"""A cost model from measured kernels: step times are looked up in tables and not derived from peaks.

A step is priced as its parts were measured, one layer of the model at a time and all layers alike:

- *compute*: everything that depends on the number of new tokens alone (linear layers, norms, activations, ...);
- *decode attention*, by the number of sequences and their mean length;
- *prefill attention*, by the tokens of a chunk and the positions cached before it.

The tables have the form that Vidur (Agrawal et al. 2024) uses.  As there, several prefills in one step count as
one with the root of the sum of their squares, since attention without history grows with the square.
What is measured is the kernels; the time between them, which a CPU needs to launch them, is not in it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from os import PathLike

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from labcode.checks import integer, non_negative
from labcode.cost.base import CostModel
from labcode.cost.compiled import CompiledCost, measured_form
from labcode.cost.specs import GPUSpec, ModelSpec
from labcode.cost.step import SeqWork, StepShape

Floats = NDArray[np.float64]

#: Every pair that tables are at hand for.
BUNDLED = (("llama3-8b", "a100-80"),)


@dataclass(frozen=True, eq=False)
class Grid:
    """Values on a rectangular grid, bilinear in between.

    Below the first line of the grid the value stays what it is there (a kernel has a floor); beyond the last line
    it goes on with the slope of the last two.

    Attributes
    ----------
    rows, columns : shape (r,), (c,)
        Positions of the grid lines, ascending, at least two each.
    values : shape (r, c)
        Seconds.
    """

    rows: Floats
    columns: Floats
    values: Floats
    _rows: list[float] = field(init=False, repr=False)
    _columns: list[float] = field(init=False, repr=False)
    _values: list[list[float]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("rows", "columns", "values"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=float))
        for name in ("rows", "columns"):
            line = getattr(self, name)
            if line.ndim != 1 or len(line) < 2 or not (np.diff(line) > 0).all():
                raise ValueError(f"Grid.{name} = {line!r}: at least two ascending numbers are needed")
        shape = (len(self.rows), len(self.columns))
        if self.values.shape != shape:
            raise ValueError(f"Grid.values: shape {self.values.shape}, but there are {shape} grid lines")
        if not (np.isfinite(self.values) & (self.values >= 0)).all():
            raise ValueError("Grid.values: every value must be a finite time, not below 0")
        # Plain lists beside the arrays, for `at`.
        for name in ("rows", "columns", "values"):
            object.__setattr__(self, f"_{name}", getattr(self, name).tolist())

    @classmethod
    def from_table(cls, table: pd.DataFrame, row: str, column: str, value: str, scale: float = 1.0) -> Grid:
        """Return the grid of a long table with the columns `row`, `column` and `value`, every pair once.

        Last rows of which some columns were not measured are left out; holes further inside are not allowed.

        Raises
        ------
        ValueError
            If a column is missing, a pair is missing or is there twice.
        """
        for name in (row, column, value):
            if name not in table:
                raise ValueError(f"table: no column {name!r}; it has {', '.join(map(str, table.columns))}")
        if table.duplicated([row, column]).any():
            again = table[table.duplicated([row, column])].iloc[0]
            raise ValueError(f"table: {row} = {again[row]:g}, {column} = {again[column]:g} is there twice")
        wide = table.pivot(index=row, columns=column, values=value)
        while len(wide) > 2 and wide.iloc[-1].isna().any():
            wide = wide.iloc[:-1]
        for r, c in np.argwhere(wide.isna().to_numpy()):
            where = f"{row} = {wide.index[r]:g}, {column} = {wide.columns[c]:g}"
            raise ValueError(f"table: no value for {where}; a full grid is needed")
        return cls(wide.index.to_numpy(), wide.columns.to_numpy(), wide.to_numpy() * scale)

    def __call__(self, row: ArrayLike, column: ArrayLike) -> Floats:
        """Return the values at (row, column), arrays of one shape."""
        i, u = _place(self.rows, row)
        j, v = _place(self.columns, column)
        low = self.values[i, j] * (1 - v) + self.values[i, j + 1] * v
        high = self.values[i + 1, j] * (1 - v) + self.values[i + 1, j + 1] * v
        return np.asarray(low * (1 - u) + high * u)

    def at(self, row: float, column: float) -> float:
        """Return the value at one place: the same as a call, much quicker for a single number."""
        i, u = self._interval(self._rows, row)
        j, v = self._interval(self._columns, column)
        first, second = self._values[i], self._values[i + 1]
        low, high = first[j] * (1 - v) + first[j + 1] * v, second[j] * (1 - v) + second[j + 1] * v
        return float(low * (1 - u) + high * u)

    @staticmethod
    def _interval(lines: list[float], x: float) -> tuple[int, float]:
        x = max(x, lines[0])
        i = min(bisect_right(lines, x) - 1, len(lines) - 2)
        return i, (x - lines[i]) / (lines[i + 1] - lines[i])


def line(x: ArrayLike, y: ArrayLike) -> Grid:
    """Return the broken line through (x, y) as a grid whose second coordinate does not matter."""
    return Grid(np.asarray(x), np.array([0.0, 1.0]), np.repeat(np.asarray(y, dtype=float)[:, None], 2, axis=1))


def _place(lines: Floats, x: ArrayLike) -> tuple[NDArray[np.intp], Floats]:
    """Return the interval of `lines` that holds `x`, and where in it (0 to 1; above 1 beyond the last line)."""
    x = np.asarray(np.maximum(x, lines[0]), dtype=float)
    i = np.clip(np.searchsorted(lines, x, "right") - 1, 0, len(lines) - 2)
    return i, (x - lines[i]) / (lines[i + 1] - lines[i])


def _up(x: ArrayLike, multiple: int) -> Floats:
    """Round up to a multiple."""
    return np.ceil(np.asarray(x, dtype=float) / multiple) * multiple


@dataclass(frozen=True, eq=False)
class MeasuredCost(CostModel):
    """Step times from tables of measured kernels.

    Attributes
    ----------
    tokens, compute : shape (k,)
        New tokens of a step, and the time of all that depends on them alone, s.
    decode : Grid
        Attention of decodes, s, by sequences and mean cached positions (the new one included).
    prefill : Grid
        Attention of a prefill, s, by its tokens and the positions before them.
    round_tokens, round_kv : int
        Lookups round up to these multiples, as kernels that work on tiles do; 1 for none.
    batching : float
        What several sequences in one attention kernel cost on top, as a share.
    name : str
        Where the tables come from.
    """

    tokens: Floats
    compute: Floats
    decode: Grid
    prefill: Grid
    round_tokens: int = 8
    round_kv: int = 64
    batching: float = 0.1
    name: str = "measured"
    _compute: Grid = field(init=False, repr=False)

    def __post_init__(self) -> None:
        integer("MeasuredCost.round_tokens", self.round_tokens)
        integer("MeasuredCost.round_kv", self.round_kv)
        non_negative("MeasuredCost.batching", self.batching)
        object.__setattr__(self, "_compute", line(self.tokens, self.compute))

    @classmethod
    def from_csv(
        cls,
        compute: str | PathLike[str],
        attn_decode: str | PathLike[str],
        attn_prefill: str | PathLike[str],
        layers: int,
        **options: float,
    ) -> MeasuredCost:
        """Read Vidur's three tables of milliseconds per layer.

        Parameters
        ----------
        compute : path
            ``num_tokens`` and any number of columns of times (ms for one layer), which are added up.
        attn_decode : path
            ``batch_size, kv_len_tokens, attn_decode_ms``.
        attn_prefill : path
            ``prefill_chunk_tokens, kv_len_before_tokens, attn_prefill_ms``.
        layers : int
            Layers of the model.
        **options
            `round_tokens`, `round_kv`, `batching`.

        Raises
        ------
        ValueError
            If a column or a pair of the grid is missing, or a time is not a finite number of at least 0.
        """
        scale = integer("layers", layers) * 1e-3
        table = pd.read_csv(compute)
        if "num_tokens" not in table or len(table.columns) < 2:
            raise ValueError(f"compute = {str(compute)!r}: a column num_tokens and others with times (ms) are needed")
        table = table.sort_values("num_tokens")
        decode = Grid.from_table(pd.read_csv(attn_decode), "batch_size", "kv_len_tokens", "attn_decode_ms", scale)
        prefill = Grid.from_table(
            pd.read_csv(attn_prefill), "prefill_chunk_tokens", "kv_len_before_tokens", "attn_prefill_ms", scale
        )
        times = table.drop(columns="num_tokens").sum(axis=1, skipna=False).to_numpy() * scale
        return cls(table["num_tokens"].to_numpy(), times, decode, prefill, name=str(compute), **options)  # type: ignore[arg-type]

    def compute_times(self, new: ArrayLike) -> Floats:
        """Return the times of all that depends on the number of new tokens alone, in s."""
        new = _up(new, self.round_tokens)
        return self._compute(new, np.zeros_like(new))

    def decode_attention(self, n_decode: ArrayLike, kv: ArrayLike) -> Floats:
        """Return the attention times (s) of `n_decode` sequences that hold `kv` positions together."""
        n_decode, kv = np.asarray(n_decode), np.asarray(kv)
        mean = _up(np.floor(kv / n_decode), self.round_kv)
        return self.decode(n_decode, mean) * np.where(n_decode > 1, 1 + self.batching, 1.0)

    def prefill_attention(self, works: Sequence[SeqWork]) -> float:
        """Return the attention time (s) of the prefills of one step."""
        if not works:
            return 0.0
        past = sum(-(-work.past // self.round_kv) for work in works) * self.round_kv
        chunk = round(math.sqrt(sum(work.new**2 for work in works)))
        return self.prefill.at(chunk, past) * (1 + self.batching if len(works) > 1 else 1.0)

    def step_time(self, shape: StepShape) -> float:
        """Return the duration of a step in seconds."""
        tokens = -(-shape.new // self.round_tokens) * self.round_tokens
        time = self._compute.at(tokens, 0.0) + self.prefill_attention(shape.prefill)
        if shape.n_decode:
            mean = -(-(shape.decode_kv // shape.n_decode) // self.round_kv) * self.round_kv
            time += self.decode.at(shape.n_decode, mean) * (1 + self.batching if shape.n_decode > 1 else 1.0)
        return time

    def decode_times(self, n_decode: ArrayLike, kv: ArrayLike) -> Floats:
        """Return the durations of decode-only steps (s), for arrays of batch sizes and summed positions."""
        n_decode = np.asarray(n_decode)
        alike = n_decode.ndim == 1 and len(n_decode) and (n_decode == n_decode[0]).all()
        return self.compute_times(n_decode[0] if alike else n_decode) + self.decode_attention(n_decode, kv)

    def compiled_form(self) -> CompiledCost:
        """Return the tables for a compiled loop."""
        compute, decode, prefill = (
            (grid.rows, grid.columns, grid.values) for grid in (self._compute, self.decode, self.prefill)
        )
        return measured_form(compute, decode, prefill, self.round_tokens, self.round_kv, self.batching)


def bundled(model: ModelSpec, gpu: GPUSpec) -> MeasuredCost:
    """Return the cost model for ``cost="measured"``.

    Raises
    ------
    ValueError
        If no tables are at hand for this model on this GPU.
    """
    if (model.name, gpu.name) not in BUNDLED:
        known = ", ".join(f"{m} on {g}" for m, g in BUNDLED)
        raise ValueError(
            f"cost = 'measured': there are no measured kernels for model = {model.name!r} on gpu = {gpu.name!r}, "
            f"only for {known}; tables of your own, read with labcode.cost.MeasuredCost.from_csv, serve as cost"
        )
    return a100_llama3_8b()


def samples(name: str) -> pd.DataFrame:
    """Return one of the small tables in ``labcode/cost/data`` (see ``labcode/cost/data/NOTICE``)."""
    with (files("labcode.cost") / "data" / f"{name}.csv").open() as file:
        return pd.read_csv(file)


def knots(x: ArrayLike, y: ArrayLike, at: ArrayLike) -> Floats:
    """Return the values at the knots `at` of the broken line that is nearest to the points (x, y), relatively.

    Least squares of the relative error, in the basis of hat functions; the knots must lie among the points.
    """
    x, y, at = (np.asarray(values, dtype=float) for values in (x, y, at))
    hats = np.stack([np.interp(x, at, row) for row in np.eye(len(at))], axis=1)
    return np.linalg.lstsq(hats / y[:, None], np.ones_like(y), rcond=None)[0]


#: Knots of the broken lines through the attention samples: cached tokens of a decode step, tokens of a prompt.
DECODE_KNOTS = (1024, 4096, 16384, 65536, 262144, 524288)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
LENGTHS = (64, 256, 1024, 2048, 4096, 8192)


@cache
def a100_llama3_8b(cache_writes: bool = True) -> MeasuredCost:
    """Return the cost of Llama-3-8B on an A100 80 GB from the kernels that Vidur's authors measured (fp16, FlashInfer).

    The measured decodes lie scattered over batch sizes and lengths; over all of them the time follows the *product*
    of the two, the tokens read from the cache, which is what a broken line is laid through.  A prefill on top of
    cached positions was measured for some sizes of chunk only; here it costs as much as a prompt with as many
    query-key pairs, which those samples bear out (up to chunks far from the start of a very long prompt).

    Parameters
    ----------
    cache_writes : bool
        Count the kernel that writes keys and values into the cache.  As measured it takes hundreds of times as long
        as its bytes need, which says more about that kernel than about the GPU; Vidur counts it.
    """
    linear = samples("a100_llama3_8b_linear")
    scale = 32e-3
    decode = samples("a100_llama3_8b_attn_decode")
    read = decode["batch_size"] * decode["kv_len_tokens"]
    heights = knots(read, decode["attn_decode_ms_per_layer"], DECODE_KNOTS)
    on_line = line(DECODE_KNOTS, heights)
    cells = np.multiply.outer(BATCHES, LENGTHS)
    prefill = samples("a100_llama3_8b_attn_prefill")
    alone = prefill[prefill["kv_len_before_tokens"] == 0].sort_values("prefill_chunk_tokens")
    chunks = alone["prefill_chunk_tokens"].to_numpy(dtype=float)
    pairs = chunks * (chunks + 1) / 2
    pasts = np.array([0.0, 512, 1024, 2048, 4096, 8192, 16384])
    by_pairs = line(pairs, alone["attn_prefill_ms_per_layer"])
    with_past = by_pairs(pairs[:, None] + np.multiply.outer(chunks, pasts), np.zeros((len(chunks), len(pasts))))
    tokens = linear["num_tokens"].to_numpy()
    saved = samples("a100_llama3_8b_kv_save").to_numpy().T
    save = line(*saved)(tokens, np.zeros(len(tokens))) * cache_writes
    return MeasuredCost(
        tokens, (linear["linear_ms"] + linear["pointwise_ms"] + save).to_numpy() * scale,
        Grid(np.array(BATCHES), np.array(LENGTHS), on_line(cells, np.zeros(cells.shape)) * scale),
        Grid(chunks, pasts, with_past * scale),
        round_kv=1, batching=0.0, name="a100_llama3_8b",
    )  # fmt: skip
