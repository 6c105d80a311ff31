"""Runs that move: what a lane shows is what the run did, in Python and in the page alike."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labcode import simulate, workload
from labcode.course.labs import find
from labcode.course.labs.ch12_flow import serve as serve_pages
from labcode.labkit.flow import Flow, Lane, Life, compact, counts, lane_of, most_tokens
from labcode.labkit.flow_picture import frame, pictures
from labcode.labkit.kernel_view import FRAMES, Live
from labcode.labkit.page_data import page_data, script
from labcode.labkit.page_view import Still
from tests.labkit.test_in_a_browser import PAGE, SCRIPTS
from tools.serve import serving
from tools.sphinx_book import LAB_ASSETS

ASSETS = Path(__file__).resolve().parents[2] / "book" / "assets"
LAB = find("ch07-flow")
CHUNKED, PREEMPTED = find("ch10-flow"), find("ch12-flow")


def both() -> dict[str, Any]:
    load = workload.from_arrays([0.0, 0.0, 0.01, 0.02, 0.02, 0.5], [100, 200, 50, 60, 70, 80], [3, 9, 5, 1, 7, 2])
    return {
        name: simulate(load, engine=name, max_bs=2, memory="oracle", capacity=1024) for name in ("static", "continuous")
    }


def lanes() -> dict[str, tuple[Any, Lane]]:
    return {
        name: (run, lane_of(run, name, 2, 32, lambda prompt, output: prompt + output, whole=name == "static"))
        for name, run in both().items()
    }


@pytest.mark.parametrize("name", ["static", "continuous"])
def test_a_lane_is_what_the_run_did(name):
    run, lane = lanes()[name]
    table = run.requests
    for i, life in enumerate(lane.lives):
        np.testing.assert_allclose(life.tokens, run.token_times(i), atol=5e-5)
        assert abs(life.admitted - table["admitted"][i]) < 5e-5 and life.held == run.load.prompt[i] + run.load.output[i]
        assert life.left >= life.tokens[-1] and (name == "static" or life.left == life.tokens[-1])
    # Never two in one seat, never more than there are.
    for t in np.linspace(0, lane.end, 200):
        seated = [life.seat for life in lane.lives if life.admitted <= t < life.left]
        assert len(set(seated)) == len(seated) <= 2 and all(0 <= seat < 2 for seat in seated)
        assert sum(counts(lane, t)) == sum(life.arrival <= t for life in lane.lives)
    if name == "static":
        assert any(counts(lane, t)[2] for t in np.linspace(0, lane.end, 200)), "somebody sits there finished"


@pytest.mark.parametrize("setting", [{"blocks": 20}, {"blocks": 28, "action": "swap"}], ids=str)
def test_who_is_preempted_leaves_its_seat_and_comes_back(setting):
    whole = PREEMPTED.whole(setting)
    run, _ = serve_pages(whole["blocks"], whole["action"], whole["victim"])
    lane = PREEMPTED.run(**setting).flow.lanes[1]
    assert run.record.preemptions.sum() > 0
    for life, lost in zip(lane.lives, run.record.preemptions):
        assert len(life.stays) == (1 + lost if lost else 0)
        assert not lost or (life.stays[0][0] == life.admitted and life.stays[-1][1] == life.left)
    for t in np.linspace(0, lane.end, 200):
        seats = [stay[1] for life in lane.lives if (stay := life.stay(t))]
        assert len(set(seats)) == len(seats) <= lane.seats
        assert sum(counts(lane, t)) == sum(life.arrival <= t for life in lane.lives)
    # Where a record has the number of those who run at a time, the lane shows as many.
    segments = run.record.segments
    for start, end, n in zip(segments["start"], segments["end"], segments["n_prefill"] + segments["n_decode"]):
        assert sum(counts(lane, (start + end) / 2)[1:3]) == n


def test_a_prompt_in_chunks_fills_its_blocks_step_by_step():
    lane = CHUNKED.run(length=4000, budget=512).flow.lanes[1]
    (long,) = (life for life in lane.lives if life.chunks)
    assert long.chunks[-1] == (long.tokens[0], 4000) and len(long.chunks) > 7
    written = []
    for t, _ in long.chunks:
        found = re.search(r"KV cache: (\d+) of", frame(lane, t + 1e-6, most_tokens([lane])))
        written.append(int(found[1]))
    assert written == sorted(written) and written[-1] - written[0] > 90


def test_a_frame_has_a_notch_for_each_token_and_a_cell_for_each_block():
    _, lane = lanes()["continuous"]
    t = 0.03
    drawn = frame(lane, t, most_tokens([lane]))
    waiting, running, _, gone = counts(lane, t)
    assert f"waiting {waiting}<" in drawn and f"seats {running} of 2<" in drawn and f"gone {gone} of 6<" in drawn
    step = (4200 - 1000 - 340) // 9
    made = [sum(time <= t for time in life.tokens) for life in lane.lives if life.admitted <= t < life.left]
    lengths = [int(n) // step for n in re.findall(r'h(\d+)" stroke="var\(--lab-ours\)"', drawn)]
    assert sorted(lengths) == sorted(n for n in made if n)
    assert drawn.count("v96h") == lane.blocks == 32


def test_bad_flows_are_refused():
    _, lane = lanes()["static"]
    with pytest.raises(ValueError, match=r"still = 99: must be from 0"):
        Flow("T", (lane,), 99)
    other = Lane("x", 2, 8, 32, (Life(9.0, 9.0, 9.1, (9.05,), 1, 2, 0),))
    with pytest.raises(ValueError, match="lanes need the same arrivals"):
        Flow("T", (lane, other), 0)
    with pytest.raises(ValueError, match="seats = 1: request"):
        lane_of(both()["continuous"], "x", 1, 32, lambda prompt, output: prompt + output)
    cut = simulate(workload.chat(n=20, rate=50, seed=0), stop_at=0.1)
    with pytest.raises(ValueError, match="every request must have finished"):
        lane_of(cut, "x", 256, 32, lambda prompt, output: 1)


def test_a_kernel_plays_it_too():
    live = Live(LAB)
    live.commit("")
    flow = LAB.run(**LAB.deciding).flow
    assert live.player.layout.display == "" and live.play.max == FRAMES
    assert live.clock.value == round(FRAMES * flow.still / flow.end)
    before = live.lanes.value
    live.clock.value = FRAMES
    assert live.lanes.value != before and "24 of 24 gone" in live.lanes.value and "var(" not in live.lanes.value
    live.controls["seats"].value = 8
    assert "seats 0 of 8" in live.lanes.value
    assert Live(find("ch09-seats")).player.layout.display == "none"


def test_the_still_shows_a_frozen_frame_with_its_words():
    html, flow = Still(LAB)._repr_html_(), LAB.run().flow
    assert all(picture in html for picture in pictures(flow, flow.still)) and flow.in_words(flow.still) in html


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, built_book: Path) -> Path:
    folder = tmp_path_factory.mktemp("flow")
    static = folder / "_static"
    (static / "labs").mkdir(parents=True)
    for name in LAB_ASSETS:
        shutil.copy(ASSETS / name, static)
    for name in ("vega-bundle.js", f"{LAB.id}.js"):
        shutil.copy(built_book.parent / "assets" / "labs" / name, static / "labs")
    (folder / "index.html").write_text(PAGE.format(scripts=SCRIPTS, lab=Still(LAB)._repr_html_(), again=""))
    return folder


def opened(browser: Any, url: str, **options: Any) -> Any:
    context = browser.new_context(viewport={"width": 1200, "height": 1000}, **options)
    context.add_init_script("localStorage.setItem('labcode-answer:ch07-flow', '')")
    page = context.new_page()
    page.set_default_timeout(15_000)
    page.goto(f"{url}/index.html")
    page.locator("#ch07-flow.lab-ready").wait_for()
    return page


LINKED = """lab => [...lab.querySelectorAll('.lab-chart')]
    .map((chart) => chart.querySelectorAll('.mark-rule line[stroke-opacity="0.6"]').length)"""


@pytest.mark.slow
@pytest.mark.browser
def test_what_is_pointed_at_is_marked_in_the_other_panels(browser: Any, site: Path) -> None:
    with serving(site) as url:
        page = opened(browser, url, reduced_motion="reduce")
        lab, marked = page.locator("#ch07-flow"), page.locator("#ch07-flow rect.lab-marked")
        ttft = lab.locator(".lab-chart").first
        page.wait_for_function(f"({LINKED})(document.querySelector('#ch07-flow'))[1] === 1")  # the time that is shown
        assert marked.count() == 0
        ttft.focus()
        for _ in range(9):
            page.keyboard.press("ArrowRight")
        nine = [lane.lives[8] for lane in LAB.run().flow.lanes]
        t = 0.5 * (nine[0].arrival + min(life.left for life in nine))
        lab.locator(".lab-clock").evaluate("(c, t) => { c.value = t; c.dispatchEvent(new Event('input')); }", 1e4 * t)
        assert marked.count() == 2, "request 9 in both lanes"
        assert lab.evaluate(
            "l => [...l.querySelectorAll('.lab-marked')].every((r) => r.nextElementSibling.textContent === '9')"
        )
        assert "Request, by arrival: 9" in lab.locator(".lab-stage p[role=status]").last.inner_text()
        page.keyboard.press("Escape")
        assert marked.count() == 0
        box = ttft.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        assert marked.count() == 2
        page.mouse.move(0, 0)
        assert marked.count() == 0


@pytest.mark.slow
@pytest.mark.browser
def test_a_new_scale_is_said_and_eased_to_the_same_end(browser: Any, site: Path) -> None:
    drawn = []
    with serving(site) as url:
        for motion in ("reduce", "no-preference"):
            page = opened(browser, url, reduced_motion=motion)
            lab = page.locator("#ch07-flow")
            before = lab.locator(".lab-chart").first.evaluate("c => c.querySelector('.role-axis-label').textContent")
            lab.get_by_label("Seats").focus()
            page.keyboard.press("Home")
            lab.locator(".lab-panel-title[data-scale='new scale']").first.wait_for()
            words = lab.locator(".lab-stage > p[role=status]").last.inner_text()
            assert "Time to first token, request by request: TTFT now up to" in words
            page.wait_for_timeout(700)
            chart = lab.locator(".lab-chart").first
            drawn.append(
                chart.evaluate("c => [...c.querySelectorAll('.role-axis-label text')].map((t) => t.textContent)")
            )
            assert before not in drawn[-1]
        lab.locator(".lab-panel-title[data-scale]").first.wait_for(state="detached")
    assert sorted(drawn[0]) == sorted(drawn[1]) and len(drawn[0]) > 4


@pytest.mark.slow
@pytest.mark.browser
def test_page_and_python_draw_the_same_frames(browser: Any, site: Path) -> None:
    settings = [LAB.default, {"rate": 80, "seats": 2, "lengths": "all alike"}, {"rate": 10, "seats": 8}]
    flows = [LAB.run(**setting).flow for setting in settings]
    flows += [CHUNKED.run(length=4000, budget=512).flow, CHUNKED.run(others=15).flow, PREEMPTED.run(blocks=20).flow]
    with serving(site) as url:
        page = opened(browser, url)
        for flow in flows:
            times = [*np.linspace(0, flow.end, 40).tolist(), *flow.events()[::9]]
            drawn = page.evaluate(
                """([flow, times]) => {
                    const { decode, frame, sentence } = window.labFlow, known = decode(flow);
                    return times.map(t => known.lanes.map(lane => [frame(lane, t, known.longest), sentence(lane, t)]));
                }""",
                [json.loads(json.dumps(compact(flow))), times],
            )
            for t, states in zip(times, drawn, strict=True):
                assert [state[0] for state in states] == [
                    frame(lane, t, most_tokens(flow.lanes)) for lane in flow.lanes
                ]
                assert " ".join(state[1] for state in states) == flow.in_words(t)
        page.context.close()


@pytest.mark.slow
@pytest.mark.browser
def test_the_flow_is_played_paused_and_stepped_by_keyboard(browser: Any, site: Path) -> None:
    events = LAB.run().flow.events()
    with serving(site) as url:
        page = opened(browser, url)
        clock = page.locator(".lab-clock")
        clock.focus()
        clock.press("Home")
        assert page.locator(".lab-time").inner_text() == "0 ms"
        page.get_by_role("button", name="Next ›").press("Enter")
        assert int(clock.input_value()) == round(events[1] * 1e4)
        page.get_by_role("button", name="Next ›").press("Enter")
        page.get_by_role("button", name="‹ Back").press("Enter")
        assert int(clock.input_value()) == round(events[1] * 1e4)
        play = page.locator(".lab-play")
        play.press("Space")
        assert play.inner_text() == "Pause"
        page.wait_for_timeout(700)
        play.press("Enter")
        at = int(clock.input_value())
        assert at > round(events[1] * 1e4) and play.inner_text() == "Play"
        page.wait_for_timeout(300)
        assert int(clock.input_value()) == at, "paused"
        # A picture takes less than a thirtieth of a second, even on a busy machine.
        cost = page.evaluate(
            """() => {
                const { decode, frame } = window.labFlow, known = decode(window.labData['ch07-flow'].flows[0]);
                const box = document.querySelector('.lab-lane'), times = [];
                for (let k = 0; k < 60; k++) {
                    const since = performance.now();
                    for (const lane of known.lanes) {
                        box.innerHTML = frame(lane, known.end * k / 60, known.longest, 0.01);
                    }
                    box.getBoundingClientRect();
                    times.push(performance.now() - since);
                }
                return times.sort((a, b) => a - b)[30];
            }"""
        )
        assert cost < 33, f"{cost:.1f} ms a frame"
        page.context.close()
        # Who asks for less motion steps only.
        page = opened(browser, url, reduced_motion="reduce")
        assert not page.locator(".lab-play").is_visible()
        page.get_by_role("button", name="Next ›").click()
        page.context.close()


def test_the_data_of_a_flow_is_small():
    flow = LAB.run().flow
    text = script({"id": "x", "flow": compact(flow)})
    assert len(text) < 8_000, "a trace, not a picture of every iteration"


def test_a_flow_alone_is_a_lab() -> None:
    """The front page's: no chart in either view, and the page is told to let it play."""
    front = find("ch00-front")
    result = front.run()
    assert result.panels == () and result.flow is not None
    data = page_data(front, [front.run(**setting) for setting in front.states()])
    assert data["panels"] == [] and data["plays"] is True and len(data["flows"]) == front.size
    assert "lab-chart" not in Still(front)._repr_html_()
    live = Live(front)
    assert live.picture.layout.display == "none" and live.player.layout.display == ""
    live.controls["rate"].value = 80
    assert live.headline.value.count("80 requests/s") == 1
