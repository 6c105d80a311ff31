"""axe-core over every page in both themes: no serious or critical violation, all labs awake, nothing covered or folded.

axe-core is JavaScript and comes from its npm package: from the file that AXE_CORE names, else `npm install` fetches it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.book.visits import Visit

VERSION = "4"

RUN = """async (only) => {
    const found = await axe.run(document, { resultTypes: ['violations'], ...only });
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
@pytest.mark.parametrize("visit", ["desk"], indirect=True, scope="session")
def test_no_serious_violation(visit: Visit, axe: Path) -> None:
    page = visit.page
    page.evaluate("() => document.querySelectorAll('.lab-show').forEach(button => button.click())")
    page.evaluate("() => document.querySelectorAll('.bd-article details').forEach(answer => { answer.open = true; })")
    page.wait_for_function("() => !document.querySelector('[data-covered]')")
    page.add_script_tag(path=str(axe))
    assert page.evaluate(RUN, {}) == []
    visit.change_theme("dark")
    try:
        assert page.evaluate(RUN, {"runOnly": ["color-contrast"]}) == [], "in the dark"
    finally:
        visit.change_theme("light")
