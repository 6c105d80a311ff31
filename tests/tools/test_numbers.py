"""Numbers tied to code: written, checked, found where they are missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from tools.anchors import anchors, fill, split
from tools.numbers import main, page_source
from tools.sentences import sentence_at, sentences
from tools.typed_numbers import typed_numbers

CODE = "step, share, name, pair = 0.0123, 0.857, 'memory', '64.3 ± 1.2'"
TEXT = "# Title\n\nA step takes 12.3<!--1e3 * step:.1f--> ms. It is 86%<!--share:.0%--> reading."


def notebook(*cells: tuple[str, str]) -> Any:
    made = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    new = {"code": nbformat.v4.new_code_cell, "markdown": nbformat.v4.new_markdown_cell}
    made.cells = [new[kind](text, id=f"cell-{i}") for i, (kind, text) in enumerate(cells)]
    return made


@pytest.mark.parametrize(
    ("body", "expression", "spec"),
    [
        ("x:.1f", "x", ".1f"),
        ("x", "x", ""),
        ('rows["a:b"]:,.0f', 'rows["a:b"]', ",.0f"),
        ('rows["a:b"]', 'rows["a:b"]', ""),
        ("x[1:3]", "x[1:3]", ""),
        ("x[1:3].sum():+.2e", "x[1:3].sum()", "+.2e"),
        ("{1: 2}[1]:d", "{1: 2}[1]", "d"),
    ],
)
def test_the_last_colon_begins_the_format(body: str, expression: str, spec: str) -> None:
    assert split(body) == (expression, spec)


def test_a_comment_that_is_no_expression_is_refused() -> None:
    with pytest.raises(ValueError, match="not an expression"):
        anchors("5<!--to do-->")
    assert anchors("5<!-- to do -->") == [], "with a space in front it is a comment like any other"


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        ("about 1<!--x-->", "12.5", "about 12.5<!--x-->"),
        ("about 1,234.5<!--x--> ms", "7", "about 7<!--x--> ms"),
        ("from -3<!--x-->", "-4", "from -4<!--x-->"),
        ("up to 10-3<!--x-->", "4", "up to 10-4<!--x-->"),
        ("1e-06<!--x-->", "2e-07", "2e-07<!--x-->"),
        ("**98%<!--x-->**", "97%", "**97%<!--x-->**"),
        ("(1<!--x-->)", "2", "(2<!--x-->)"),
        ("$x =$ 1<!--x-->", "2", "$x =$ 2<!--x-->"),
        ("| 1<!--x--> |", "2", "| 2<!--x--> |"),
        ("64.3 ± 1.2<!--x--> req/s", "70.1 ± 0.9", "70.1 ± 0.9<!--x--> req/s"),
        ("64.3<!--y--> ± 1.2<!--x-->", "0.9", "64.3<!--y--> ± 0.9<!--x-->"),
        ("bound by memory<!--x-->", "compute", "bound by compute<!--x-->"),
    ],
)
def test_only_the_number_in_front_of_its_anchor_is_replaced(before: str, value: str, after: str) -> None:
    assert fill(before, {"format((x), '')": value})[0] == after


def test_filling_twice_changes_nothing_more() -> None:
    values = {"format((1e3 * step), '.1f')": "13.0", "format((share), '.0%')": "9%"}
    once, changes = fill(TEXT, values)
    assert [(old, new) for _, old, new in changes] == [("12.3", "13.0"), ("86%", "9%")]
    assert fill(once, values) == (once, [])


def test_an_anchor_without_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="no number in front"):
        fill("about <!--x-->", {"format((x), '')": "1"})
    with pytest.raises(ValueError, match="bar"):
        anchors("| 1<!--a | b--> |")


def test_code_holds_no_anchors() -> None:
    assert anchors("`185<!--x-->`\n\n```\n185<!--x-->\n```\n") == []


def test_measured_numbers_are_another_pass() -> None:
    text = "1<!--x--> and 2<!--measured y-->"
    values = {"format((x), '')": "8", "format((y), '')": "9"}
    assert fill(text, values)[0] == "8<!--x--> and 2<!--measured y-->"
    assert fill(text, values, only_measured=True)[0] == "1<!--x--> and 9<!--measured y-->"


# ---- from the code into the file


@pytest.fixture
def book(tmp_path: Path) -> Path:
    (tmp_path / "book").mkdir()
    (tmp_path / "labcode").mkdir()
    return tmp_path


@pytest.mark.slow
def test_stale_number_is_named_then_written(book: Path, capsys: pytest.CaptureFixture) -> None:
    path = book / "book" / "one.ipynb"
    later = "Here it is 5<!--step-->."
    first, more, took = "First 1<!--late:.0f--> s.", "step = 4; late = 7", "It took 3<!--measured step--> s."
    cells = [("markdown", first), ("code", CODE), ("markdown", TEXT), ("code", more)]
    nbformat.write(notebook(*cells, ("markdown", later), ("markdown", took)), path)
    assert main(["--check"], book) == 1
    said = capsys.readouterr().err
    assert "one.ipynb, cell cell-4: 5 should be 4 (step) in: Here it is 5." in said
    assert "cell cell-0: 1 should be 7" in said, "what is computed later can be told before"
    assert said.count("should be") == 2, "12.3 was right where it stands; a measured number may differ"
    assert main([], book) == 0
    assert "5 -> 4" in capsys.readouterr().out
    written = [cell.source for cell in nbformat.read(path, as_version=4).cells]
    assert written[0] == "First 7<!--late:.0f--> s." and written[2] == TEXT
    assert written[4] == "Here it is 4<!--step-->." and written[5] == "It took 3<!--measured step--> s."
    assert main(["--check"], book) == 0
    assert "1 notebooks, 0 to run" in capsys.readouterr().out, "nothing ran again"
    more = nbformat.read(path, as_version=4)
    more.cells[2].source = "Another number 0<!--step + 1:.2f-->."
    nbformat.write(more, path)
    assert main([], book) == 0
    assert nbformat.read(path, as_version=4).cells[2].source == "Another number 1.01<!--step + 1:.2f-->."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("anchor", "said"), [("nobody:.1f", "a name that no cell makes"), ("1 / 0", "ZeroDivisionError")]
)
def test_a_number_that_cannot_be_computed_is_named(
    book: Path, anchor: str, said: str, capsys: pytest.CaptureFixture
) -> None:
    nbformat.write(notebook(("code", CODE), ("markdown", f"It is 1<!--{anchor}-->.")), book / "book" / "one.ipynb")
    assert main([], book) == 1
    error = capsys.readouterr().err
    assert "one.ipynb" in error and "cell-1" in error and said in error


@pytest.mark.slow
def test_a_notebook_runs_with_the_labcode_beside_its_book(book: Path) -> None:
    (book / "labcode" / "__init__.py").write_text("ours = 42\n")
    path = book / "book" / "one.ipynb"
    nbformat.write(notebook(("code", "import labcode"), ("markdown", "It is 0<!--labcode.ours-->.")), path)
    assert main([], book) == 0
    assert nbformat.read(path, as_version=4).cells[1].source == "It is 42<!--labcode.ours-->."


def test_unknown_notebook_is_refused(book: Path) -> None:
    with pytest.raises(ValueError, match="no notebook of this name: none"):
        main(["none"], book)


def test_page_shows_its_own_measurements() -> None:
    text = nbformat.writes(notebook(("code", CODE), ("markdown", "1<!--step--> and 2<!--measured share-->")))
    shown = page_source(text, {"1: format((step), '')": "0.5", "1: format((share), '')": "0.9"})
    assert "1<!--step--> and 0.9<!--measured share-->" in shown


# ---- sentences and their marks


def test_a_mark_belongs_to_its_sentence_or_if_it_opens_a_paragraph_to_all_of_it() -> None:
    text = "<small>paper GPU</small> One is 1.5 s. Two.\n\nThree. Four <small>measured here</small>. Five."
    assert [(s.plain.split()[-1], sorted(s.marks)) for s in sentences(text)] == [
        ("s.", ["paper GPU"]),
        ("Two.", ["paper GPU"]),
        ("Three.", []),
        ("here.", ["measured here"]),
        ("Five.", []),
    ]
    assert sentence_at(text, text.index("Five")) == "Five."


@pytest.mark.parametrize(
    "text",
    [
        "<small>paper GPU</small> It is 3.7 times as fast.",
        "It is 3.7 times as fast <small>measured here</small>.",
        "- It takes 41 ms, not 12<!--x-->, <small>paper GPU</small>.",
        "It takes 41 ms (the lecture: 40 ms <small>quoted</small>) <small>paper GPU</small>.",
    ],
)
def test_typed_number_is_found(text: str) -> None:
    found = typed_numbers(notebook(("code", "rate = 16"), ("markdown", text)))
    assert [(cell, number) for cell, number, _ in found] == [("cell-1", "3.7" if "3.7" in text else "41")]


@pytest.mark.parametrize(
    "text",
    [
        "It is 3.7 times as fast.",
        "<small>quoted</small> 7,336 tokens/s.",
        "<small>paper GPU</small> It is 3.7<!--x:.1f--> times as fast at 16 req/s, within 50 ms.",
        "<small>paper GPU</small> Llama-3-8B on an H100, chapter 8, lines 8–10, P99, [(3.1)](#eq), $x = 5$, `41`.",
        "It takes 12<!--x--> ms (the lecture: 41 ms <small>quoted</small>) <small>paper GPU</small>.",
        "<small>paper GPU</small> 64.3 ± 1.2<!--x:.1f--> and 7.3<!--x--> ± 0.4<!--x-->; 41<!--41--> is meant.",
    ],
)
def test_labels_settings_quotations_and_anchored_numbers_are_not(text: str) -> None:
    assert typed_numbers(notebook(("code", "rate, slo = 16, 0.05"), ("markdown", text))) == []
