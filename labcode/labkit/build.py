"""Compute every state of a lab for the page.

Writes ``OUTDIR/<lab-id>.js`` for each lab and ``OUTDIR/vega-bundle.js`` once. A file whose lab, with all the code
behind it, has not changed is left alone, so a warm build takes a second.
"""

from __future__ import annotations

import gzip
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

from labcode.labkit import digest as digests
from labcode.labkit.lab import Lab, Result
from labcode.labkit.page_data import page_data, script

MAX_COMPRESSED = 200_000  # Bytes, gzip, per lab.
_HERE = Path(__file__).resolve().parent

_lab: Lab | None = None  # The lab of a worker process, inherited by forking: a lab's functions cannot be pickled.


def lab_digest(lab: Lab) -> str:
    """Return the hash of everything that a lab's data file depends on."""
    module = sys.modules.get(lab.compute.__module__)
    start = Path(module.__file__) if module is not None and module.__file__ else _HERE / "lab.py"
    names = (
        "flow.py",
        "flow_picture.py",
        "page_data.py",
        "render_vega.py",
        "scales.py",
        "swatch.py",
        "theme.py",
        "build.py",
    )
    makers = [_HERE / name for name in names]
    return digests.digest(start, lab.id, *(path.read_text(encoding="utf-8") for path in makers))


def _compute(params: dict[str, Any]) -> Result:
    assert _lab is not None
    try:
        return _lab.run(**params)
    except Exception as error:
        raise RuntimeError(f"Lab {_lab.id!r} at {params!r}: {type(error).__name__}: {error}") from error


def compute_all(lab: Lab, workers: int = 2, progress: bool = False) -> list[Result]:
    """Return the results of `lab.states()`, in order, computed by `workers` processes.

    Raises
    ------
    RuntimeError
        If a state cannot be computed; the message names the lab and the setting.
    """
    global _lab
    _lab = lab
    states = list(lab.states())
    forking = "fork" in multiprocessing.get_all_start_methods()
    if workers > 1 and forking and len(states) > 1:
        chunk = max(1, min(16, len(states) // (4 * workers)))
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork")) as pool:
            return list(_counted(pool.map(_compute, states, chunksize=chunk), lab, progress))
    return list(_counted(map(_compute, states), lab, progress))


def _counted(results: Iterator[Result], lab: Lab, progress: bool) -> Iterator[Result]:
    """Pass `results` on, saying now and then how far they are."""
    said = time.monotonic()
    for i, result in enumerate(results, start=1):
        if progress and time.monotonic() - said > 2:
            said = time.monotonic()
            print(f"lab {lab.id}: {i} of {lab.size} states", file=sys.stderr, flush=True)
        yield result


def build_lab(lab: Lab, out: Path, workers: int = 2, progress: bool = False) -> bool:
    """Write the data file of one lab; return whether it had to be computed.

    Raises
    ------
    ValueError
        If the file would exceed 200 kB compressed, or the lab's states do not fit together; the message names the lab.
    """
    path = out / f"{lab.id}.js"
    first_line = f"// {lab_digest(lab)}\n"
    if path.is_file():
        with path.open(encoding="utf-8") as old:
            if old.readline() == first_line:
                return False
    started = time.monotonic()
    text = first_line + script(page_data(lab, compute_all(lab, workers, progress)))
    size = len(gzip.compress(text.encode(), 9))
    if size > MAX_COMPRESSED:
        raise ValueError(
            f"Lab {lab.id!r}: {size} bytes compressed: at most {MAX_COMPRESSED} are allowed; "
            "use fewer values of the controls or fewer points in a series"
        )
    _write(path, text)
    if progress:
        print(
            f"lab {lab.id}: {lab.size} states, {size / 1000:.0f} kB compressed, {time.monotonic() - started:.1f} s",
            file=sys.stderr,
            flush=True,
        )
    return True


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all, so that an interrupted build leaves no half file behind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(f".{os.getpid()}.tmp")
    half.write_text(text, encoding="utf-8")
    half.replace(path)


def build_vega(out: Path) -> bool:
    """Write the chart library's bundle out of the installed vl-convert-python; return whether it was written."""
    path = out / "vega-bundle.js"
    # Of the names that a bundle may export, only vegaEmbed is not empty; the function keeps all others off the page.
    export = "window.labEmbed = vegaEmbed;"
    made_by = f"vl-convert-python {version('vl-convert-python')}, {export}"
    first_line = f"// Vega (BSD-3-Clause, https://vega.github.io), bundled by {made_by}\n"
    if path.is_file():
        with path.open(encoding="utf-8") as old:
            if old.readline() == first_line:
                return False
    import vl_convert  # Only here: a kernel needs no bundle.

    bundle = vl_convert.javascript_bundle(export)
    _write(path, f"{first_line}(function () {{\n{bundle}\n}})();\n")
    return True
