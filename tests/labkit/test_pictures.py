"""The matplotlib picture, the still of the page and the widgets of a kernel."""

from __future__ import annotations

import io
import math
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from PIL import Image

from labcode.course.labs import show
from labcode.labkit.kernel_view import Live
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.page_view import Still
from labcode.labkit.panel import Axis, Panel, Series
from labcode.labkit.render_matplotlib import Picture, draw, tick_text
from labcode.labkit.svg import inline
from tests.labkit.demo import LAB


def pixels(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)))


def test_redrawing_gives_the_picture_that_drawing_anew_gives():
    picture = Picture(LAB.run().panels)
    first = pixels(picture.png())
    for setting in ({"rate": 30}, {"servers": 3}, {"order": "sjf"}, {}):
        panels = LAB.run(**setting).panels
        picture.update(panels)
        kept = pixels(picture.png())
        picture._kept.clear()
        picture._frames = [None] * len(panels)
        picture.update(panels)
        np.testing.assert_array_equal(kept, pixels(picture.png()))
        assert (kept != first).any() == bool(setting)


def test_everything_is_drawn_and_named():
    figure = draw(LAB.run().panels)
    words = " ".join(text.get_text() for ax in figure.axes for text in ax.texts)
    names = [text.get_text() for ax in figure.axes for text in ax.get_legend().get_texts()]
    for panel in LAB.run().panels:
        assert panel.title in words and panel.x.label in words and panel.y.label in words
        assert all(mark.label in words for mark in panel.marks)
        assert all(s.name in names for s in panel.series)


def test_an_empty_panel_says_no_data():
    panel = Panel("k", "T", Axis("x"), Axis("y"), (Series("s", "line", (1, 2), (math.nan, math.nan)),))
    (ax,) = draw([panel]).axes
    assert "no data" in [text.get_text() for text in ax.texts]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["s (no data)"]


def test_a_picture_keeps_its_number_of_panels():
    with pytest.raises(ValueError, match="panels: 1 of them: the picture has 4"):
        Picture(LAB.run().panels).update(LAB.run().panels[:1])


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.5, "0.5"), (9999, "9999"), (10_000, "10k"), (2.5e6, "2.5M"), (3e9, "3G")]
)
def test_ticks_are_short(value, text):
    assert tick_text(value) == text


def test_the_still_is_small_themed_and_has_a_text_alternative():
    html = Still(LAB)._repr_html_()
    ET.fromstring(html)
    assert len(html) < 60_000
    assert f'aria-label="{LAB.alt_text(LAB.run(), LAB.default)}"' in html
    root = ET.fromstring(html)
    assert "data-covered" in root.attrib, "covered until the question is answered"
    stage = next(node for node in root.iter("div") if node.get("class") == "lab-stage")
    said = "".join(stage.itertext())
    assert LAB.run().headline in said and all(panel.text in said for panel in LAB.run().panels)
    rest = "".join(root.itertext()).replace(said, "")
    assert LAB.predict.question in rest and all(option in rest for option in LAB.predict.options)
    assert LAB.run().headline not in rest and "arithmetic" in rest
    assert LAB.in_words(LAB.default) in said
    pictures = list(stage.iter("figure"))
    assert len(pictures) == len(LAB.run().panels)
    svg = html[html.index('class="lab-picture"') : html.rindex("</svg>")]
    assert "var(--lab-ours)" in svg and "#0072b2" not in svg
    assert "<style" not in svg, "it would apply to the whole page"
    assert html == Still(LAB)._repr_html_()


def test_moving_a_widget_redraws_and_reset_goes_back():
    live = Live(LAB)
    first = live.picture.value
    live.controls["rate"].value = 30
    assert live.picture.value != first and "30 req/s" in live.headline.value
    live.controls["order"].value = "sjf"
    assert live.setting == {"rate": 30, "servers": 1, "order": "sjf"}
    live.reset()
    assert live.setting == LAB.default and live.picture.value == first


def test_a_kernel_asks_first_covers_and_judges():
    live = Live(LAB)
    *options, _show_me = live.question.children[1].children
    assert live.covered and [b.description for b in options] == list(LAB.predict.options)
    options[0].click()
    assert not live.covered and live.answer == LAB.predict.options[0] and live.setting == LAB.deciding
    said = live.question.children[0].value
    assert f"You said “{live.answer}”" in said and f"<b>{LAB.verdict().right}</b>" in said and LAB.verdict().why in said
    assert LAB.run(**LAB.deciding).headline in live.headline.value
    again = Live(LAB)
    again.commit(LAB.verdict().right)
    assert "Right: " in again.question.children[0].value
    shown = Live(LAB)
    shown.question.children[1].children[-1].click()
    assert shown.answer == "" and not shown.covered and "You said" not in shown.question.children[0].value
    moved = Live(LAB)
    moved.controls["rate"].value = 30
    assert not moved.covered and moved.answer is None and len(moved.question.children) == 2
    with pytest.raises(ValueError, match="answer = 'perhaps': known are"):
        Live(LAB).commit("perhaps")


def test_a_kernel_has_presets_a_challenge_and_opens_where_it_is_told():
    live = Live(LAB)
    assert "not yet" in live.goal.value and [chip.description for chip in live.presets] == list(LAB.presets)
    live.presets[0].click()
    assert live.setting == LAB.default | {"rate": 40} and not live.covered
    live.open(LAB.whole({"rate": 36, "servers": 2}))
    assert "✓ reached" in live.goal.value
    told = Live(LAB, {"servers": 3})
    assert told.setting == LAB.default | {"servers": 3} and not told.covered
    with pytest.raises(ValueError, match="rate = 3: known are 2"):
        Live(LAB, {"rate": 3})


def test_every_widget_has_a_label():
    assert [w.description for w in Live(LAB).controls.values()] == [c.label for c in LAB.controls]


def test_a_setting_that_is_not_possible_is_said_in_words_over_the_last_picture():
    def compute(n: int) -> Result:
        if n == 2:
            raise ValueError("n = 2: <must> be odd")
        return Result((Panel("k", "T", Axis("x"), Axis("y"), (Series("s", "line", (1, n), (1, n)),)),), "fine")

    live = Live(Lab("demo-odd", "Odd", (Control("n", "N", (1, 2, 3), 1),), compute))
    first = live.picture.value
    live.controls["n"].value = 2
    assert "n = 2: &lt;must&gt; be odd" in live.message.value and live.picture.value == first
    live.controls["n"].value = 3
    assert live.message.value == "" and live.picture.value != first


def test_an_unknown_view_is_refused(monkeypatch):
    monkeypatch.setenv("LABCODE_LABS", "paper")
    with pytest.raises(ValueError, match="LABCODE_LABS = 'paper': known are live, page"):
        show(LAB)


def test_a_still_s_labels_keep_their_digits():
    """Places are rounded to a tenth of a point; what the reader reads is not."""
    panel = Panel("p", "Small", Axis("x", "s"), Axis("Share"), (Series("s", "line", (0.0, 0.01), (0.0, 1.0)),))
    svg = inline(draw([panel], (3.4, 2.2), plain=True), "Alternative", "salt")
    labels = [text for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg) if text[:1].isdigit()]
    assert len(labels) == len(set(labels)) + 1, f"only the two zeros are alike: {labels}"
    assert "0.002" in labels and "0.0" not in labels
    ET.fromstring(svg)
