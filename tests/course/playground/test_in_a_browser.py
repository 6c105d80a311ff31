"""The playground in Chromium: the same records as Python to the last bit, from file:// and by keyboard alone."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labcode import SLO
from labcode.course.playground import bundle, driver
from labcode.labkit.build import build_vega
from tests.course.playground.test_engine import BASE, LONGEST_FIRST, OWN, SETTINGS, TABLES, call, same
from tools.sphinx_book import LAB_ASSETS, PAGE_ASSETS

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[3]
LOADED = (*LAB_ASSETS, *PAGE_ASSETS["book/playground"])
PAGE = """<!doctype html><html lang="en" data-theme="light"><head><meta charset="utf-8"><title>Playground</title>
<link rel="icon" href="data:,">{loads}</head><body>{place}</body></html>"""
SERVE = """(all) => new Promise((done) => {
  const engine = new Blob([window.playgroundEngine], { type: "text/javascript" }), out = [];
  const worker = new Worker(URL.createObjectURL(engine));
  worker.onerror = (event) => done([event.message]);
  worker.onmessage = ({ data }) => {
    if (data.kind === "result" || data.kind === "broken") out.push(data.text);
    if (data.kind === "progress" || data.kind === "started") return;
    if (out.length < all.length) worker.postMessage(all[out.length]); else done(out);
  };
})"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("playground")
    static = folder / "_static"
    static.mkdir()
    for name in LOADED:
        shutil.copy(ROOT / "book" / "assets" / name, static)
    build_vega(static / "labs")
    bundle.write(static / "labs" / "playground-engine.js")
    text = (ROOT / "book" / "playground.md").read_text(encoding="utf-8")
    place = re.search(r'<div class="lab playground".*?</div>', text, re.S)
    assert place
    styles = [f'<link rel="stylesheet" href="_static/{name}">' for name in LOADED if name.endswith(".css")]
    loads = "".join([*styles, *(f'<script defer src="_static/{n}"></script>' for n in LOADED if n.endswith(".js"))])
    quick = place[0].replace('id="playground"', 'id="playground" data-patience="1.5"')
    (folder / "index.html").write_text(PAGE.format(loads=loads, place=quick), encoding="utf-8")
    return folder


@pytest.fixture
def page(browser: Any, site: Path) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1200, "height": 900}, reduced_motion="reduce")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page, wrong = context.new_page(), []
    page.set_default_timeout(40_000)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
    page.on("request", lambda r: None if r.url.startswith(("file:", "blob:", "data:")) else wrong.append(r.url))
    page.goto(f"{site.as_uri()}/index.html")
    page.locator(".playground-run").wait_for()
    yield page
    context.close()
    assert wrong == []


def status(page: Any) -> str:
    return str(page.locator(".playground-status").inner_text())


def wait(page: Any, words: str) -> None:
    page.wait_for_function("w => document.querySelector('.playground-status').textContent.includes(w)", arg=words)


def test_page_and_python_keep_the_same_records(page: Any) -> None:
    settings = [BASE | changed for changed in SETTINGS]
    page.wait_for_function("window.playgroundEngine")
    answers = [json.loads(text) for text in page.evaluate(SERVE, [repr(s) for s in settings])]
    sums = page.evaluate(
        "([runs, limits]) => runs.map((run, i) => ({ ...playgroundNumbers.summary(run, limits[i]), tokens: [] }))",
        [answers, [{"ttft": s["ttft"], "tpot": s["tpot"]} for s in settings]],
    )
    for s, found, summed in zip(settings, answers, sums, strict=True):
        assert found == json.loads(driver.as_json(driver.run(s, TABLES))), s
        run = call(s)
        same(found | {"reasons": {int(i): why for i, why in found["reasons"].items()}}, run)
        whole = run.summary(SLO(ttft=s["ttft"], tpot=s["tpot"]))
        for name, value in whole.items():
            if name in summed:
                ours = math.nan if summed[name] is None else summed[name]
                assert ours == pytest.approx(value, rel=1e-9, nan_ok=True), (s, name)
        assert summed["counts"][:2] == [whole["finished"], whole["refused"]]


def test_by_keyboard_alone_set_run_copied_and_shared(page: Any) -> None:
    page.get_by_label("Requests", exact=True).focus()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("30")
    page.keyboard.press("Tab")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("25.5")
    page.keyboard.press("Enter")
    wait(page, "30 of 30 finished")
    assert page.url.endswith("#playground?n=30&rate=25.5")
    assert page.locator(".playground-results .lab-chart svg").count() == 4
    inside = """[...document.querySelectorAll('.lab-chart')].map((chart) => {
        const box = chart.getBoundingClientRect();
        const drawn = chart.querySelector('.role-frame .background').getBoundingClientRect();
        return drawn.height > 100 && drawn.top >= box.top && drawn.bottom <= box.bottom;
    })"""
    assert page.evaluate(inside) == [True] * 4, "a limit far above the values does not push the chart away"
    assert (
        page.locator(".lab-lane").count() == 1
        and "30 of 30 gone" not in page.locator(".lab-flow .lab-text").inner_text()
    )
    page.locator(".lab-flow .lab-button", has_text="Next").press("Enter")
    found = page.evaluate("document.querySelector('.playground').playgroundRun")
    page.locator(".playground-python").press("Enter")
    page.get_by_text("Copied").wait_for()
    space: dict[str, Any] = {}
    exec(page.evaluate("navigator.clipboard.readText()"), space)
    same(found, space["run"])
    page.reload()
    wait(page, "30 of 30 finished")
    assert page.get_by_label("Rate, requests/s").input_value() == "25.5"


def test_an_order_of_ones_own_beside_first_come_first_served(page: Any) -> None:
    page.goto(page.url + "#playground?workload=own&max_bs=1&order=own")
    page.wait_for_timeout(50)
    page.get_by_label("My requests").fill(OWN)
    page.get_by_label("My function").fill(LONGEST_FIRST)
    page.get_by_label("My function").press("ControlOrMeta+Enter")
    wait(page, "4 of 5 finished (1 refused)")
    said = page.locator(".playground-said").inner_text()
    assert "Request 4 (9000 + 5 tokens), refused: prompt 9000 + output 5 tokens exceed" in said
    assert "Who starves?" in said and "tenant ann" in said
    assert page.locator(".playground-numbers th").nth(2).inner_text() == "First come, first served"
    assert page.locator(".lab-lane").count() == 2
    found = page.evaluate("document.querySelector('.playground').playgroundRun")
    space: dict[str, Any] = {}
    exec(
        page.evaluate("(p => p.pythonCall(p.settings()))(document.querySelector('.playground').playground)"),
        space,
    )
    same(found | {"reasons": {int(i): why for i, why in found["reasons"].items()}}, space["run"])


WRONG = (
    ("def order(request):\n    x = 1\n    return request.nothing", "Line 3 of your function: AttributeError"),
    ("def order(request)\n    return 1", "Line 1 of your function: SyntaxError"),
    ("import os\ndef order(request):\n    return 1", "Line 1 of your function: ModuleNotFoundError"),
    ("def order(request):\n    while True:\n        pass", "your function has not come back for 1.5 s"),
)


def test_what_is_wrong_with_a_function_is_said(page: Any) -> None:
    page.get_by_label("Order of the queue").select_option("own")
    page.get_by_label("Requests", exact=True).fill("3")
    for code, words in WRONG:
        page.get_by_label("My function").fill(code)
        page.locator(".playground-run").click()
        page.wait_for_function("w => document.querySelector('.playground-trouble').textContent.includes(w)", arg=words)
        wait(page, "Not run.")
        assert page.get_by_label("My function").get_attribute("aria-invalid") is not None


def test_bad_input_and_stopping(page: Any) -> None:
    page.get_by_label("Requests", exact=True).fill("5000")
    page.locator(".playground-run").click()
    assert (
        page.locator(".playground-trouble").inner_text() == "Requests = 5000: a whole number from 1 to 400 is needed."
    )
    assert page.evaluate("document.activeElement.name") == "n"
    page.get_by_label("Requests", exact=True).fill("400")
    page.locator(".playground-run").click()
    page.get_by_role("button", name="Stop").click()
    wait(page, "Stopped.")
    page.get_by_label("Requests", exact=True).fill("3")
    page.locator(".playground-run").click()
    wait(page, "3 of 3 finished")
