"""Readers of published trace files: Azure's and BurstGPT's CSV, Mooncake's JSON lines, and a plain CSV of one's own.

The formats (a header names the columns of a CSV; further columns are ignored):

=========  =============================================  ====================================================
format     columns or keys                                time
=========  =============================================  ====================================================
azure      TIMESTAMP, ContextTokens, GeneratedTokens      date and time of day, or seconds; from the first row
burstgpt   Timestamp, Request tokens, Response tokens     seconds, whole ones; from the first row
mooncake   timestamp, input_length, output_length         milliseconds; JSON lines, or the same as a CSV; optional:
                                                          hash_ids, of the prompt's blocks of 512 tokens
plain      arrival_s, prompt_tokens, output_tokens        seconds; optional: max_tokens, tenant, deadline_s
=========  =============================================  ====================================================

Files are UTF-8, with or without a byte order mark.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labcode.checks import one_of
from labcode.workload.request import Workload
from labcode.workload.table import Table, csv_table, is_blank, read_text, text_lines

COLUMNS = {
    "azure": ("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    "burstgpt": ("Timestamp", "Request tokens", "Response tokens"),
    "mooncake": ("timestamp", "input_length", "output_length"),
    "plain": ("arrival_s", "prompt_tokens", "output_tokens"),
}


def from_file(path: str | Path, format: str | None = None) -> Workload:
    """Return the requests of a trace file.

    Parameters
    ----------
    path : str or pathlib.Path
        The file.
    format : "azure", "burstgpt", "mooncake", "plain" or None
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
    text = read_text(path)
    if text.lstrip().startswith("{"):
        if format not in (None, "mooncake"):
            raise ValueError(f"{path.name}: JSON lines, but format = {format!r} is a CSV")
        return mooncake(json_lines(path.name, text), path.stem)
    table = csv_table(path.name, text)
    known = format or recognise(table)
    table.require(COLUMNS[known])
    if not len(table):
        raise ValueError(f"{path.name}: the file has a header but no requests")
    readers: dict[str, Callable[[Table, str], Workload]] = {
        "azure": azure,
        "burstgpt": burstgpt,
        "mooncake": mooncake,
        "plain": plain,
    }
    return readers[known](table, path.stem)


def sample_trace() -> Path:
    """Return the path of a small trace that comes with labcode: 400 rows of Azure's conversations of November 2023.

    From AzurePublicDataset (Patel et al., 2024), CC-BY-4.0.  The whole file is `download`'s.
    """
    return Path(__file__).parent / "data" / "azure_conv_400.csv"


def recognise(table: Table) -> str:
    """Return the format whose columns the header holds most of."""
    found = {known: sum(name in table.columns for name in names) for known, names in COLUMNS.items()}
    best = max(found, key=lambda known: found[known])
    if found[best] == 0:
        listed = "; ".join(f"{known}: {', '.join(names)}" for known, names in COLUMNS.items())
        shown = ", ".join(table.columns)[:80]
        raise ValueError(f"{table.name}: unknown format, the header is {shown!r}. Known columns: {listed}")
    return best


def json_lines(name: str, text: str) -> Table:
    """Return the cells of a Mooncake file, one JSON object a line."""
    columns: dict[str, list[Any]] = {key: [] for key in COLUMNS["mooncake"]}
    hashes: list[Any] = []
    lines: list[int] = []
    for number, line in enumerate(text_lines(text), start=1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{name}, line {number}: not JSON ({error.msg})") from None
        if not isinstance(item, dict):
            raise ValueError(f"{name}, line {number}: a JSON object is needed, not {type(item).__name__}")
        missing = [key for key in columns if key not in item]
        if missing:
            raise ValueError(f"{name}, line {number}: {', '.join(missing)} missing")
        for key, cells in columns.items():
            cells.append(str(item[key]))
        hashes.append(item.get("hash_ids"))
        lines.append(number)
    if any(cell is not None for cell in hashes):
        columns["hash_ids"] = hashes
    return Table(name, dict(columns), lines)


def azure(table: Table, name: str) -> Workload:
    """Return the workload of an Azure LLM inference trace."""
    time, prompt, output = COLUMNS["azure"]
    return Workload(table.timestamps(time), table.tokens(prompt), table.tokens(output), name=name)


def burstgpt(table: Table, name: str) -> Workload:
    """Return the workload of a BurstGPT trace (Wang et al., 2025).

    Its files ``BurstGPT_*.csv`` hold failures, with a response of no tokens: nobody knows how long they would have
    been, so such a row is refused; ``BurstGPT_without_fails_*.csv`` leave them out. Model and Log Type are not read.
    """
    time, prompt, output = COLUMNS["burstgpt"]
    failed = table.tokens(output, at_least=0) == 0
    table.refuse(output, failed, "a request that failed; take the publisher's file without fails, or drop such lines")
    return Workload(table.timestamps(time), table.tokens(prompt), table.tokens(output), name=name)


def mooncake(table: Table, name: str) -> Workload:
    """Return the workload of a Mooncake trace (times in milliseconds, hashes of blocks of 512 tokens)."""
    time, prompt, output = COLUMNS["mooncake"]
    arrival = table.ordered(time, table.times(time, per_second=1000))
    prefix = block_hashes(table, "hash_ids") if "hash_ids" in table.columns else None
    return Workload(arrival, table.tokens(prompt), table.tokens(output), name=name, prefix=prefix)


def block_hashes(table: Table, column: str) -> NDArray[np.object_]:
    """Return a column of lists of whole numbers, as in ``[0, 14, 15]``, as tuples; an empty cell is ()."""
    found = np.empty(len(table), dtype=object)
    bad = np.zeros(len(table), dtype=bool)
    for row, cell in enumerate(table.columns[column]):
        try:
            values = [] if is_blank(cell) else cell if isinstance(cell, list) else json.loads(cell)
            whole = isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)
        except (TypeError, ValueError):
            whole = False
        bad[row] = not whole
        found[row] = tuple(values) if whole else ()
    table.refuse(column, bad, "a list of whole numbers is needed, as in [0, 14, 15]")
    return found


def plain(table: Table, name: str) -> Workload:
    """Return the workload of a CSV with arrival_s, prompt_tokens, output_tokens and perhaps more."""
    time, prompt, output = COLUMNS["plain"]
    arrival = table.ordered(time, table.times(time))
    caps = table.tokens("max_tokens") if "max_tokens" in table.columns else None
    tenants = np.array(table.text("tenant")) if "tenant" in table.columns else None
    deadlines = table.times("deadline_s", blank=float("nan")) if "deadline_s" in table.columns else None
    return Workload(arrival, table.tokens(prompt), table.tokens(output), caps, tenants, deadlines, name)
