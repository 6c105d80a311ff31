"""The built pages as a browser shows them: no error, nothing from outside, mathematics and figures there, readable."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.book.visits import Visit
from tools.pages import Page, problems, toc_files

ROOT = Path(__file__).resolve().parents[2]
PAGES = toc_files(ROOT)
LARGEST_PAGE = 300_000  # bytes of HTML


@pytest.mark.slow
def test_build_has_every_page_of_the_toc_and_each_has_content(built_book: Path) -> None:
    assert problems(ROOT, built_book) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_page_is_light(built_book: Path, name: str) -> None:
    path = built_book / f"{name}.html"
    assert Page(path).size < LARGEST_PAGE
    assert "vendor/mathjax" not in path.read_text(encoding="utf-8"), "a formula cannot be set by tools/mathematics.py"


@pytest.mark.slow
@pytest.mark.browser
def test_page_in_a_browser(visit: Visit) -> None:
    page = visit.page
    page.evaluate("() => document.querySelectorAll('.bd-article details').forEach(answer => { answer.open = true; })")
    assert visit.outside == []
    assert visit.failed == []
    assert visit.errors == []

    # Mathematics: every formula was typeset, none is an error message.
    formulas = page.locator(".bd-article .math.notranslate").count()
    typeset = page.locator(".bd-article .math.notranslate :is(math, mjx-container)").count()
    assert typeset >= formulas
    assert page.locator("mjx-merror, [data-mjx-error]").count() == 0

    # Pictures: each has arrived and has a text for those who cannot see it.
    bad = page.evaluate(
        """() => [...document.querySelectorAll('.bd-article img')]
            .filter(i => !(i.alt || '').trim() || !i.complete || i.naturalWidth === 0).map(i => i.src)"""
    )
    assert bad == []
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('.bd-article svg')]
            .filter(s => !s.closest('[aria-hidden=true], [role=img][aria-label], mjx-container, button, summary'))
            .filter(s => !(s.ariaLabel || s.querySelector('title')?.textContent || '').trim()).length"""
    )
    assert unnamed == 0

    # Nothing sticks out at the side.
    wide = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 1, f"the page is {wide} px wider than the screen"

    # The theme follows the reader's system, and text stands out from what is behind it (WCAG AA: 4.5).
    for scheme in ("dark", "light"):
        visit.change_theme(scheme)
        assert page.evaluate(CONTRAST) >= 4.5, scheme


@pytest.mark.slow
@pytest.mark.browser
def test_a_page_opened_in_the_dark_is_dark(browser: Any, book_url: str) -> None:
    with closing(browser.new_context(color_scheme="dark", reduced_motion="reduce")) as context:
        visit = Visit(context, f"{book_url}/book/03-queueing.html")
        visit.scroll_through()
        assert visit.page.evaluate("() => document.documentElement.dataset.theme") == "dark"
        assert visit.page.evaluate(CONTRAST) >= 4.5
        assert visit.errors == visit.failed == []


CONTRAST = """() => {
    const pen = Object.assign(document.createElement('canvas'), {width: 1, height: 1})
        .getContext('2d', {willReadFrequently: true});
    const numbers = colour => {    // whatever the notation: red, green, blue, and opacity as a fourth
        pen.clearRect(0, 0, 1, 1);
        pen.fillStyle = colour;
        pen.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const light = ([r, g, b]) => {
        const [x, y, z] = [r, g, b].map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    const behind = element => {
        for (let e = element; e; e = e.parentElement) {
            const c = numbers(getComputedStyle(e).backgroundColor);
            if (c[3] > 0.5) return c;
        }
        return [255, 255, 255];
    };
    const kinds = '.bd-article p, .bd-article li, .num-paper, .num-measured, .num-quoted';
    const text = [...document.querySelectorAll(kinds)].filter(e => e.offsetParent !== null && e.textContent.trim());
    return Math.min(...text.map(e => {
        const a = light(numbers(getComputedStyle(e).color)), b = light(behind(e));
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    }));
}"""
