"""Names in the code and the text of a chapter lead to their entries in the reference, and back."""

from __future__ import annotations

import ast
import inspect
import json
import pydoc
import re
from pathlib import Path

import pytest

from labcode.course.reference import PACKAGES, reference
from tools.entries import Entries, Linker, imports, link_entries, named, parsed

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted(path for path in (ROOT / "book").glob("*.ipynb") if path.stem != "reference")
SHOWN = {"labcode.course.check", "labcode.course.show"}
HIDDEN = {"remove-input", "remove-cell"}
REFERENCE = """<a id="labcode"></a><a id="labcode-kit"></a>
<dl><dt id="labcode.serve"><code>serve(load)</code></dt><dd>Serve &amp; return.<details>more</details></dd>
<dt id="labcode.kit.Load" data-home="labcode.kit.loads.Load"><code>Load()</code></dt><dd>What <b>arrives</b>.</dd>
<dt id="labcode.loads" data-home="labcode.kit"><code>loads</code></dt><dd>All.</dd></dl>"""
CELL = '<div class="cell_input docutils">\n<div class="highlight"><pre><span></span>{}</pre></div></div>'


def linker(*cells: str) -> Linker:
    return Linker(Entries.read(REFERENCE), list(cells))


def links(html: str) -> list[tuple[str, str]]:
    found = re.findall(r'<a class="entry"[^>]* href="reference\.html#([^"]+)"[^>]*>(.*?)</a>', html, re.S)
    return [(place, re.sub(r"<[^>]+>", "", text)) for place, text in found]


def inline(text: str) -> str:
    return f'<code class="docutils literal notranslate"><span class="pre">{text}</span></code>'


def test_each_name_in_the_code_is_a_link_once() -> None:
    code = "from labcode import kit, serve\nx = '中', serve(kit.Load())\nserve(x)"
    shown = CELL.format(
        '<span class="kn">from</span> labcode <span class="kn">import</span> kit, serve\nx <span class="o">=</span> '
        '<span class="s1">&#39;中&#39;</span>, serve(kit<span class="o">.</span>Load())\nserve(x)'
    )
    once = linker(code).page(shown)
    assert links(once) == [("labcode-kit", "kit"), ("labcode.serve", "serve"), ("labcode.kit.Load", "Load")]
    assert re.sub(r"</?a\b[^>]*>", "", once) == shown, "nothing else has changed"
    assert 'id="use-serve"' in once and 'title="Serve &amp; return."' in once
    assert linker(code).page(once) == once


def test_a_name_that_the_notebook_gives_to_something_else_is_no_link() -> None:
    code = "from labcode import serve\nserve = 3\nprint(serve)"
    assert links(linker(code).page(CELL.format("serve = 3\nprint(serve)"))) == []
    assert links(linker("from os import serve").page(CELL.format("serve(1)"))) == []


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("serve", "labcode.serve"),
        ("serve(load, max_bs=2)", "labcode.serve"),
        ("Load", "labcode.kit.Load"),
        ("Load.rate", "labcode.kit.Load"),
        ("labcode.kit.loads.Load", "labcode.kit.Load"),
        ("labcode/kit/loads.py", "labcode-kit"),
        ("labcode.kit", "labcode-kit"),
        ("labcode.loads.Load", "labcode.kit.Load"),
        ("labcode", ""),
        ("labcode.course.answers", ""),
        ("load", ""),
        ("max_bs=2", ""),
    ],
)
def test_inline_code_that_names_something_is_a_link(text: str, place: str) -> None:
    page = f"<p>{inline(text)} and {inline(text)}</p>"
    found = links(linker("from labcode import serve", "from labcode.kit import Load").page(page))
    assert found == ([(place, text)] if place else [])


@pytest.mark.parametrize("around", ["<h2>{}</h2>", '<a href="x">{}</a>', "<summary>{}</summary>", "<pre>{}</pre>"])
def test_no_link_stands_in_a_title_or_in_another_link(around: str) -> None:
    page = around.format(inline("serve(load)"))
    assert linker("from labcode import serve").page(page) == page


def test_the_reference_leads_back(tmp_path: Path) -> None:
    pages = {}
    for name, html in (("reference", REFERENCE), ("03-a", CELL.format("serve(1)")), ("a1-b", inline("Load"))):
        pages[tmp_path / "book" / f"{name}.html"] = html
        source = tmp_path / "_sources" / "book" / f"{name}.ipynb"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(json.dumps({"cells": [{"cell_type": "code", "source": "from labcode import serve"}]}))
    done = link_entries(pages, tmp_path)
    text = done[tmp_path / "book" / "reference.html"]
    assert '<p class="uses">used in <a href="03-a.html#use-serve">3</a></p></dd>' in text
    assert '<p class="uses">used in <a href="a1-b.html#use-Load">A1</a></p></dd>' in text
    assert link_entries(done, tmp_path) == done


@pytest.fixture(scope="module")
def entries() -> Entries:
    sections = "".join(f'<a id="{name.replace(".", "-")}"></a>' for name in PACKAGES)
    return Entries.read(sections + "".join(reference(name)._repr_html_() for name in PACKAGES))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_public_name_that_a_chapter_shows_has_an_entry(entries: Entries, path: Path) -> None:
    """The course's own recorded evidence aside: what it computes is read in its source."""
    cells = [c for c in json.loads(path.read_text(encoding="utf-8"))["cells"] if c["cell_type"] == "code"]
    names, assigned = imports(["".join(cell["source"]) for cell in cells])
    wrong = []
    for cell in cells:
        if HIDDEN & set(cell["metadata"].get("tags", [])):
            continue
        tree = parsed("".join(cell["source"]))
        for _, _, name, dotted in named(tree, names, assigned) if isinstance(tree, ast.Module) else ():
            if (dotted not in SHOWN and re.match(r"labcode(\.course\..*)?$", dotted)) or name.startswith("_"):
                continue
            value = pydoc.locate(dotted)
            place = entries.place(dotted)
            is_entry = "." in place
            if not place or ((inspect.isclass(value) or inspect.isfunction(value)) and not is_entry):
                wrong.append(f"{cell['id']}: {dotted} leads to {place or 'nothing'}")
    assert sorted(set(wrong)) == []
