"""A table of cells that knows where each row came from, so that a bad value is named by its line."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode.workload.clock import check_resolution
from labcode.workload.request import FloatArray, IntArray


@dataclass(frozen=True)
class Table:
    """Cells by column, as text or numbers.

    Attributes
    ----------
    name : str
        Name of the file or argument, for messages.
    columns : dict of str to sequence
        Cells; all columns have the same length.
    lines : sequence of int
        Line of the file (from 1), or row of the frame (from 0), of each row.
    unit : str
        What `lines` counts: "line" or "row".
    """

    name: str
    columns: dict[str, Sequence[Any]]
    lines: Sequence[int]
    unit: str = "line"

    def __len__(self) -> int:
        return len(self.lines)

    def where(self, row: int) -> str:
        """Return where a row came from, in words."""
        return f"{self.name}, {self.unit} {self.lines[row]}"

    def require(self, names: Iterable[str]) -> None:
        """Raise a `ValueError` that lists the columns of `names` that are not there."""
        missing = [name for name in names if name not in self.columns]
        if missing:
            raise ValueError(f"{self.name}: column {', '.join(missing)} missing; there are {', '.join(self.columns)}")

    def refuse(self, column: str, bad: NDArray[np.bool_], allowed: str) -> None:
        """Raise a `ValueError` that names the first row marked in `bad`, if there is one."""
        rows = np.flatnonzero(bad)
        if len(rows):
            row = int(rows[0])
            raise ValueError(f"{self.where(row)}: {column} = {self.columns[column][row]!s}: {allowed}")

    def numbers(self, column: str, blank: float | None = None) -> FloatArray:
        """Return a column as float64; empty cells become `blank` where that is given."""
        cells = self.columns[column]
        if blank is not None:
            cells = [blank if is_blank(cell) else cell for cell in cells]
        try:
            return np.array(cells, dtype=np.float64)
        except (TypeError, ValueError):
            self.refuse(column, np.array([not is_number(cell) for cell in cells]), "a number is needed")
            raise

    def tokens(self, column: str, at_least: int = 1) -> IntArray:
        """Return a column of whole numbers of at least `at_least` as int64."""
        values = self.numbers(column)
        with np.errstate(invalid="ignore"):
            whole = np.isfinite(values) & (values == np.floor(values)) & (np.abs(values) < 2**53)
        self.refuse(column, ~whole, "a whole number is needed")
        self.refuse(column, values < at_least, f"must be at least {at_least}")
        return values.astype(np.int64)

    def times(self, column: str, per_second: float = 1.0, blank: float | None = None) -> FloatArray:
        """Return a column of times in seconds, each finite and at least 0 (or `blank` where empty).

        The cells hold units of which `per_second` make a second.
        """
        values = self.numbers(column, blank) / per_second
        missing = np.array([blank is not None and is_blank(cell) for cell in self.columns[column]], dtype=bool)
        self.refuse(column, ~np.isfinite(values) & ~missing, "a finite time is needed")
        self.refuse(column, values < 0, "must not be negative")
        return values

    def ordered(self, column: str, values: FloatArray) -> FloatArray:
        """Return `values` if none is smaller than the one before."""
        self.refuse(column, np.append(False, np.diff(values) < 0), "earlier than the line before")
        return values

    def timestamps(self, column: str) -> FloatArray:
        """Return a column of dates with time of day, or of plain seconds, as seconds since the first row.

        A plain number is a number of seconds wherever it stands, never a year.
        """
        plain = np.array([is_number(cell) for cell in self.columns[column]], dtype=bool)
        if plain.all():
            values = self.ordered(column, self.times(column))
            check_resolution(f"{self.name}: {column}", float(values[-1]))
            return values - values[0]
        if plain[0]:
            self.refuse(column, ~plain, "a number of seconds is needed, as in the first row")
        self.refuse(column, plain, "a date and time is needed, as in the first row")
        cells = [str(cell).strip().removesuffix("Z").removesuffix("+00:00") for cell in self.columns[column]]
        try:
            stamps = np.array(cells, dtype="datetime64[ns]")
        except ValueError:
            bad = np.array([not is_timestamp(cell) for cell in cells])
            self.refuse(column, bad, "a date and time is needed")
            raise
        self.refuse(column, np.isnat(stamps), "a date and time is needed")
        return self.ordered(column, (stamps - stamps[0]) / np.timedelta64(1, "ns") * 1e-9)

    def text(self, column: str) -> list[str]:
        """Return a column as stripped text; empty cells become ""."""
        return ["" if is_blank(cell) else str(cell).strip() for cell in self.columns[column]]


def is_blank(cell: Any) -> bool:
    """Say whether a cell is empty: None, NaN or white space."""
    return cell is None or (isinstance(cell, float) and math.isnan(cell)) or not str(cell).strip()


def is_number(cell: Any) -> bool:
    """Say whether Python reads `cell` as a number."""
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True


def is_timestamp(cell: str) -> bool:
    """Say whether numpy reads `cell` as a date and time."""
    try:
        np.datetime64(cell, "ns")
    except ValueError:
        return False
    return True


def read_text(path: Path) -> str:
    """Return the text of a file, its line ends untouched; raise a `ValueError` if it is not UTF-8, or empty.

    A byte order mark is taken off.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name}: not text in UTF-8 ({error.reason} at byte {error.start})") from None
    if not text.strip():
        raise ValueError(f"{path.name}: the file is empty")
    return text


def csv_table(name: str, text: str) -> Table:
    """Return the cells of a CSV with a header; blank lines are skipped.

    Lines end at ``\\n`` and ``\\r\\n`` only. A quoted cell may hold line breaks, and keeps them; a row is then known by
    the first of its lines.

    Raises
    ------
    ValueError
        If a name stands twice in the header, a line has more or fewer fields than the header, a quote does not end,
        or a carriage return stands alone outside quotes.
    """
    # newline="\n" leaves every other character in its cell, where splitlines() would end a line at ten of them.
    reader = csv.reader(io.StringIO(text, newline="\n"), strict=True)
    header: list[str] = []
    rows: list[Sequence[str]] = []
    lines: list[int] = []
    line = 1
    try:
        for row in reader:
            if not any(cell.strip() for cell in row):
                pass
            elif not header:
                header = [cell.strip() for cell in row]
                twice = sorted({cell for cell in header if header.count(cell) > 1})
                if twice:
                    raise ValueError(f"{name}: column {', '.join(twice)} appears twice in the header")
            elif len(row) != len(header):
                raise ValueError(f"{name}, line {line}: {len(row)} fields, the header has {len(header)}")
            else:
                rows.append(row)
                lines.append(line)
            line = reader.line_num + 1
    except csv.Error as error:
        lone = "a carriage return alone, outside quotes, ends no line and stands in no cell"
        raise ValueError(f"{name}, line {line}: {lone if 'new-line' in str(error) else error}") from None
    cells: list[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [()] * len(header)
    return Table(name, dict(zip(header, cells, strict=True)), lines)


def text_lines(text: str) -> list[str]:
    """Return the lines of a text, which end at ``\\n`` and ``\\r\\n`` only."""
    return [line.removesuffix("\r") for line in text.split("\n")]


def frame_table(name: str, frame: pd.DataFrame) -> Table:
    """Return the cells of a data frame; rows are counted from 0."""
    columns: dict[str, Sequence[Any]] = {str(key): frame[key].tolist() for key in frame.columns}
    return Table(name, columns, range(len(frame)), "row")
