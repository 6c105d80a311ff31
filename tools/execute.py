"""Run the notebooks side by side into the cache that myst-nb reads, so that the build itself executes nothing.

A notebook whose code cells are already in the cache of the present labcode is not run again.
"""

from __future__ import annotations

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
from jupyter_cache.executors.utils import single_nb_execution
from traitlets.config import Config

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
PAGE_VIEW = {"LABCODE_LABS": "page"}  # labs leave a picture and a place for the page's script, not widgets
KEEP = 3  # caches of former states of labcode that are kept, so that going back to one is quick


def run_notebook(path: Path, timeout: float) -> tuple[Any, float, str]:
    """Run one notebook in its own folder; return it with outputs, the seconds it took, and the traceback or ""."""
    notebook = nbformat.read(path, as_version=4)
    os.environ.update(PAGE_VIEW)
    quiet = ["--IPKernelApp.log_level=40"]  # a kernel of our own on this machine need not warn of eavesdroppers
    with tempfile.TemporaryDirectory() as folder:
        result = single_nb_execution(
            notebook,
            cwd=str(path.parent),
            timeout=int(timeout),
            allow_errors=False,
            extra_arguments=quiet,
            config=sockets(folder),
        )
    return result.nb, result.time, COLOUR.sub("", result.exc_string or "")


def sockets(folder: str) -> Config:
    """Return settings that let a kernel talk through files in `folder`, where the system can do that.

    Two kernels that start at the same moment can pick the same TCP port.
    """
    return Config() if os.name == "nt" else Config(KernelManager={"transport": "ipc", "ip": f"{folder}/kernel"})


def waiting(paths: Iterable[Path], cache: Any) -> list[Path]:
    """Return the notebooks that `cache` does not hold."""
    found = []
    for path in paths:
        try:
            cache.match_cache_notebook(nbformat.read(path, as_version=4))
        except KeyError:
            found.append(path)
    return found


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
                notebook, seconds, error = future.result()
            except Exception as died:  # a kernel that did not start, or ended by itself
                notebook, seconds, error = None, time.monotonic() - started, f"{type(died).__name__}: {died}"
            how = "FAILED" if error else "ran"
            print(f"[book]   {number}/{len(todo)} {path.name}: {how} in {seconds:.1f} s", flush=True)
            if error:
                failures.append(f"{path}:\n{error}")
            else:
                bundle = CacheBundleIn(notebook, str(path), data={"execution_seconds": seconds})
                cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
    print(f"[book] notebooks: {time.monotonic() - started:.0f} s", flush=True)
    return failures
