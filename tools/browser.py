"""Find and start a headless Chromium: for the tests of the pages and for the picture in the README."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Playwright, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

# Silence: a fresh profile that asks nobody for anything, so that every request a test sees is the page's own.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]


class NoBrowser(RuntimeError):
    """There is no Chromium here."""


def executable(playwright: Playwright) -> str:
    """Return the path of a Chromium: the system's, else Playwright's own.

    Raises
    ------
    NoBrowser
        If there is neither; the message says how to get one.
    """
    for name in (os.environ.get("CHROMIUM", ""), *NAMES):
        found = shutil.which(name) if name else None
        if found:
            return found
    own = playwright.chromium.executable_path
    if own and Path(own).exists():
        return own
    raise NoBrowser("no Chromium: `apt-get install chromium`, or `playwright install chromium`, or CHROMIUM=PATH")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a headless Chromium and end it on leaving."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(playwright), headless=True, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()
