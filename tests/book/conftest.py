"""Each page is opened once on a desk and once on a phone, for all tests of this folder that look at every page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.book.visits import VIEWS, Visit
from tools.pages import toc_files

PAGES = toc_files(Path(__file__).resolve().parents[2])


@pytest.fixture(scope="session")
def contexts(browser: Any) -> Iterator[dict[str, Any]]:
    """Contexts by the names of `VIEWS`: one for each view, so that scripts of all pages are fetched once."""
    opened = {name: browser.new_context(**options, reduced_motion="reduce") for name, options in VIEWS.items()}
    yield opened
    for context in opened.values():
        context.close()


@pytest.fixture(scope="session", params=PAGES)
def name(request: pytest.FixtureRequest) -> str:
    """Name of a page, as in the table of contents; all its tests run one after the other."""
    return str(request.param)


@pytest.fixture(scope="session", params=list(VIEWS))
def visit(request: pytest.FixtureRequest, contexts: dict[str, Any], book_url: str, name: str) -> Iterator[Visit]:
    """The page, opened and scrolled through; what an earlier test did to it (moved a slider) is still so."""
    visited = Visit(contexts[request.param], f"{book_url}/{name}.html", request.param)
    visited.scroll_through()
    yield visited
    visited.close()
