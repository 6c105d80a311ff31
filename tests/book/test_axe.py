"""axe-core over every page in both themes: no serious or critical violation, every lab awake and uncovered.

axe-core is JavaScript and comes from its npm package: from the file that AXE_CORE names, else `npm install` fetches it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.book.visits import Visit
from tools.pages import toc_files

PAGES = toc_files(Path(__file__).resolve().parents[2])
VERSION = "4"

RUN = """async () => {
    const found = await axe.run(document, { resultTypes: ['violations'] });
    return found.violations.filter(v => ['serious', 'critical'].includes(v.impact))
        .map(v => `${v.id}: ${v.help}: ` + v.nodes.slice(0, 3).map(n => n.target.join(' ')).join(' | '));
}"""


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Path of axe.min.js; skips where it cannot be had: nobody needs Node.js to build or to test this book."""
    given = os.environ.get("AXE_CORE")
    if given:
        return Path(given)
    npm, folder = shutil.which("npm"), tmp_path_factory.mktemp("axe")
    if npm is not None:
        command = [npm, "install", "--no-save", "--prefix", str(folder), f"axe-core@{VERSION}"]
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(command, capture_output=True, timeout=120)
    found = folder / "node_modules" / "axe-core" / "axe.min.js"
    if not found.is_file():
        pytest.skip("axe-core is not here: set AXE_CORE to its axe.min.js, or install npm")
    return found


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("view", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_no_serious_violation(contexts: dict[str, Any], book_url: str, axe: Path, name: str, view: str) -> None:
    visit = Visit(contexts[view], f"{book_url}/{name}.html")
    try:
        visit.scroll_through()
        visit.page.evaluate("() => document.querySelectorAll('.lab-show').forEach(button => button.click())")
        visit.page.wait_for_timeout(300)
        visit.page.add_script_tag(path=str(axe))
        assert visit.page.evaluate(RUN) == []
    finally:
        visit.close()
