"""One browser context for each view, shared by the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.book.visits import VIEWS


@pytest.fixture(scope="session")
def contexts(browser: Any) -> Iterator[dict[str, Any]]:
    """Contexts by the names of `VIEWS`."""
    opened = {name: browser.new_context(**options, reduced_motion="reduce") for name, options in VIEWS.items()}
    yield opened
    for context in opened.values():
        context.close()
