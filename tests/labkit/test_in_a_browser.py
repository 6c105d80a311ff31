"""The demo lab in Chromium: from a server and from files, by keyboard, in both themes, on a phone; how fast it is."""

from __future__ import annotations

import json
import re
import shutil
import statistics
from pathlib import Path
from typing import Any

import pytest

from labcode.labkit.build import build_lab, build_vega
from labcode.labkit.page_view import Still
from tests.labkit.demo import LAB
from tools.serve import serving

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ASSETS = Path(__file__).resolve().parents[2] / "book" / "assets"
PAGE = """<!doctype html><html lang="en" data-theme="light"><head><meta charset="utf-8"><title>Labs</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<link rel="stylesheet" href="_static/labs.css">
<script defer src="_static/labs-charts.js"></script><script defer src="_static/labs.js"></script></head>
<body><p>Text</p>{lab}<p style="height: 3000px">More text</p>{again}</body></html>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with two labs, far apart, as the book's build would leave it."""
    folder = tmp_path_factory.mktemp("site")
    static = folder / "_static"
    static.mkdir()
    for name in ("labs.js", "labs-charts.js", "labs.css"):
        shutil.copy(ASSETS / name, static)
    build_vega(static / "labs")
    build_lab(LAB, static / "labs")
    text = (static / "labs" / "ch00-demo.js").read_text(encoding="utf-8")
    (static / "labs" / "ch00-again.js").write_text(text.replace("ch00-demo", "ch00-again"), encoding="utf-8")
    lab = Still(LAB)._repr_html_()
    page = PAGE.format(lab=lab, again=lab.replace("ch00-demo", "ch00-again"))
    (folder / "index.html").write_text(page, encoding="utf-8")
    return folder


@pytest.fixture(params=["http", "file"])
def address(request: pytest.FixtureRequest, site: Path) -> Any:
    if request.param == "file":
        yield f"{site.as_uri()}/index.html"
    else:
        with serving(site) as url:
            yield f"{url}/index.html"


class Opened:
    """The page in a fresh context, with all that went wrong in it and all that it asked for."""

    def __init__(self, browser: Any, address: str, width: int = 1000, **options: Any) -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.asked: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(address)
        self.lab = self.page.locator("#ch00-demo")
        self.page.locator("#ch00-demo.lab-ready").wait_for(timeout=20_000)

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self.context.close()
        if kind is None:
            assert self.errors == []

    def curves(self) -> str:
        return self.lab.evaluate("lab => [...lab.querySelectorAll('.lab-chart path')].map(p => p.outerHTML).join()")

    def headline(self) -> str:
        return self.lab.locator(".lab-headline").inner_text()

    def press(self, label: str, *keys: str) -> None:
        control = self.lab.get_by_label(label, exact=True)
        control.focus()
        for key in keys:
            control.press(key)
        self.page.wait_for_timeout(400)


def test_the_keyboard_moves_charts_headline_and_address(browser: Any, address: str) -> None:
    with Opened(browser, address) as at:
        assert at.headline() == LAB.run().headline
        before = at.curves()
        at.press("Arrival rate", "ArrowRight", "ArrowRight")
        assert at.headline() == LAB.run(rate=20).headline
        assert at.curves() != before
        assert at.page.url.endswith("#ch00-demo?rate=20&servers=1&order=fcfs")
        assert at.lab.get_by_label("Arrival rate", exact=True).get_attribute("aria-valuetext") == "20 req/s"
        at.lab.get_by_label("Order").select_option(label="shortest first")
        at.page.wait_for_timeout(300)
        assert "order=sjf" in at.page.url
        at.lab.get_by_role("button", name="Reset").click()
        at.page.wait_for_timeout(300)
        assert at.headline() == LAB.run().headline and at.curves() == before


def test_nothing_is_asked_of_other_servers_and_labs_load_when_they_come_near(browser: Any, site: Path) -> None:
    with serving(site) as url, Opened(browser, f"{url}/index.html") as at:
        assert all(asked.startswith((url, "data:")) for asked in at.asked)
        assert not any("ch00-again" in asked for asked in at.asked)
        assert sum("vega-bundle" in asked for asked in at.asked) == 1
        at.page.locator("#ch00-again").scroll_into_view_if_needed()
        at.page.locator("#ch00-again.lab-ready").wait_for(timeout=20_000)
        assert sum("vega-bundle" in asked for asked in at.asked) == 1


def test_a_setting_can_be_shared_and_several_labs_share_an_address(browser: Any, address: str) -> None:
    both = "#ch00-demo?rate=22&servers=2&order=sjf;ch00-again?rate=9.1"
    with Opened(browser, address + both) as at:
        assert at.headline() == LAB.run(rate=22, servers=2, order="sjf").headline
        again = at.page.locator("#ch00-again")
        again.locator(".lab-controls").wait_for(timeout=20_000)
        # A value that is no stop of the slider becomes the nearest one.
        assert again.get_by_label("Arrival rate", exact=True).get_attribute("aria-valuetext") in ("8 req/s", "10 req/s")
        at.press("Arrival rate", "ArrowRight")
        hash_ = at.page.url.split("#")[1]
        assert hash_.startswith("ch00-demo?rate=24&servers=2&order=sjf;ch00-again?")
    nonsense = "#ch00-demo?rate=abc&servers=&order=nobody;x?y=z;%"
    with Opened(browser, address + nonsense) as at:
        assert at.headline() == LAB.run().headline


def test_overload_says_no_data(browser: Any, address: str) -> None:
    with Opened(browser, address) as at:
        at.press("Arrival rate", "End")
        assert at.headline() == LAB.run(rate=40).headline
        assert at.lab.locator(".lab-legend .lab-none").count() >= 1


def test_themes_repaint_axes_and_curves(browser: Any, address: str) -> None:
    ink = "() => getComputedStyle(document.querySelector('.lab-chart .role-axis-label text')).fill"
    with Opened(browser, address) as at:
        light = at.page.evaluate(ink)
        at.page.evaluate("document.documentElement.dataset.theme = 'dark'")
        dark = at.page.evaluate(ink)
        numbers = [[int(v) for v in re.findall(r"\d+", colour)[:3]] for colour in (light, dark)]
        assert sum(numbers[0]) < 350 < 450 < sum(numbers[1]), "dark ink on light paper, light ink on dark paper"


def test_a_phone_gets_its_own_drawing(browser: Any, address: str) -> None:
    with Opened(browser, address, width=390, has_touch=True, is_mobile=True) as at:
        page = at.page
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        left = at.lab.evaluate(
            "lab => [...lab.querySelectorAll('.lab-panel')].map(p => p.getBoundingClientRect().left)"
        )
        assert len(set(left)) == 1, "one column"
        size = page.evaluate("getComputedStyle(document.querySelector('.lab-chart text')).fontSize")
        scale = page.evaluate(
            "(() => { const s = document.querySelector('.lab-chart svg'); "
            "return s.getBoundingClientRect().width / s.viewBox.baseVal.width; })()"
        )
        assert float(size.rstrip("px")) * scale >= 10, "drawn anew, not shrunk"


def test_names_for_those_who_do_not_see(browser: Any, address: str) -> None:
    with Opened(browser, address) as at:
        for panel in LAB.run().panels:
            chart = at.lab.get_by_role("img", name=re.compile(re.escape(f"{panel.title}. ")))
            assert panel.text in chart.get_attribute("aria-label")
        assert at.lab.locator(".lab-headline").get_attribute("aria-live") == "polite"
        at.lab.locator(".lab-numbers summary").first.click()
        at.lab.locator(".lab-table").wait_for()
        assert at.lab.locator(".lab-table tbody tr").count() == sum(len(s.x) for s in LAB.run().panels[0].series)


def test_a_prediction_is_kept_and_never_bars_the_way(browser: Any, address: str) -> None:
    with Opened(browser, address) as at:
        at.press("Arrival rate", "ArrowRight")
        assert at.headline() == LAB.run(rate=18).headline
        at.lab.locator(".lab-form input").fill("<b>just below 20</b>")
        at.lab.get_by_role("button", name="Lock it in").click()
        assert "<b>just below 20</b>" in at.lab.locator(".lab-kept").inner_text()


def test_without_the_data_the_still_stays_and_says_why(browser: Any, site: Path, tmp_path: Path) -> None:
    shutil.copytree(site, tmp_path / "site")
    (tmp_path / "site" / "_static" / "labs" / "ch00-demo.js").unlink()
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{(tmp_path / 'site').as_uri()}/index.html")
    page.locator("#ch00-demo .lab-trouble").wait_for(timeout=20_000)
    assert page.locator("#ch00-demo svg.lab-picture").is_visible()
    context.close()


def test_a_slider_answers_quickly(browser: Any, address: str, record_property: Any) -> None:
    with Opened(browser, address) as at:
        times = at.page.evaluate(
            """async () => {
                const range = document.querySelector('#ch00-demo input[type=range]'), times = [];
                for (let k = 0; k < 40; k++) {
                    const once = { once: true };
                    const drawn = new Promise(done =>
                        document.addEventListener('lab:drawn', e => done(e.detail.ms), once));
                    range.value = k % 20;
                    range.dispatchEvent(new Event('input'));
                    times.push(await drawn);
                }
                return times;
            }"""
        )
        median = statistics.median(times)
        print(f"slider to chart: median {median:.0f} ms, largest {max(times):.0f} ms")
        record_property("slider_to_chart_ms", json.dumps(times))
        assert median < 250
