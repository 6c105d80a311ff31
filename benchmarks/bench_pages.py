"""What a page weighs, how long it keeps the main thread, how quickly a lab answers: in Chromium, over our own server.

Needs the built book (`make book SERVE=0`). Weights and requests are exact; times are the browser's own processor time
(`TaskDuration`, `ScriptDuration`) where there is one, and medians of wall time besides, which a busy machine lengthens.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HTML = Path(__file__).resolve().parents[1] / "_build" / "html"
PAGES = ("book/index", "book/intro", "book/03-queueing", "book/07-orca", "book/09-knobs")
SHIFT = 0.02  # Most that a page may move under the reader (cumulative layout shift).
MOVES = 30

WATCH = """new PerformanceObserver(list => list.getEntries().forEach(e => {
    if (!e.hadRecentInput) window.shifted = (window.shifted || 0) + e.value;
})).observe({ type: 'layout-shift', buffered: true });"""

SLIDE = """async moves => {
    const lab = document.querySelector('.lab.lab-ready'), range = lab.querySelector('.lab-controls input[type=range]');
    const times = [], last = Number(range.max);
    for (let k = 0; k < moves; k++) {
        const drawn = new Promise(done => lab.addEventListener('lab:drawn', e => done(e.detail.ms), { once: true }));
        range.value = (Number(range.value) + 1) % (last + 1);
        range.dispatchEvent(new Event('input'));
        times.push(await drawn);
    }
    return times;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from tools.browser import NoBrowser, chromium

    try:
        with chromium() as running:
            yield running
    except NoBrowser as error:
        pytest.skip(str(error))


def measured(browser: Any, url: str, slower: int = 1) -> dict[str, float]:
    """Open a page afresh; return its figures.

    Returns
    -------
    dict of str to float
        requests and kilobytes (as sent) until the page has loaded; seconds of the main thread until then; layout shift
        after every lab has been jumped to; milliseconds from a lab's coming into view to alive (the chart library is
        there by then), and from slider to chart (median).
    """
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    session.send("Performance.enable")
    sent: list[float] = []
    embedded: set[str] = set()
    session.on(
        "Network.requestWillBeSent",
        lambda event: embedded.add(event["requestId"]) if event["request"]["url"].startswith("data:") else None,
    )
    session.on(
        "Network.loadingFinished",
        lambda event: sent.append(event["encodedDataLength"]) if event["requestId"] not in embedded else None,
    )
    if slower > 1:
        session.send("Emulation.setCPUThrottlingRate", {"rate": slower})
    page.add_init_script(WATCH)
    page.goto(url, wait_until="load")
    page.wait_for_timeout(500)
    found = {"requests": float(len(sent)), "kilobytes": sum(sent) / 1000}
    metrics = {m["name"]: m["value"] for m in session.send("Performance.getMetrics")["metrics"]}
    found["main_thread_s"] = metrics["TaskDuration"]
    alive = []
    for lab in page.locator(".lab[data-lab]").all():
        lab.evaluate("lab => lab.scrollIntoView()")
        waited = lab.evaluate(
            """async lab => {
                const since = performance.now();
                while (!lab.classList.contains('lab-ready')) await new Promise(done => setTimeout(done, 5));
                return performance.now() - since;
            }"""
        )
        alive.append(waited)
        page.wait_for_timeout(200)
    found["shift"] = page.evaluate("window.shifted || 0")
    if alive:
        found["alive_ms"] = statistics.median(alive[1:] or alive)
        found["slider_ms"] = statistics.median(page.evaluate(SLIDE, MOVES))
    context.close()
    return found


@pytest.mark.parametrize("name", PAGES)
def test_a_page(benchmark: Any, browser: Any, name: str) -> None:
    from tools.serve import serving

    if not (HTML / f"{name}.html").is_file():
        pytest.skip("the book is not built: make book SERVE=0")
    with serving(HTML) as url:
        found = benchmark.pedantic(measured, (browser, f"{url}/{name}.html"), rounds=1)
    benchmark.extra_info.update(found)
    print(f"{name}: " + ", ".join(f"{key} {value:.3g}" for key, value in found.items()))
    assert found["shift"] < SHIFT
