"""Write the numbers of the chapters into their text, or check that those there are the ones that the code gives.

``python -m tools.numbers [--check] [NAME ...]``, for instance ``python -m tools.numbers 03-queueing`` after changing
that chapter or the engine. What the numbers look like in the text is said in `tools.anchors`. Notebooks run only if the
cache of executed ones does not know them. Numbers *measured here* are left alone unless ``--measured`` asks for them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import nbformat
from jupyter_cache import get_cache

from tools.anchors import Anchor, cells_with_anchors, fill, source, values_at
from tools.execute import cached_values, run_all
from tools.fingerprint import cache_path
from tools.sentences import sentence_at
from tools.typed_numbers import typed_numbers

ROOT = Path(__file__).resolve().parent.parent


def renew(notebook: Any, values: dict[str, str], measured: bool = False) -> list[tuple[str, str, Anchor, str, str]]:
    """Fill the numbers of `notebook` in place.

    Returns
    -------
    list of (str, str, Anchor, str, str)
        For each change: the cell's id, the sentence with the old number, the anchor, the old and the new number.
    """
    changes = []
    for before, cell, _ in cells_with_anchors(notebook):
        text = source(cell)
        new, changed = fill(text, values_at(before, values), only_measured=measured)
        changes += [(cell["id"], sentence_at(text, a.at), a, old, now) for a, old, now in changed]
        cell["source"] = new
    return changes


def page_source(text: str, values: dict[str, str]) -> str:
    """Return a notebook file's text with its measured numbers from the run that gave `values`."""
    notebook = nbformat.reads(text, as_version=4)
    renew(notebook, values, measured=True)
    return nbformat.writes(notebook)


def chapters(names: list[str], root: Path = ROOT) -> list[Path]:
    """Return the notebooks with these names (all if none is given), sorted.

    Raises
    ------
    ValueError
        If there is no such notebook.
    """
    every = {path.stem: path for path in sorted((root / "book").glob("*.ipynb"))}
    unknown = [name for name in names if Path(name).stem not in every]
    if unknown:
        raise ValueError(f"no notebook of this name: {', '.join(unknown)}; there are {', '.join(every)}")
    return [every[Path(name).stem] for name in names] or list(every.values())


def stale(path: Path, cache: Any) -> list[str]:
    """Return a sentence for each number of an executed notebook that is not the one its code gives."""
    notebook = nbformat.read(path, as_version=4)
    values = cached_values(notebook, cache)
    assert values is not None, f"{path} has not been run"
    return [
        f"{path.name}, cell {cell}: {old} should be {new} ({anchor.expression}) in: {text}"
        for cell, text, anchor, old, new in renew(notebook, values)
    ]


def typed(path: Path) -> list[str]:
    """Return a sentence for each typed number where a computed one belongs."""
    notebook = nbformat.read(path, as_version=4)
    found = typed_numbers(notebook)
    return [f"{path.name}, cell {cell}: {number} has no anchor in: {text}" for cell, number, text in found]


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.numbers", description=__doc__)
    parser.add_argument("names", nargs="*", help="notebooks, such as 03-queueing; all if none is given")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a number is stale or typed")
    parser.add_argument("--measured", action="store_true", help="also renew the numbers measured on this machine")
    parser.add_argument("--workers", type=int, default=2, help="notebooks that run at a time (2)")
    options = parser.parse_args(arguments)
    paths, folder = chapters(options.names, root), cache_path(root)
    failures = run_all(paths, folder, max(1, options.workers))
    for line in failures:
        print(line, file=sys.stderr)
    cache, wrong = get_cache(str(folder)), []
    for path in paths:
        if cached_values(nbformat.read(path, as_version=4), cache) is None:
            continue  # it failed, as said above
        if options.check:
            wrong += stale(path, cache)
        else:
            notebook = nbformat.read(path, as_version=4)
            values = cached_values(notebook, cache) or {}
            changes = renew(notebook, values)
            changes += renew(notebook, values, measured=True) if options.measured else []
            for cell, text, _, old, new in changes:
                print(f"{path.name}, cell {cell}: {old} -> {new} in: {text}")
            if changes:
                nbformat.write(notebook, path)
        wrong += typed(path)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong or failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
