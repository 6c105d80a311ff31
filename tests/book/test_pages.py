"""The built pages as a browser shows them: no error, nothing from outside, mathematics and figures there, readable."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.pages import Page, problems, toc_files

ROOT = Path(__file__).resolve().parents[2]
PAGES = toc_files(ROOT)
LARGEST_PAGE = 300_000    # bytes of HTML
VIEWS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 375, "height": 720}, "color_scheme": "light", "has_touch": True, "is_mobile": True},
}


@pytest.mark.slow
def test_build_has_every_page_of_the_toc_and_each_has_content(built_book: Path) -> None:
    assert problems(ROOT, built_book) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_page_is_light(built_book: Path, name: str) -> None:
    assert Page(built_book / f"{name}.html").size < LARGEST_PAGE


class Visit:
    """One page open in one view, and what went wrong while it loaded."""

    def __init__(self, browser: Any, url: str, view: str) -> None:
        self.context = browser.new_context(**VIEWS[view], reduced_motion="reduce")
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.outside: list[str] = []
        self.failed: list[str] = []
        home = url.split("/book/")[0]

        def route(handler: Any) -> None:
            if handler.request.url.startswith((home, "data:", "blob:")):
                handler.continue_()
            else:
                self.outside.append(handler.request.url)
                handler.abort()

        self.page.route("**/*", route)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        self.page.on("response", lambda r: self.failed.append(f"{r.status} {r.url}") if r.status >= 400 else None)
        self.page.goto(url, wait_until="load")
        self.scroll_through()
        self.page.wait_for_load_state("networkidle")

    def scroll_through(self) -> None:
        """Bring everything into view once: labs and images load only then."""
        self.page.evaluate(
            """async () => {
                for (let y = 0; y < document.documentElement.scrollHeight; y += 600) {
                    window.scrollTo(0, y);
                    await new Promise(done => setTimeout(done, 30));
                }
                if (window.MathJax && MathJax.startup) await MathJax.startup.promise;
            }"""
        )


@pytest.fixture(params=list(VIEWS))
def view(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def visit(browser: Any, book_url: str, view: str, name: str) -> Iterator[Visit]:
    visited = Visit(browser, f"{book_url}/{name}.html", view)
    yield visited
    visited.context.close()


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("name", PAGES)
def test_page_in_a_browser(visit: Visit, view: str) -> None:
    page = visit.page
    assert visit.outside == []
    assert visit.failed == []
    assert visit.errors == []

    # Mathematics: every formula was typeset, none is an error message.
    formulas = page.locator(".bd-article .math.notranslate").count()
    typeset = page.locator(".bd-article .math.notranslate mjx-container").count()
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
            .filter(s => !s.closest('[aria-hidden=true], mjx-container, button, summary'))
            .filter(s => !(s.getAttribute('aria-label') || s.querySelector('title')?.textContent || '').trim()).length"""
    )
    assert unnamed == 0

    # Nothing sticks out at the side.
    wide = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 1, f"the page is {wide} px wider than the screen"

    # The theme follows the reader's system, and text stands out from what is behind it (WCAG AA: 4.5).
    assert page.evaluate(CONTRAST) >= 4.5
    dark = page.evaluate("() => document.documentElement.dataset.theme")
    assert dark == ("dark" if view == "dark" else "light")


CONTRAST = """() => {
    const numbers = text => text.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => {
        const [x, y, z] = [r, g, b].map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    const behind = element => {
        for (let e = element; e; e = e.parentElement) {
            const c = numbers(getComputedStyle(e).backgroundColor);
            if (c.length < 4 || c[3] > 0.5) return c;
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
