"""The page's data file: what the page reads back is what the lab computed, to four digits."""

from __future__ import annotations

import gzip
import json
import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labcode.course import labs
from labcode.labkit import build, digest
from labcode.labkit.build import build_lab, compute_all
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.page_data import page_data, rounded, script
from labcode.labkit.panel import Axis, Panel, Series
from labcode.labkit.swatch import swatch
from labcode.labkit.theme import HATCHES, INK_DARK, INK_LIGHT, ROLE_LOOKS, colours
from tests.labkit.demo import LAB

ASSETS = Path(__file__).resolve().parents[2] / "book" / "assets"


@given(st.lists(st.floats(-1e9, 1e9) | st.just(math.nan), max_size=6))
def test_rounding_is_finer_than_a_thousandth_of_each_value(values):
    short = rounded(values)
    assert len(short) == len(values)
    for v, s in zip(values, short, strict=True):
        assert s is None if math.isnan(v) else abs(s - v) <= 5.1e-4 * abs(v)
    json.dumps(short, allow_nan=False)


def test_rounding_keeps_what_little_difference_there_is():
    assert rounded([1000.01, 1000.02]) == [1000.01, 1000.02]
    assert rounded([123456.0]) == [123500]


@pytest.fixture(scope="module")
def data():
    return page_data(LAB, compute_all(LAB, workers=1))


def test_the_page_reads_back_every_state(data):
    for number, params in enumerate(LAB.states()):
        row = iter(data["states"][number])
        result = LAB.run(**params)
        assert data["strings"][next(row)] == result.headline
        assert data["strings"][next(row)] == LAB.alt_text(result, params)
        for panel, constant in zip(result.panels, data["panels"], strict=True):
            assert data["strings"][next(row)] == panel.text
            marks = data["marks"][next(row)]
            assert [(kind, data["strings"][label]) for kind, _, _, label in marks] == [
                (mark.kind, mark.label) for mark in panel.marks
            ]
            x_range, y_range = data["arrays"][next(row)], data["arrays"][next(row)]
            assert constant["categories"] == x_range or x_range[0] < x_range[1]
            for s in panel.series:
                x, y, y2 = (None if i < 0 else data["arrays"][i] for i in (next(row), next(row), next(row)))
                assert x == (list(s.x) if s.categorical else rounded(s.x)) and y == rounded(s.y)
                assert y2 == (None if s.y2 is None else rounded(s.y2))
                known = [v for v in y if v is not None]
                assert all(y_range[0] <= v <= y_range[1] for v in known)
        assert next(row, None) is None


def test_the_page_knows_the_question_and_its_verdict(data):
    ask, verdict = data["ask"], LAB.verdict()
    assert ask["options"][ask["right"]] == verdict.right and ask["why"] == verdict.why
    place = 0
    for j, control in zip(ask["reveal"], LAB.controls, strict=True):
        place = place * len(control.values) + j
    assert data["strings"][data["states"][place][0]] == LAB.run(**LAB.deciding).headline


def test_axes_have_one_range_for_every_value_of_what_changes_the_scale():
    def compute(size: int, k: int) -> Result:
        return Result(
            (Panel("k", "T", Axis("x"), Axis("y"), (Series("s", "line", (0, size), (0, size * k)),)),), "said"
        )

    controls = (Control("size", "S", (1, 1000), 1), Control("k", "K", (1, 2), 1))

    def ranges(scaled_by: tuple[str, ...]) -> list[float]:
        lab = Lab("demo-scale", "Scale", controls, compute, scaled_by=scaled_by)
        data = page_data(lab, compute_all(lab, 1))
        return [data["arrays"][row[4]][1] for row in data["states"]]

    assert len(set(ranges(()))) == 1
    small, same, large, also = ranges(("size",))
    assert small == same == 1 and large == also == 1000


def test_the_script_registers_the_data_and_cannot_end_its_own_tag(data):
    text = script(data | {"title": "</script>"})
    assert "</script>" not in text
    body = text[text.index("]=") + 2 :].rstrip(";\n")
    assert json.loads(body)["controls"] == data["controls"]


def two(first: Panel, second: Panel) -> Lab:
    control = Control("n", "N", (0, 1), 0)
    return Lab("demo-two", "Two", (control,), lambda n: Result(((first, second)[n],), "said"))


def test_panels_that_change_from_state_to_state_are_refused():
    a = Panel("k", "T", Axis("x"), Axis("y"), (Series("s", "line", (1,), (1,)),))
    b = Panel("k", "other", Axis("x"), Axis("y"), (Series("s", "line", (1,), (1,)),))
    with pytest.raises(ValueError, match="'demo-two': panel 'k': key, title and axes must be the same"):
        page_data(two(a, b), compute_all(two(a, b), 1))
    c = Panel("k", "T", Axis("x"), Axis("y"), (Series("s", "step", (1,), (1,)),))
    with pytest.raises(ValueError, match="'demo-two': panel 'k': series 's' is step, ours in one"):
        page_data(two(a, c), compute_all(two(a, c), 1))


def test_a_second_build_computes_nothing_and_a_broken_file_is_renewed(tmp_path):
    assert build_lab(LAB, tmp_path, workers=2) is True
    path = tmp_path / f"{LAB.id}.js"
    text = path.read_text(encoding="utf-8")
    assert len(gzip.compress(text.encode())) < 200_000
    assert build_lab(LAB, tmp_path) is False
    path.write_text("// old\n" + text, encoding="utf-8")
    assert build_lab(LAB, tmp_path) is True
    assert path.read_text(encoding="utf-8") == text
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_too_much_data_is_refused_with_the_name_of_the_lab(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "MAX_COMPRESSED", 100)
    with pytest.raises(ValueError, match=r"'ch00-demo': .* bytes compressed: at most 100"):
        build_lab(LAB, tmp_path, workers=1)
    assert list(tmp_path.iterdir()) == []


def test_a_state_that_cannot_be_computed_is_named():
    def compute(n: int) -> Result:
        raise KeyError("lost")

    lab = Lab("demo-bad", "Bad", (Control("n", "N", (0, 1), 0),), compute)
    for workers in (1, 2):
        with pytest.raises(RuntimeError, match=r"'demo-bad' at \{'n': 0\}: KeyError"):
            compute_all(lab, workers)


def test_the_digest_follows_imports_and_nothing_else():
    here = [path.name for path in digest.sources(Path(labs.__file__).with_name("ch03_little.py"))]
    assert "ch03_little.py" in here and "panel.py" in here and "checks.py" in here
    assert "ch09_knobs.py" not in here


def test_page_and_python_agree_on_colours_and_hatches():
    css = (ASSETS / "labs.css").read_text(encoding="utf-8")
    light, dark = (css[css.index(start) :].split("}")[0] for start in (":root", 'html[data-theme="dark"]'))
    for theme, text in (("light", light), ("dark", dark)):
        given_colours = dict(re.findall(r"--lab-(\w+): (#[0-9a-f]{6});", text))
        assert colours(theme).items() <= given_colours.items(), theme
    js = (ASSETS / "labs-charts.js").read_text(encoding="utf-8")
    assert all(f'{role}: "{tile}"' in js for role, tile in HATCHES.items())
    printed = css[css.index("@media print") :]
    assert colours("light").items() <= dict(re.findall(r"--lab-(\w+): (#[0-9a-f]{6});", printed)).items()
    for role, look in ROLE_LOOKS.items():
        drawn = swatch(Series("s", "line", (1,), (1,), role=role), shapes=True)
        assert f"var(--lab-{role})" in drawn and f'stroke-dasharray="{" ".join(f"{v:g}" for v in look.dash)}"' in drawn


def contrast(a: str, b: str) -> float:
    """Contrast ratio of WCAG 2.1."""

    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        parts = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    high, low = sorted((light(a), light(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("inks", [INK_LIGHT, INK_DARK], ids=["light", "dark"])
def test_contrast_is_enough(inks):
    theme = "light" if inks is INK_LIGHT else "dark"
    for role in ROLE_LOOKS:
        assert contrast(colours(theme)[role], inks["paper"]) >= 3, role
    for ink in ("ink", "quiet", "limit", "mark"):
        assert contrast(inks[ink], inks["paper"]) >= 4.5, ink


def test_no_two_roles_differ_by_colour_alone():
    assert len({look.dash for look in ROLE_LOOKS.values()}) == len(ROLE_LOOKS)
    assert len({look.shape for look in ROLE_LOOKS.values()}) == len(ROLE_LOOKS)
    assert len({look.hatch for look in ROLE_LOOKS.values()}) == len(ROLE_LOOKS)
