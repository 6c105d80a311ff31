"""Run the notebooks side by side into the cache that myst-nb reads, so that the build itself executes nothing.

Beside a notebook's outputs the cache keeps the numbers of its text (`tools.anchors`), each computed at its place in the
run. A notebook whose code cells and numbers are already in the cache of the present labcode is not run again.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import nbformat
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from traitlets.config import Config

from tools.anchors import Anchor, anchors, wanted

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
PAGE_VIEW = {"LABCODE_LABS": "page"}  # labs leave a picture and a place for the page's script, not widgets
KEEP = 3  # caches of former states of labcode that are kept, so that going back to one is quick


class Reader(NotebookClient):
    """Runs a notebook from top to bottom, and asks at each Markdown cell for the numbers in it.

    A number whose names do not exist yet (an introduction tells what will come out) is asked for after the last cell.
    """

    def __init__(self, notebook: Any, **options: Any) -> None:
        super().__init__(notebook, **options)
        self.values: dict[str, str] = {}
        self.later: list[tuple[int, Any, Anchor]] = []

    async def async_execute_cell(self, cell: Any, cell_index: int, *arguments: Any, **options: Any) -> Any:
        """Run a code cell; evaluate the anchors of a Markdown cell."""
        done = await super().async_execute_cell(cell, cell_index, *arguments, **options)
        if cell.cell_type == "markdown":
            before = sum(other.cell_type == "code" for other in self.nb.cells[:cell_index])
            self.later += await self.compute([(before, cell, anchor) for anchor in anchors(cell.source)])
        if cell_index == len(self.nb.cells) - 1:
            for _, late, anchor in await self.compute(self.later):
                raise ValueError(f"cell {late.get('id')}: <!--{anchor.expression}--> uses a name that no cell makes")
        return done

    async def compute(self, asked: list[tuple[int, Any, Anchor]]) -> list[tuple[int, Any, Anchor]]:
        """Note the values of what can be computed now; return the anchors whose names are not there."""
        if not asked:
            return []
        kernel: Any = self.kc
        expressions = {anchor.key: anchor.key for _, _, anchor in asked}
        reply = await kernel.execute("", silent=True, reply=True, user_expressions=expressions)
        missing = []
        for before, cell, anchor in asked:
            result = reply["content"]["user_expressions"][anchor.key]
            if result["status"] == "ok":
                self.values[f"{before}: {anchor.key}"] = ast.literal_eval(result["data"]["text/plain"])
            elif result["ename"] == "NameError":
                missing.append((before, cell, anchor))
            else:
                why = f"{result['ename']}: {result['evalue']}"
                raise ValueError(f"cell {cell.get('id')}: <!--{anchor.expression}--> cannot be computed: {why}")
        return missing


def run_notebook(path: Path, timeout: float) -> tuple[Any, dict[str, str], float, str]:
    """Run one notebook in its own folder.

    Returns
    -------
    notebook : NotebookNode
        With its outputs.
    values : dict of str to str
        The numbers of its text, by the names of `tools.anchors.wanted`.
    seconds : float
        How long it took.
    error : str
        The traceback, or "".
    """
    notebook = nbformat.read(path, as_version=4)
    os.environ.update(PAGE_VIEW)
    own = str(path.resolve().parent.parent)  # the labcode beside the book, whichever is installed
    others = [other for other in os.environ.get("PYTHONPATH", "").split(os.pathsep) if other not in {"", own}]
    os.environ["PYTHONPATH"] = os.pathsep.join([own, *others])
    for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(threads, "1")  # notebooks run side by side; threads of theirs would fight over the cores
    # A kernel of our own need not warn of eavesdroppers, nor say that the end of the run interrupted it.
    quiet = ["--IPKernelApp.log_level=50"]
    started, error = time.monotonic(), ""
    with tempfile.TemporaryDirectory() as folder:
        reader = Reader(
            notebook,
            timeout=int(timeout),
            resources={"metadata": {"path": str(path.parent)}},
            record_timing=False,
            extra_arguments=quiet,
            config=sockets(folder),
        )
        try:
            reader.execute()
        except (CellExecutionError, ValueError) as raised:
            error = COLOUR.sub("", str(raised))
    return notebook, reader.values, time.monotonic() - started, error


def sockets(folder: str) -> Config:
    """Return settings that let a kernel talk through files in `folder`, where the system can do that.

    Two kernels that start at the same moment can pick the same TCP port.
    """
    return Config() if os.name == "nt" else Config(KernelManager={"transport": "ipc", "ip": f"{folder}/kernel"})


def cached_values(notebook: Any, cache: Any) -> dict[str, str] | None:
    """Return the numbers that `cache` holds for the text of `notebook`; None if it lacks the run or one of them."""
    try:
        values = (cache.match_cache_notebook(notebook).data or {}).get("numbers", {})
    except KeyError:
        return None
    return values if wanted(notebook) <= set(values) else None


def waiting(paths: Iterable[Path], cache: Any) -> list[Path]:
    """Return the notebooks that `cache` does not hold, or not with all numbers of their text."""
    return [path for path in paths if cached_values(nbformat.read(path, as_version=4), cache) is None]


def prune(cache_folder: Path) -> None:
    """Remove all but the newest `KEEP` caches beside `cache_folder`, which stays."""
    others = sorted((p for p in cache_folder.parent.iterdir() if p != cache_folder), key=lambda p: p.stat().st_mtime)
    for old in others[: max(0, len(others) - KEEP + 1)]:
        shutil.rmtree(old, ignore_errors=True)


def run_all(paths: list[Path], cache_folder: Path, workers: int, timeout: float = 600) -> list[str]:
    """Run what `cache_folder` lacks, with `workers` processes; print a line for each.

    Returns
    -------
    list of str
        A message with the traceback for each notebook that failed; empty if all went well.
    """
    cache_folder.mkdir(parents=True, exist_ok=True)
    prune(cache_folder)
    cache = get_cache(str(cache_folder))
    todo = waiting(paths, cache)
    print(f"[book] {len(paths)} notebooks, {len(todo)} to run, {workers} at a time", flush=True)
    if not todo:
        return []
    failures, started = [], time.monotonic()
    with ProcessPoolExecutor(max_workers=workers) as pool:
        running = {pool.submit(run_notebook, path, timeout): path for path in todo}
        for number, future in enumerate(as_completed(running), start=1):
            path = running[future]
            try:
                notebook, values, seconds, error = future.result()
            except Exception as died:  # a kernel that did not start, or ended by itself
                notebook, values = None, {}
                seconds, error = time.monotonic() - started, f"{type(died).__name__}: {died}"
            how = "FAILED" if error else "ran"
            print(f"[book]   {number}/{len(todo)} {path.name}: {how} in {seconds:.1f} s", flush=True)
            if error:
                failures.append(f"{path}:\n{error}")
            else:
                bundle = CacheBundleIn(notebook, str(path), data={"execution_seconds": seconds, "numbers": values})
                cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
    print(f"[book] notebooks: {time.monotonic() - started:.0f} s", flush=True)
    return failures
