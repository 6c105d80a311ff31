"""Fixtures that several test folders share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parent.parent

# An example may take as long as a busy machine needs: no test of this suite is about time.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of published traces and measurements, which the project does not ship; skips without it."""
    given = os.environ.get("LABCODE_SHARED_DATA")
    folder = Path(given) if given else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the published traces are not here (set LABCODE_SHARED_DATA to their folder)")
    return folder


@pytest.fixture(scope="session")
def built_book() -> Path:
    """Folder of the built pages; builds them first unless `make book` has just been run."""
    command = [sys.executable, "-m", "tools.book", "--if-changed"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"the book does not build:\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    return ROOT / "_build" / "html"


@pytest.fixture(scope="session")
def book_url(built_book: Path) -> Iterator[str]:
    """Address of a server of the built pages, without a slash at its end."""
    from tools.serve import serving

    with serving(built_book) as url:
        yield url


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium. Without one the test is skipped, but fails where the environment says CI=true."""
    from tools.browser import NoBrowser, chromium

    try:
        running = chromium()
        started = running.__enter__()
    except NoBrowser as error:
        if os.environ.get("CI", "").lower() in {"1", "true", "yes"}:
            pytest.fail(str(error))
        pytest.skip(str(error))
    yield started
    running.__exit__(None, None, None)
