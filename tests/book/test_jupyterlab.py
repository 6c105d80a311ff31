"""JupyterLab without extensions, driven by a browser: chapters read right, one runs, a slider redraws its figure."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FAVOURITE = "09-knobs"
READ = ("01-why-batching", "03-queueing", "08-continuous-batching")
RAW = (
    r"\{[\w:.-]+\}`|^:{3,}|\]\{[.#]|\]\([\w./-]*#|<!--|</?(?:small|a|details|summary)\b|glue"
    r"|\$\$|\\(?:tag|begin|frac|mathbb)"
)


def chapter_with_a_lab() -> str:
    """Return the chapter to open: the one on knobs, or the last that has a lab."""
    chapters = sorted((ROOT / "book").glob("*.ipynb"))
    with_lab = [path.stem for path in chapters if "labcode.course import show" in path.read_text(encoding="utf-8")]
    if not with_lab:
        pytest.skip("no chapter has a lab yet")
    return FAVOURITE if FAVOURITE in with_lab else with_lab[-1]


@pytest.fixture(scope="module")
def jupyterlab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a JupyterLab on a copy of the chapters, with settings, history and profile of its own."""
    home = tmp_path_factory.mktemp("jupyter")
    (home / "book").mkdir()
    for path in [*(ROOT / "book").glob("*.ipynb"), *(ROOT / "book").glob("*.md")]:
        shutil.copy2(path, home / "book")
    # Without windowing every cell is in the page, also those out of view.
    settings = home / "settings" / "@jupyterlab" / "notebook-extension"
    settings.mkdir(parents=True)
    (settings / "tracker.jupyterlab-settings").write_text(json.dumps({"windowingMode": "none"}))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}",
        "--ServerApp.port_retries=0", "--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True",
        f"--ServerApp.root_dir={home / 'book'}", "--LabApp.expose_app_in_browser=True",
        "--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]  # fmt: skip
    environment = os.environ | {
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "IPYTHONDIR": str(home / "ipython"),
    }
    environment.pop("LABCODE_LABS", None)
    with (home / "log.txt").open("w") as log:
        server = subprocess.Popen(command, cwd=home, env=environment, stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(url, server, home / "log.txt")
            yield url
        finally:
            server.terminate()
            server.wait(timeout=30)


def wait_for(url: str, server: subprocess.Popen, log: Path, seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert server.poll() is None, log.read_text()[-3000:]
        try:
            with urllib.request.urlopen(f"{url}/api", timeout=2):
                return
        except OSError:
            time.sleep(0.3)
    pytest.fail(f"JupyterLab did not answer within {seconds} s:\n{log.read_text()[-3000:]}")


STATE = """() => {
    const panel = window.jupyterapp.shell.currentWidget;
    const code = panel.content.widgets.filter(cell => cell.model.type === 'code');
    return {
        cells: code.length,
        done: code.filter(cell => cell.model.executionCount !== null).length,
        errors: code.flatMap(cell => cell.model.outputs.toJSON()).filter(o => o.output_type === 'error')
                    .map(o => `${o.ename}: ${o.evalue}`),
        busy: panel.sessionContext.session?.kernel?.status !== 'idle',
    };
}"""


OPEN = "() => window.jupyterapp?.shell?.currentWidget?.content?.widgets?.length > 1"
IDLE = "() => window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'"
PICTURE = ".jp-OutputArea .widget-image, .jp-OutputArea img.jupyter-widgets"


@pytest.mark.slow
@pytest.mark.browser
def test_chapter_runs_in_jupyterlab_and_a_slider_redraws_its_figure(browser: Any, jupyterlab: str) -> None:
    name = chapter_with_a_lab()
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    page = context.new_page()
    try:
        page.goto(f"{jupyterlab}/lab/tree/{name}.ipynb")
        page.wait_for_function(OPEN, timeout=90_000)
        page.wait_for_function(IDLE, timeout=90_000)
        page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")
        state = finished(page)
        assert state["errors"] == [] and state["done"] == state["cells"] > 0

        handle = page.locator(".jp-OutputArea .noUi-handle").first
        handle.wait_for(timeout=30_000)
        handle.scroll_into_view_if_needed()
        before = page.locator(PICTURE).first.get_attribute("src")
        assert before
        handle.focus()
        handle.press("ArrowRight")
        changed = f"old => document.querySelector('{PICTURE}').src !== old"
        page.wait_for_function(changed, arg=before, timeout=10_000)
        assert finished(page)["errors"] == []
    finally:
        context.close()


SHOWN = """() => [...document.querySelectorAll('.jp-MarkdownOutput')].map(cell => {
    const copy = cell.cloneNode(true);
    copy.querySelectorAll('pre, code, mjx-container').forEach(e => e.remove());
    return copy.textContent;
})"""
TYPESET = """() => document.querySelectorAll('.jp-MarkdownOutput mjx-container').length > 3
    && !document.querySelector('.jp-MarkdownOutput.jp-mod-rendering')"""


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("name", READ)
def test_notebook_reads_right_without_extensions(browser: Any, jupyterlab: str, name: str) -> None:
    cells = json.loads((ROOT / "book" / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    page = context.new_page()
    try:
        page.goto(f"{jupyterlab}/lab/workspaces/{name}/tree/{name}.ipynb")  # a workspace holds what was open before
        page.wait_for_function(OPEN, timeout=90_000)
        page.wait_for_function(TYPESET, timeout=90_000)
        page.wait_for_timeout(1000)
        shown = page.evaluate(SHOWN)
        assert len(shown) == sum(cell["cell_type"] == "markdown" for cell in cells)
        assert [found for text in shown for found in re.findall(RAW, text, re.M)] == []
        assert page.locator("mjx-merror, [data-mjx-error]").count() == 0
        folded = page.locator(".jp-MarkdownOutput details:not([open]) > summary")
        assert folded.count() == sum("".join(cell["source"]).count("<details>") for cell in cells)
        hidden = sum(cell["metadata"].get("jupyter", {}).get("source_hidden", False) for cell in cells)
        assert page.locator(".jp-CodeCell .jp-InputPlaceholder").count() == hidden
    finally:
        context.close()


def finished(page: Any, seconds: float = 240) -> dict[str, Any]:
    """Wait until every code cell has run or one has failed; return the state then."""
    end = time.monotonic() + seconds
    while True:
        state = page.evaluate(STATE)
        over = state["done"] == state["cells"] and not state["busy"]
        if over or state["errors"] or time.monotonic() > end:
            return dict(state)
        time.sleep(0.5)
