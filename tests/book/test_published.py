"""The built folder works wherever it is put: under a base path of any server, and from a disk without one."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

PAGES = ("index", "09-knobs", "a6-pitfalls")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def below(folder: Path, html: Path) -> Iterator[str]:
    """Serve the built pages under a path that they know nothing of."""
    (folder / "some").mkdir()
    (folder / "some" / "where").symlink_to(html, target_is_directory=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/some/where"
    finally:
        server.shutdown()
        server.server_close()


def visit(browser: Any, base: str) -> None:
    """Open three pages below `base`; nothing fails, nothing comes from elsewhere, a lab moves."""
    with closing(browser.new_context(reduced_motion="reduce")) as context:
        page = context.new_page()
        wrong: list[str] = []
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        # A request that the next page cuts short has not failed.
        page.on("requestfailed", lambda r: None if r.failure == "net::ERR_ABORTED" else wrong.append(r.url))
        page.on("response", lambda answer: wrong.append(answer.url) if answer.status >= 400 else None)
        page.on("request", lambda r: None if r.url.startswith((base, "data:", "blob:")) else wrong.append(r.url))
        for name in PAGES:
            page.goto(f"{base}/book/{name}.html")
            if name == "09-knobs":
                lab = page.locator(".lab").first
                lab.scroll_into_view_if_needed()
                lab.locator("button.lab-show").first.click()
                before = lab.locator(".lab-headline").inner_text()
                lab.locator("input[type=range]").first.press("ArrowRight")
                page.wait_for_function(
                    "before => document.querySelector('.lab .lab-headline').innerText !== before", arg=before
                )
        assert wrong == [], wrong


@pytest.mark.slow
@pytest.mark.browser
def test_under_a_base_path(browser: Any, built_book: Path, tmp_path: Path) -> None:
    with below(tmp_path, built_book) as base:
        visit(browser, base)


@pytest.mark.slow
@pytest.mark.browser
def test_from_a_folder(browser: Any, built_book: Path) -> None:
    visit(browser, built_book.as_uri())
