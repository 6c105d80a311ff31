"""Build the book: gather assets, compute the labs, run the notebooks, write the pages, look at the result.

``python -m tools.book`` from the root of the project, or ``make book``, which makes the environment first.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jupyter_cache import get_cache

from tools.cards import make_cards
from tools.execute import run_all
from tools.fingerprint import book_fingerprint, cache_path, discard_if_changed
from tools.finish import finish
from tools.numbers import stale
from tools.pages import problems, toc_files
from tools.serve import serve
from tools.vendor import gather
from tools.weight import lighten

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "_build"
HTML = BUILD / "html"
WHOLE = BUILD / "whole.txt"  # what the pages were made of, if the last build went well
running: list[subprocess.Popen] = []


def notebooks() -> list[Path]:
    """Return the notebooks of _toc.yml in reading order."""
    paths = (ROOT / f"{name}.ipynb" for name in toc_files(ROOT))
    return [path for path in paths if path.is_file()]


def succeeds(command: list[str]) -> bool:
    """Run `command` in the root and return whether it ended well; `end_with_children` can end it."""
    with subprocess.Popen(command, cwd=ROOT) as process:
        running.append(process)
        try:
            return process.wait() == 0
        finally:
            running.remove(process)


def build_labs(workers: int) -> bool:
    """Compute the labs that changed and what pages load beside them; return whether that went well."""
    out = BUILD / "assets" / "labs"
    labs = [sys.executable, "-m", "labcode.course.labs", str(out), "--workers", str(workers)]
    return succeeds(labs) and succeeds([sys.executable, "-m", "labcode.course.page_assets", str(out)])


def page_makers() -> str:
    """Return a hash of what shapes every page without being seen by Sphinx as a reason to write it anew."""
    digest = hashlib.sha256()
    for path in [*sorted((ROOT / "tools").glob("*.py")), *sorted((ROOT / "book" / "assets").iterdir())]:
        digest.update(path.name.encode() + (path.read_bytes() if path.suffix == ".py" else b""))
    return digest.hexdigest()


def build_pages(everything: bool) -> bool:
    """Call jupyter-book with warnings as errors; return whether that went well."""
    stamp, makers = BUILD / "page-makers.txt", page_makers()
    everything = everything or not stamp.exists() or stamp.read_text() != makers
    stamp.write_text(makers)
    call = "from jupyter_book.cli.main import main; main()"  # the package has no __main__
    command = [sys.executable, "-c", call, "build", ".", "-W", "-n", "--keep-going", "--quiet"]
    well = succeeds(command + ["--all"] * everything)
    if not well:
        # Sphinx would not warn again about a page that it has read, and the next build would look clean.
        shutil.rmtree(BUILD / ".doctrees", ignore_errors=True)
        stamp.unlink(missing_ok=True)
    return well


def is_built() -> bool:
    """Return whether the last build went well and nothing that a page is made of has changed since."""
    return (
        (HTML / "index.html").is_file()
        and WHOLE.is_file()
        and WHOLE.read_text(encoding="utf-8") == book_fingerprint(ROOT)
    )


def build(workers: int, everything: bool = False) -> list[str]:
    """Build the book; return a sentence for everything that went wrong."""
    started = time.monotonic()

    def step(text: str) -> None:
        print(f"[book] {time.monotonic() - started:5.0f} s  {text}", flush=True)

    step("browser code")
    gather(BUILD / "assets")
    step("labs: the states that the pages' sliders show")
    if not build_labs(workers):
        return ["a lab could not be computed; see above"]
    step("notebooks")
    cache = cache_path(ROOT)
    failures = run_all(notebooks(), cache, workers)
    if failures:
        return failures
    old = [line for path in notebooks() for line in stale(path, get_cache(str(cache)))]
    if old:
        step(f"{len(old)} numbers in the text are stale; `python -m tools.numbers` renews them")
    if discard_if_changed(cache, ROOT):
        step("labcode changed meanwhile; the next step runs the notebooks again")
    step("pages; warnings are errors")
    if not build_pages(everything):
        return ["jupyter-book reported warnings or errors; see above"]
    finish(HTML)
    make_cards(HTML / "book")
    lighten(HTML)
    step("checks")
    wrong = problems(ROOT, HTML)
    if not wrong:
        step(f"done: {len(toc_files(ROOT))} pages in {HTML.relative_to(ROOT)}")
    return wrong


def build_and_remember(workers: int, everything: bool = False) -> list[str]:
    """Build the book, and leave a note for `is_built` if all went well."""
    WHOLE.unlink(missing_ok=True)
    before = book_fingerprint(ROOT)
    wrong = build(max(1, workers), everything)
    if not wrong and before == book_fingerprint(ROOT):
        WHOLE.write_text(before, encoding="utf-8")
    return wrong


@contextmanager
def alone() -> Iterator[None]:
    """Hold _build for this build; wait for another one that has it. (Where there is no fcntl, hope for the best.)"""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / ".lock").open("w") as lock:
        try:
            import fcntl
        except ModuleNotFoundError:
            yield
            return
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print("[book] another build is running; waiting for it", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def end_with_children(number: int, frame: object) -> None:
    """On SIGTERM, end the other processes of the build as well; kernels follow them."""
    for process in running:
        process.terminate()
    for child in multiprocessing.active_children():
        child.kill()  # nbclient takes SIGTERM for itself; kernels end when their parent has
    os._exit(128 + number)  # not SystemExit: leaving the pool would wait for the notebooks


def main() -> int:
    """Run the command; return its exit status."""
    signal.signal(signal.SIGTERM, end_with_children)
    parser = argparse.ArgumentParser(prog="python -m tools.book", description=__doc__)
    parser.add_argument("--workers", type=int, default=2, help="notebooks that run at a time (2)")
    parser.add_argument("--if-changed", action="store_true", help="do nothing if the last build went well and fits")
    parser.add_argument("--all", action="store_true", help="write every page anew, not only those that changed")
    parser.add_argument("--serve", action="store_true", help="serve the result on 127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="port to serve on; another one if it is taken (8000)")
    options = parser.parse_args()
    with alone():
        wrong = [] if options.if_changed and is_built() else build_and_remember(options.workers, options.all)
    for line in wrong:
        print(f"[book] ERROR: {line}", file=sys.stderr, flush=True)
    if wrong:
        return 1
    if options.serve:
        serve(HTML, options.port)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
