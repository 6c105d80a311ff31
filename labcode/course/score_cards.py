"""A folder of the capstone's score cards as one table, for whoever collects them."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

#: What a card must have: the keys that `Card.save` writes and this table reads.
NEEDED = ("name", "beats_fcfs", "violation", "scores")


def row(card: dict[str, Any]) -> dict[str, Any]:
    """Return a card as one row: goodput against first come, first served by workload, and the worst of the rest.

    Raises
    ------
    ValueError
        If something that a card has is missing (what).
    """
    missing = [key for key in NEEDED if key not in card]
    if missing:
        raise ValueError(f"no score card: {missing[0]!r} is missing")
    found: dict[str, Any] = {"name": str(card["name"]), "beats FCFS": bool(card["beats_fcfs"])}
    mine = []
    for load, each in card["scores"].items():
        own, base = each[card["name"]], each["fcfs"]
        found[f"goodput, {load} (FCFS = 1)"] = own["goodput"] / base["goodput"] if base["goodput"] else math.nan
        mine.append(own)
    if mine:
        waits = [math.inf if own["ttft_p99"] is None else own["ttft_p99"] for own in mine]
        found["longest P99 TTFT (s)"] = max(waits)
        found["worst tenant"] = min(own["worst_tenant"] for own in mine)
        found["wasted tokens"] = sum(own["wasted"] for own in mine)
    found["what was wrong"] = str(card["violation"]).split("\n")[0]
    return found


def collect(folder: str | Path) -> pd.DataFrame:
    """Return a row a card of a folder (and its subfolders), the best first; what cannot be read says so in its row.

    Cards with the best goodput on their worst workload come first; those that were not scored come last.

    Raises
    ------
    ValueError
        If there is no such folder, or no ``*.json`` in it.
    """
    place = Path(folder)
    files = sorted(place.rglob("*.json")) if place.is_dir() else []
    if not files:
        raise ValueError(f"folder = {str(folder)!r}: no score card (*.json) is there")
    rows = {}
    for file in files:
        try:
            found = row(json.loads(file.read_text(encoding="utf-8")))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            found = {"name": "", "beats FCFS": False, "what was wrong": f"cannot be read: {error}"}
        rows[str(file.relative_to(place))] = found
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("card")
    gains = [name for name in table.columns if name.startswith("goodput")]
    least = table[gains].min(axis=1) if gains else pd.Series(math.nan, table.index)
    last = [name for name in table.columns if name != "what was wrong"] + ["what was wrong"]
    return table.loc[least.sort_values(ascending=False, na_position="last", kind="stable").index, last]


def main(arguments: Sequence[str]) -> int:
    """Print the table of a folder; return 0, or 2 if there is nothing to show."""
    parser = argparse.ArgumentParser("python -m labcode.course.capstone", description="One table of many score cards.")
    parser.add_argument("folder", help="where the cards are (*.json, subfolders too)")
    parser.add_argument("--csv", action="store_true", help="comma-separated, for a spreadsheet")
    given = parser.parse_args(arguments)
    try:
        table = collect(given.folder)
    except ValueError as error:
        print(error)
        return 2
    with pd.option_context("display.width", 250, "display.max_columns", None, "display.max_colwidth", 60):
        print(table.to_csv() if given.csv else table.round(2).to_string())
    return 0
