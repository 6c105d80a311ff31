"""The page's verdicts are the kernel's, for every exercise; fields by keyboard, kept, on a phone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labcode.course.exercise_page import scripts
from labcode.course.exercises import SLIPS, check, exercises
from tools.sphinx_book import LAB_ASSETS

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ASSETS = Path(__file__).resolve().parents[2] / "book" / "assets"
PAGE = """<!doctype html><html lang="en" data-theme="light"><head><meta charset="utf-8"><title>Exercises</title>
<link rel="icon" href="data:,">{loads}</head><body><main class="bd-article"><section><h2>Exercises</h2>{body}</section>
</main></body></html>"""
EXERCISE = """<section id="exercise-{slug}"><h3>Exercise {number} · A title</h3><p>A question.</p>
<details><summary>Solution</summary><p>Because.</p></details></section>"""
NUMBERS = ("8.1", "8.2", "8.3", "8.4", "8.5")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exercises")
    static = folder / "_static"
    (static / "labs").mkdir(parents=True)
    for name in LAB_ASSETS:
        shutil.copy(ASSETS / name, static)
    for chapter, script in scripts(exercises().values()).items():
        (static / "labs" / f"exercises-{chapter}.js").write_text(script, encoding="utf-8")
    scripted = "".join(f'<script defer src="_static/{n}"></script>' for n in LAB_ASSETS if n.endswith(".js"))
    body = "".join(EXERCISE.format(number=number, slug=number.replace(".", "-")) for number in NUMBERS)
    loads = f'<link rel="stylesheet" href="_static/labs.css">{scripted}'
    (folder / "index.html").write_text(PAGE.format(loads=loads, body=body), encoding="utf-8")
    return folder


@pytest.fixture
def page(browser: Any, site: Path) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page, wrong = context.new_page(), []
    page.set_default_timeout(15_000)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
    page.goto(f"{site.as_uri()}/index.html")
    page.locator(".exercise-field").first.wait_for()
    yield page
    context.close()
    assert wrong == []


def attempts(id: str) -> list[float]:
    """Right, off by each known slip, at the edges of the tolerance, and wrong."""
    asked = exercises()[id]
    right, edge = float(asked.answer()), asked.tolerance
    near = [right * (1 + edge * factor) for factor in (0.99, -0.99, 1.02, -1.02)]
    return [right, 100 * right, *near, *(right * slip for slip in SLIPS), right * 1.37 + 0.77, -right - 1, 0.0]


def test_page_and_kernel_give_the_same_verdicts(page: Any, site: Path) -> None:
    table = [(id, value) for id in exercises() for value in attempts(id)]
    files = [path.name for path in (site / "_static" / "labs").glob("exercises-*.js")]
    said = page.evaluate(
        """async ([files, table]) => {
            const all = {};
            for (const file of files) {
                await new Promise((done) => {
                    const script = document.createElement("script");
                    script.src = "_static/labs/" + file;
                    script.onload = () => { Object.assign(all, window.labExercises); done(); };
                    document.head.append(script);
                });
            }
            return table.map(([id, value]) => window.labExercise.verdict(id, value, all, window.labSlips));
        }""",
        [files, table],
    )
    for (id, value), words in zip(table, said, strict=True):
        assert words == check(id, value), (id, value)
    assert sum(words == "right" for words in said) > len(exercises())


def test_numbers_as_people_write_them(page: Any) -> None:
    texts = {"1,200": 1200, "9 190": 9190, "15 %": 15, "−0.5": -0.5, "3e8": 3e8, ".25": 0.25, "1,2": None, "ten": None}
    read = page.evaluate(
        "texts => texts.map((t) => { const v = labExercise.read(t); return Number.isNaN(v) ? null : v; })", list(texts)
    )
    assert read == list(texts.values())


def test_wrong_a_known_slip_and_right_by_keyboard_and_kept(page: Any) -> None:
    right = float(exercises()["8.3a"].answer())
    assert (
        page.locator("#exercise-8-3 .exercise-field").count() == 2 and page.locator("#exercise-8-5 form").count() == 0
    )
    assert page.locator("#exercise-8-3 .exercise-fields + details").count() == 1, "above the folded solution"
    field, said = page.get_by_label("8.3a", exact=True), page.locator("#exercise-8-3 output").first
    field.focus()
    for text, words in (
        ("12", "not yet: too small (Tokens/s of 100 seats"),
        (f"{right / 1000:.4f}", "not yet: a thousand times too small: seconds where milliseconds are asked for?"),
        ("ten", "“ten”: a number is needed"),
        (f"{right:,.0f}", "✓ right"),
    ):
        page.keyboard.press("ControlOrMeta+a")
        page.keyboard.type(text)
        page.keyboard.press("Enter")
        assert said.inner_text().startswith(words), text
    assert said.get_attribute("role") == "status"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.reload()
    page.locator(".exercise-field").first.wait_for()
    assert page.get_by_label("8.3a", exact=True).input_value() == f"{right:,.0f}"
    assert page.locator("#exercise-8-3 output").first.inner_text() == "✓ right"
