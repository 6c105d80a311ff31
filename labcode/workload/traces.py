"""Readers of published trace files: Azure's CSV, Mooncake's JSON lines, and a plain CSV of one's own.

The formats (a header names the columns of a CSV; further columns are ignored):

=========  =============================================  ====================================================
format     columns or keys                                time
=========  =============================================  ====================================================
azure      TIMESTAMP, ContextTokens, GeneratedTokens      date and time of day; counted from the first row
mooncake   timestamp, input_length, output_length         milliseconds; JSON lines, or the same as a CSV
plain      arrival_s, prompt_tokens, output_tokens        seconds; optional: max_tokens, tenant, deadline_s
=========  =============================================  ====================================================
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labcode.checks import one_of
from labcode.workload.request import FloatArray, Workload

COLUMNS = {
    "azure": ("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    "mooncake": ("timestamp", "input_length", "output_length"),
    "plain": ("arrival_s", "prompt_tokens", "output_tokens"),
}


@dataclass(frozen=True)
class Table:
    """Cells of a file as text, by column, with the line each row came from (for error messages)."""

    path: Path
    columns: dict[str, list[str]]
    lines: list[int]

    def refuse(self, column: str, bad: NDArray[np.bool_], allowed: str) -> None:
        """Raise a `ValueError` that names the first line marked in `bad`, if there is one."""
        rows = np.flatnonzero(bad)
        if len(rows):
            row = int(rows[0])
            cell = self.columns[column][row]
            raise ValueError(f"{self.path.name}, line {self.lines[row]}: {column} = {cell!r}: {allowed}")

    def numbers(self, column: str, blank: float | None = None) -> FloatArray:
        """Return a column as float64; empty cells become `blank` where that is given."""
        cells = self.columns[column]
        if blank is not None:
            cells = [cell if cell.strip() else str(blank) for cell in cells]
        try:
            return np.array(cells, dtype=np.float64)
        except ValueError:
            self.refuse(column, np.array([not is_number(cell) for cell in cells]), "a number is needed")
            raise

    def tokens(self, column: str) -> NDArray[np.int64]:
        """Return a column of whole numbers of at least 1 as int64."""
        values = self.numbers(column)
        whole = np.isfinite(values) & (values == np.floor(values)) & (np.abs(values) < 2**53)
        self.refuse(column, ~whole, "a whole number of tokens is needed")
        self.refuse(column, values < 1, "must be at least 1")
        return values.astype(np.int64)

    def seconds(self, column: str, scale: float = 1.0) -> FloatArray:
        """Return a column of times that start at 0 or later and never go back, in seconds."""
        values = self.numbers(column) * scale
        self.refuse(column, ~np.isfinite(values), "a finite time is needed")
        return self.forward(column, values)

    def forward(self, column: str, values: FloatArray) -> FloatArray:
        """Return `values` if none is negative or smaller than the one before."""
        self.refuse(column, values < 0, "must not be negative")
        self.refuse(column, np.append(False, np.diff(values) < 0), "earlier than the line before")
        return values

    def timestamps(self, column: str) -> FloatArray:
        """Return a column of dates with time of day, as seconds since the first row."""
        cells = [cell.strip().rstrip("Z").removesuffix("+00:00") for cell in self.columns[column]]
        try:
            times = np.array(cells, dtype="datetime64[ns]")
        except ValueError:
            self.refuse(
                column, np.array([not is_timestamp(cell) for cell in cells]), "a date and time is needed"
            )
            raise
        self.refuse(column, np.isnat(times), "a date and time is needed")
        values = (times - times[0]) / np.timedelta64(1, "ns") * 1e-9
        self.refuse(column, np.append(False, np.diff(values) < 0), "earlier than the line before")
        return values


def is_number(cell: str) -> bool:
    """Say whether Python reads `cell` as a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def is_timestamp(cell: str) -> bool:
    """Say whether numpy reads `cell` as a date and time."""
    try:
        np.datetime64(cell, "ns")
    except ValueError:
        return False
    return True


def from_file(path: str | Path, format: str | None = None) -> Workload:
    """Return the requests of a trace file.

    Parameters
    ----------
    path : str or pathlib.Path
        The file.
    format : "azure", "mooncake", "plain" or None
        See the top of this module; None recognises the format by the header or the first JSON line.

    Returns
    -------
    Workload
        Arrivals in seconds; the name is the file's.

    Raises
    ------
    ValueError
        If the file is empty, of no known format, lacks a column, or holds a value that cannot be read or
        that no request can have. Column and line are named.
    OSError
        If the file cannot be opened.
    """
    if format is not None:
        one_of("format", format, COLUMNS)
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path.name}: not a text file in UTF-8 ({error.reason} at byte {error.start})"
        ) from None
    if not text.strip():
        raise ValueError(f"{path.name}: the file is empty")
    if text.lstrip().startswith("{"):
        if format not in (None, "mooncake"):
            raise ValueError(f"{path.name}: JSON lines, but format = {format!r} is a CSV")
        return mooncake(json_lines(path, text))
    table = csv_table(path, text)
    known = format or recognise(path, list(table.columns))
    require(path, known, list(table.columns))
    if not table.lines:
        raise ValueError(f"{path.name}: the file has a header but no requests")
    readers: dict[str, Callable[[Table], Workload]] = {"azure": azure, "mooncake": mooncake, "plain": plain}
    return readers[known](table)


def recognise(path: Path, header: Sequence[str]) -> str:
    """Return the format whose columns the header holds most of."""
    found = {known: sum(name in header for name in names) for known, names in COLUMNS.items()}
    best = max(found, key=lambda known: found[known])
    if found[best] == 0:
        listed = "; ".join(f"{known}: {', '.join(names)}" for known, names in COLUMNS.items())
        shown = ", ".join(header)[:80]
        raise ValueError(
            f"{path.name}: unknown format, the first line is {shown!r}. Known columns are {listed}"
        )
    return best


def require(path: Path, known: str, header: Sequence[str]) -> None:
    """Raise a `ValueError` that lists the columns that the header lacks."""
    missing = [name for name in COLUMNS[known] if name not in header]
    if missing:
        raise ValueError(
            f"{path.name}: column {', '.join(missing)} missing for the {known} format; "
            f"the header has {', '.join(header)}"
        )


def csv_table(path: Path, text: str) -> Table:
    """Return the cells of a CSV with a header; blank lines are skipped."""
    reader = csv.reader(text.splitlines())
    header: list[str] = []
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            if not header:
                header = [name.strip() for name in row]
                twice = {name for name in header if header.count(name) > 1}
                if twice:
                    raise ValueError(
                        f"{path.name}: column {', '.join(sorted(twice))} appears twice in the header"
                    )
            elif len(row) != len(header):
                raise ValueError(
                    f"{path.name}, line {reader.line_num}: {len(row)} fields, the header has {len(header)}"
                )
            else:
                rows.append(row)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise ValueError(f"{path.name}, line {reader.line_num}: {error}") from None
    cells = list(zip(*rows, strict=True)) or [()] * len(header)
    return Table(path, {name: list(column) for name, column in zip(header, cells, strict=True)}, lines)


def json_lines(path: Path, text: str) -> Table:
    """Return the cells of a Mooncake file, one JSON object a line."""
    columns: dict[str, list[str]] = {name: [] for name in COLUMNS["mooncake"]}
    lines: list[int] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path.name}, line {number}: not JSON ({error.msg})") from None
        if not isinstance(item, dict):
            raise ValueError(
                f"{path.name}, line {number}: a JSON object is needed, not {type(item).__name__}"
            )
        for name, cells in columns.items():
            if name not in item:
                raise ValueError(f"{path.name}, line {number}: {name} missing")
            cells.append(str(item[name]))
        lines.append(number)
    return Table(path, columns, lines)


def azure(table: Table) -> Workload:
    """Return the workload of an Azure LLM inference trace."""
    time, prompt, output = COLUMNS["azure"]
    return Workload(table.timestamps(time), table.tokens(prompt), table.tokens(output), name=table.path.stem)


def mooncake(table: Table) -> Workload:
    """Return the workload of a Mooncake trace (times in milliseconds; prefix blocks are not used)."""
    time, prompt, output = COLUMNS["mooncake"]
    return Workload(
        table.seconds(time, 1e-3), table.tokens(prompt), table.tokens(output), name=table.path.stem
    )


def plain(table: Table) -> Workload:
    """Return the workload of a CSV with arrival_s, prompt_tokens, output_tokens and perhaps more."""
    time, prompt, output = COLUMNS["plain"]
    caps = table.tokens("max_tokens") if "max_tokens" in table.columns else None
    tenants = np.array(table.columns["tenant"]) if "tenant" in table.columns else None
    deadlines = table.numbers("deadline_s", blank=float("nan")) if "deadline_s" in table.columns else None
    return Workload(
        table.seconds(time),
        table.tokens(prompt),
        table.tokens(output),
        caps,
        tenants,
        deadlines,
        table.path.stem,
    )
