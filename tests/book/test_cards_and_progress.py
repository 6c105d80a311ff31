"""Cards at links to the glossary, and the marks of what was read, in a chapter opened from a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.book.visits import VIEWS

pytestmark = [pytest.mark.slow, pytest.mark.browser]
CHAPTER = "book/03-queueing.html"
MOVES = """card => {
    const height = () => document.documentElement.scrollHeight, there = height();
    card.hidden = true;
    const without = height();
    card.hidden = false;
    return there - without;
}"""
LINK = '.bd-article a[href^="glossary.html#"]'


@pytest.fixture
def opened(browser: Any, built_book: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    context = browser.new_context(**VIEWS[request.param], reduced_motion="reduce")
    page = context.new_page()
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.goto((built_book / CHAPTER).as_uri())
    yield page
    context.close()
    assert page.errors == []


@pytest.mark.parametrize("opened", ["desk"], indirect=True)
def test_a_card_comes_by_pointer_and_keyboard(opened: Any) -> None:
    link, card = opened.locator(LINK).first, opened.locator(".term-card")
    assert opened.locator('script[src*="glossary-terms"]').count() == 0, "asked for at the first card only"
    link.hover()
    card.wait_for()
    assert (
        link.inner_text().lower().removesuffix("s") in card.inner_text().lower()
        and card.locator(":lang(zh-Hans)").count() >= 1
    )
    assert card.evaluate(MOVES) == 0
    card.hover()  # Who moves onto it keeps it.
    opened.wait_for_timeout(400)
    assert card.is_visible()
    opened.keyboard.press("Escape")
    assert card.is_hidden() and link.get_attribute("aria-describedby") is None
    opened.mouse.move(0, 0)
    opened.keyboard.press("Tab")
    link.focus()
    card.wait_for()
    described = link.get_attribute("aria-describedby")
    assert opened.locator(f"#{described}").get_attribute("role") == "tooltip"
    assert opened.get_by_role("link", name="Open the glossary").count() == 0, "the link itself leads there"
    opened.keyboard.press("Tab")
    assert card.is_hidden()


@pytest.mark.parametrize("opened", ["phone"], indirect=True)
def test_the_first_tap_shows_the_card_and_its_link_leads_on(opened: Any) -> None:
    link, card = opened.locator(LINK).first, opened.locator(".term-card")
    target = link.get_attribute("href")
    link.scroll_into_view_if_needed()
    link.tap()
    card.wait_for()
    assert CHAPTER in opened.url
    box = card.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= VIEWS["phone"]["viewport"]["width"]
    opened.get_by_role("link", name="Open the glossary").tap()
    opened.wait_for_url(f"**/{target}")


@pytest.mark.parametrize("opened", ["desk"], indirect=True)
def test_progress_is_kept_marked_and_cleared(opened: Any) -> None:
    marks = opened.locator(".bd-sidenav .progress-mark")
    clear = opened.get_by_role("button", name="Clear my progress")
    assert marks.count() == 0 and clear.count() == 0
    lab = opened.locator(".lab").first
    lab.scroll_into_view_if_needed()
    lab.get_by_role("button", name="Just show me").click()
    opened.get_by_role("link", name="begun, 1 lab opened").wait_for()
    opened.keyboard.press("End")
    opened.locator(".prev-next-footer").scroll_into_view_if_needed()
    opened.locator(".progress-read").wait_for()
    opened.goto(opened.url.replace("03-queueing", "04-clipper"))
    assert marks.count() == 1, "a chapter that was only opened is not read"
    assert opened.get_by_role("link", name="3. Queueing").get_by_label("read, 1 lab opened").count() == 1
    clear.click()
    assert marks.count() == 0
    opened.reload()
    assert marks.count() == 0 and clear.count() == 0
    # A browser that keeps nothing: the page is whole; only the theme's line in the head says something.
    opened.add_init_script(
        "Object.defineProperty(window, 'localStorage', {configurable: true, get() { throw new Error('forbidden'); }});"
    )
    opened.reload()
    assert opened.locator(".copybtn").count() > 0
    opened.locator(".prev-next-footer").scroll_into_view_if_needed()
    opened.locator(LINK).first.hover()
    opened.locator(".term-card").wait_for()
    assert opened.errors in ([], ["forbidden"])
    opened.errors.clear()
