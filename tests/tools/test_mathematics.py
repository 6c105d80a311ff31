"""Formulas set when the book is built: the forms that MathML Core knows, and TeX where that cannot be had."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.math_font import characters, italics, write_font
from tools.mathematics import NotSet, mathml, with_mathml


@pytest.mark.parametrize(
    ("latex", "parts"),
    [
        (r"\mathbb E[\mathcal A]", ["<mi>𝔼</mi>", "<mi>𝒜</mi>"]),
        (r"\mathrm{TTFT}_i", ["<mi>TTFT</mi>"]),
        (r"26{,}624", ["<mn>26,624</mn>"]),
        (r"\Bigl\lfloor x \Bigr\rfloor", ['form="prefix"', ">⌊</mo>", 'form="postfix"', ">⌋</mo>"]),
        (r"\lfloor x \rfloor", ['<mo stretchy="false">⌊</mo>']),
        (r"\max_i O_i", ["<munder>", 'movablelimits="true"', 'rspace="0.167em">max</mo>']),
        (r"\max(a, b)", ['rspace="0">max</mo>']),
        (r"\ln 100", ['rspace="0.167em">ln</mo>']),
        (r"\sum_i q_i", ["<munder><mo", ">∑</mo>"]),
        (r"\bar c + \overline N", ['<mo stretchy="false">¯</mo>', '<mo stretchy="true">‾</mo>']),
        (r"\hat T", ['<mo stretchy="false">ˆ</mo>']),
        (r"\text{carried in} - \text{a}", ["<mi>carried\xa0in</mi>", '<mi mathvariant="normal">a</mi>']),
        (r"(-1) - 2", ['<mo form="prefix">−</mo><mn>1</mn>', "<mo>−</mo><mn>2</mn>"]),
        (r"a \sim b", ["<mo>∼</mo>"]),
        (r"\Delta", ['<mi mathvariant="normal">Δ</mi>']),
        (r"a/b", ['<mo lspace="0" rspace="0">/</mo>']),
        (r"\begin{aligned} a &= b \\ c &= d \end{aligned}", ["<mtr><mtd><mi>a</mi></mtd><mtd>"]),
        (r"\xrightarrow{n}", ['<mover><mo stretchy="true">→</mo>']),
    ],
)
def test_a_formula_in_the_form_of_mathml_core(latex: str, parts: list[str]) -> None:
    made = mathml(latex, True)
    assert all(part in made for part in parts), made
    assert made.startswith('<math display="block" alttext="')
    assert not re.search(r'mathvariant="(?!normal)|columnalign|<mpadded', made)


BAD = (r"\unknown x", r"\frac{a}", r"\left( a", r"\begin{cases} a \end{cases}", r"a & b", "{")


@pytest.mark.parametrize("latex", BAD)
def test_what_cannot_be_set_says_so_and_stays_tex(latex: str) -> None:
    with pytest.raises(NotSet):
        mathml(latex, False)
    page = rf'<span class="math notranslate nohighlight">\({latex.replace("&", "&amp;")}\)</span>'
    assert with_mathml(page) == page


def test_an_equation_keeps_its_anchor_and_its_number() -> None:
    inside = r"\[ X \le \frac{N}{R} \tag{13.1} \]".replace("<", "&lt;")
    done = with_mathml(f'<div class="math notranslate nohighlight" id="equation-x">{inside}</div>')
    assert done.startswith('<div class="math notranslate nohighlight numbered" id="equation-x"><math display="block"')
    assert done.endswith('</math><span class="equation-number">(13.1)</span></div>')
    assert r'alttext="X \le \frac{N}{R}"' in done and r"\tag" not in done
    assert with_mathml(done) == done


def test_the_face_has_what_formulas_use_slanted_letters_too(tmp_path: Path) -> None:
    text = characters(["<p>q</p><math><mi>λ</mi><mo>&lt;</mo><mn>𝟏</mn></math>"])
    assert {"λ", "𝜆", "<", "𝟏", "x", "𝑥"} <= set(text) and "∑" not in text
    assert italics()["h"] == "ℎ" and italics()["ε"] == "𝜀" and italics()["φ"] == "𝜑" and italics()["ϕ"] == "𝜙"
    mark = write_font(tmp_path, text)
    sheet = tmp_path / "book-math.css"
    assert 'font-family: "Book Math"' in sheet.read_text() and 10_000 < sheet.stat().st_size < 80_000
    before = sheet.stat().st_mtime_ns
    assert write_font(tmp_path, text) == mark and sheet.stat().st_mtime_ns == before
    assert write_font(tmp_path, text + "∑") != mark
