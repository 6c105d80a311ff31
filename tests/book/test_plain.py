"""The chapters are ordinary Jupyter Markdown, their references are right, their numbers are those of their code."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from jupyter_cache import get_cache
from nbconvert import HTMLExporter
from pybtex.database import Entry

from tools.bibliography import entries
from tools.bibliography import main as bibliography
from tools.execute import run_all
from tools.fingerprint import cache_path
from tools.numbers import stale, typed
from tools.plain import documents, special_syntax, texts, wrong_references

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "book").glob("*.ipynb"))
HIDDEN = {"hide-input", "hide-cell", "remove-input", "remove-cell"}


@pytest.mark.parametrize("path", documents(ROOT), ids=lambda p: p.stem)
def test_markdown_is_ordinary(path: Path) -> None:
    assert [f"cell {cell}: {found}" for cell, text in texts(path) for found in special_syntax(text)] == []


@pytest.mark.parametrize(
    "planted",
    [
        "see {term}`goodput`",
        "it takes {glue:text}`ch08_gs:.2f` s",
        "by {cite:t}`yu2022orca`",
        ":::{note}\nx\n:::",
        "```{math}\n:label: a\nx\n```",
        "::::\ntext\n::::",
        "[paper GPU]{.num-paper}",
        "(a-target)=\n# Title",
        "term\n: definition",
        "{{ version }}",
        "$$ a = b $$ (eq-a)",
        "% a comment",
        "{#id .class}\ntext",
    ],
)
def test_special_syntax_is_found(planted: str) -> None:
    assert len(special_syntax(f"Text before.\n\n{planted}\n\nText after.")) >= 1


def test_ordinary_markdown_is_not_taken_for_special_syntax() -> None:
    ordinary = (
        'A set `{"a": 1}`, mathematics $\\frac{a}{b}[c]{d}$ and $O_{i}$, `[x]{y}`, a note: text.\n\n'
        "```python\n: x\n(a)=\n{term}\n```\n\n$$\n\\begin{aligned} a &= b \\\\ c &= d \\end{aligned} \\tag{3.1}\n$$\n\n"
        "> quote\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n185<!--ratio:.0f--> <small>paper GPU</small>\n"
    )
    assert special_syntax(ordinary) == []


def test_references_within_the_book_are_right() -> None:
    assert wrong_references(ROOT) == []


FORMS = {
    "doi": re.compile(r"10\.\d{4,5}/[^\s{}]+"),
    "eprint": re.compile(r"\d{4}\.\d{4,5}"),
    "url": re.compile(r"https://[\w.-]+/\S*"),
    "isbn": re.compile(r"97[89]\d{10}"),
}


def unfounded(entry: Any) -> list[str]:
    """Return what is wrong with how an entry of the bibliography can be followed, and with the note of its check."""
    fields = dict(entry.fields)
    given = {name: fields[name] for name in FORMS if name in fields}
    wrong = [f"{name} = {value}" for name, value in given.items() if not FORMS[name].fullmatch(value)]
    if "isbn" in given and sum(int(digit) * (1, 3)[at % 2] for at, digit in enumerate(given["isbn"])) % 10:
        wrong.append("its check digit")
    numbers = {*re.findall(r"\d{4}\.\d{5}", fields.get("howpublished", "")), fields.get("eprint", "")} - {""}
    if given.get("doi", "").startswith("10.48550/") and {given["doi"].removeprefix("10.48550/arXiv.")} != numbers:
        wrong.append("DOI and number at arXiv")
    if not given:
        wrong.append("nothing to follow")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d: .+", fields.get("checked", "")):
        wrong.append("no note of its check")
    return wrong


def test_every_reference_can_be_followed_and_was_checked() -> None:
    """A DOI, a number at arXiv, an address or an ISBN; the exception is an article for which no two works give one."""
    found = entries(ROOT).entries
    assert len(found) > 50 and sum("doi" in entry.fields for entry in found.values()) > 30
    wrong = {key: unfounded(entry) for key, entry in found.items()}
    assert {key: each for key, each in wrong.items() if each} == {"cohen1979sharing": ["nothing to follow"]}


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"doi": "https://doi.org/10.1/2"}, ["doi = https://doi.org/10.1/2"]),
        ({"isbn": "9780471491102"}, ["its check digit"]),
        ({"doi": "10.48550/arXiv.2002.05202", "eprint": "2002.05203"}, ["DOI and number at arXiv"]),
        ({"doi": "10.1109/90.502236", "checked": "long ago"}, ["no note of its check"]),
        ({}, ["nothing to follow"]),
    ],
)
def test_a_wrong_reference_is_found(fields: dict[str, str], wrong: list[str]) -> None:
    assert unfounded(Entry("misc", {"checked": "2026-12-01: DOI"} | fields)) == wrong


def test_bibliography_is_what_the_references_give() -> None:
    assert bibliography(["--check"]) == 0, "run `python -m tools.bibliography`"


def book_with(folder: Path, text: str) -> Path:
    """Make a root whose book is the bibliography and one page."""
    (folder / "book").mkdir()
    for name in ("references.bib", "bibliography.md"):
        shutil.copy2(ROOT / "book" / name, folder / "book")
    (folder / "book" / "page.md").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ("[x](nowhere.ipynb)", "no such file"),
        ("[x](page.md#nowhere)", "no such place"),
        ("[x](#nowhere)", "no such place"),
        ("[(3.2)](#eq-a)", "it is (3.1)"),
        ("[figure 3.2](page.md#fig-a)", "it is Figure 3.1"),
        ("[Yu et al., 2023](bibliography.md#yu2022orca)", "it is Yu et al., 2022"),
    ],
)
def test_wrong_references_are_found(tmp_path: Path, link: str, said: str) -> None:
    right = "[(3.1)](#eq-a) [figure 3.1](#fig-a) [Yu et al., 2022](bibliography.md#yu2022orca)"
    targets = '<a id="eq-a"></a>\n\n$$\na = b \\tag{3.1}\n$$\n\n<a id="fig-a"></a>**Figure 3.1.** A caption.\n\n'
    (sentence,) = wrong_references(book_with(tmp_path, f"{targets}{right} {link}"))
    assert said in sentence and "page.md" in sentence


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_cells_hidden_on_the_page_are_collapsed_in_every_front_end(path: Path) -> None:
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        hidden = bool(HIDDEN & set(cell["metadata"].get("tags", [])))
        collapsed = cell["metadata"].get("jupyter", {}).get("source_hidden", False)
        assert hidden == collapsed, cell["id"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_no_number_is_typed_where_a_computed_one_belongs(path: Path) -> None:
    assert typed(path) == []


@pytest.fixture(scope="session")
def executed() -> Any:
    """The cache with all notebooks run (they have been, where the book has just been built)."""
    folder = cache_path(ROOT)
    assert run_all(NOTEBOOKS, folder, workers=2) == []
    return get_cache(str(folder))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_numbers_in_the_text_are_those_of_the_code(path: Path, executed: Any) -> None:
    assert stale(path, executed) == [], f"run `python -m tools.numbers {path.stem}` and read the sentences again"


class Text(HTMLParser):
    """The text of Markdown cells in what nbconvert makes of a notebook, without code and formulas."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "div" and "jp-MarkdownOutput" in str(dict(attrs).get("class", "")):
            self.open = ["markdown"]
        if self.open:
            self.tags.append(tag)
            self.open += [tag] if tag not in {"br", "img", "hr"} else []

    def handle_endtag(self, tag: str) -> None:
        if self.open:
            self.open.pop()
            self.open = self.open if self.open != ["markdown"] else []

    def handle_data(self, data: str) -> None:
        if self.open and not {"code", "pre", "style"} & set(self.open):
            self.text += data


@pytest.mark.slow
@pytest.mark.parametrize("name", ["02-measuring", "04-clipper", "09-knobs"])
def test_nbconvert_shows_no_raw_syntax(name: str) -> None:
    path = ROOT / "book" / f"{name}.ipynb"
    shown = Text(HTMLExporter(template_name="lab").from_filename(str(path))[0])
    written = [text for _, text in texts(path)]
    assert len(shown.text) > 10_000
    words = re.sub(r"\$\$.*?\$\$|\$[^$]+\$", "", shown.text, flags=re.S)  # formulas are MathJax's, in a browser
    assert re.findall(r"\{[\w:.-]+\}`|:::|\]\{|<!--|</?small|<details|\]\([\w./-]*#|\*\*|\|--", words) == []
    assert shown.tags.count("details") == sum(text.count("<details>") for text in written) > 0
    assert shown.tags.count("h3") >= sum(len(re.findall(r"^### ", text, re.M)) for text in written) > 0
