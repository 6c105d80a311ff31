"""Every lab of every page: alive without a kernel and without a network, by keyboard, with its state in the address."""

from __future__ import annotations

import gzip
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.book.visits import Visit
from tools.pages import toc_files

ROOT = Path(__file__).resolve().parents[2]
LARGEST_DATA = 200_000  # bytes, compressed
SHOW = re.compile(r'show\(\\?"([a-z0-9-]+)\\?"\)')


def labs_of(name: str) -> list[str]:
    """Return the ids of the labs that the notebook of this page shows."""
    path = ROOT / f"{name}.ipynb"
    return SHOW.findall(path.read_text(encoding="utf-8")) if path.exists() else []


WITH_LABS = [name for name in toc_files(ROOT) if labs_of(name)]


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_LABS)
def test_data_of_a_lab_is_small(built_book: Path, name: str) -> None:
    for lab in labs_of(name):
        data = (built_book / "_static" / "labs" / f"{lab}.js").read_bytes()
        assert len(gzip.compress(data)) < LARGEST_DATA, lab


CHARTS = "lab => [...lab.querySelectorAll('svg, canvas')].map(c => c.outerHTML).join() + lab.innerText"
UNNAMED = """lab => [...lab.querySelectorAll('input[type=range], select')]
    .filter(i => !(i.labels?.length || i.ariaLabel || i.getAttribute('aria-labelledby'))).length"""
STICKS_OUT = """lab => [...lab.querySelectorAll('svg, canvas, figure')].filter(c => c.getClientRects().length)
    .some(c => c.getBoundingClientRect().right > document.documentElement.clientWidth + 1)"""


ADDRESS = "() => location.href"  # Playwright's own `page.url` comes a little later.
MOVED = "address => location.href !== address"


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("name", WITH_LABS, indirect=True, scope="session")
def test_labs_are_alive_in_the_page(visit: Visit) -> None:
    page = visit.page
    for lab in labs_of(visit.name):
        place = page.locator(f'[data-lab="{lab}"]')
        place.scroll_into_view_if_needed()
        sliders = place.locator('.lab-controls :is(input[type="range"], select)')
        # Names for those who cannot see the controls.
        assert place.evaluate(UNNAMED) == 0, lab
        place.get_by_role("button", name="Reset").click()  # Another test may have been here.
        page.wait_for_function("lab => !location.hash.includes(lab + '?')", arg=lab)
        # The keyboard moves a control, the charts answer, the address keeps the setting.
        changed, before = False, place.evaluate(CHARTS)
        for k in range(sliders.count()):
            slider, address = sliders.nth(k), page.evaluate(ADDRESS)
            slider.focus()
            for key in ("ArrowRight", "ArrowLeft", "ArrowLeft", "ArrowUp", "ArrowDown"):
                old = slider.input_value()
                slider.press(key)
                if slider.input_value() != old:  # Not at an end: now the address follows.
                    page.wait_for_function(MOVED, arg=address)
                    break
            now = page.evaluate(ADDRESS)
            assert now != address and lab in now, f"{lab}: the address does not follow control {k}"
            changed = changed or place.evaluate(CHARTS) != before
        assert changed, f"{lab}: no control changes a chart"
        assert not place.evaluate(STICKS_OUT), f"{lab}: a chart is wider than the screen"
    assert visit.outside == []
    assert visit.failed == []
    assert visit.errors == []


SETTING = "lab => [...lab.querySelectorAll('.lab-controls :is(input, select)')].map((control) => control.value)"


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("visit", ["desk"], indirect=True, scope="session")
@pytest.mark.parametrize("name", WITH_LABS, indirect=True, scope="session")
def test_an_address_brings_a_setting_back(visit: Visit, contexts: dict[str, Any]) -> None:
    (lab, *_) = labs_of(visit.name)
    place, address = visit.page.locator(f'[data-lab="{lab}"]'), visit.page.evaluate(ADDRESS)
    control = place.locator(".lab-controls :is(input, select)").last
    control.focus()
    control.press("Home" if control.input_value() != "0" else "End")
    visit.page.wait_for_function(MOVED, arg=address)
    setting = place.evaluate(SETTING)
    again = Visit(contexts["desk"], visit.page.evaluate(ADDRESS))
    try:
        again.page.locator(f'[data-lab="{lab}"].lab-ready').wait_for(timeout=15_000)
        assert again.page.locator(f'[data-lab="{lab}"]').evaluate(SETTING) == setting
    finally:
        again.page.close()


@pytest.mark.slow
@pytest.mark.browser
def test_quiz_by_keyboard_and_without_a_script(browser: Any, book_url: str) -> None:
    with closing(browser.new_context(java_script_enabled=False)) as plain:
        page = plain.new_page()
        page.goto(f"{book_url}/book/a6-pitfalls.html")
        assert page.locator(".quiz-question details:not([open])").count() == 8
        assert page.locator(".quiz button").count() == 0
    with closing(browser.new_context()) as context:
        page = context.new_page()
        page.goto(f"{book_url}/book/a6-pitfalls.html")
        first = page.locator(".quiz-question").first
        assert first.locator("details").count() == 0 and first.locator(".quiz-said").inner_text() == ""
        first.locator("button").nth(1).focus()
        page.keyboard.press("Enter")
        assert first.locator(".quiz-said").inner_text().startswith("✓ Right.")
        first.locator("button").nth(0).press("Space")
        assert first.locator(".quiz-said").inner_text().startswith("✗ Not quite.")
        page.reload()
        assert page.locator(".quiz-question").first.locator(".quiz-said").inner_text().startswith("✗")
