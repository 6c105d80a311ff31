"""The cards at links to the glossary: each entry becomes one, and each link of the book has one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tools.terms import GLOSSARY, TERMS, terms, write_terms

PAGE = """<p>Intro <a href="a3.html">A3</a>.</p>
<p><a id="step"></a><strong>step</strong> · <span lang="zh-Hans">迭代</span><br />
One pass (<a class="reference internal" href="bibliography.html#yu"><span>Yu</span></a>).</p>
<p><a id="max_bs"></a><strong>max_bs</strong><br />
At most.</p>"""


def test_an_entry_is_its_paragraph_without_links() -> None:
    assert terms(PAGE) == {
        "step": '<strong>step</strong> · <span lang="zh-Hans">迭代</span><br /> One pass (<span>Yu</span>).',
        "max_bs": "<strong>max_bs</strong><br /> At most.",
    }


def test_the_file_is_a_script_that_names_them(tmp_path: Path) -> None:
    write_terms(tmp_path)
    assert list(tmp_path.iterdir()) == []
    for path in (tmp_path / GLOSSARY, tmp_path / TERMS):
        path.parent.mkdir()
    (tmp_path / GLOSSARY).write_text(PAGE, encoding="utf-8")
    write_terms(tmp_path)
    found = re.fullmatch(r"window\.bookTerms = (\{.*\});\n", (tmp_path / TERMS).read_text(encoding="utf-8"))
    assert found and json.loads(found[1]) == terms(PAGE)


@pytest.mark.slow
def test_every_link_to_the_glossary_has_a_card(built_book: Path) -> None:
    written = (built_book / TERMS).read_text(encoding="utf-8")
    cards = json.loads(written.partition("=")[2].strip().rstrip(";"))
    linked: dict[str, str] = {}
    for path in sorted((built_book / "book").glob("*.html")):
        linked |= dict.fromkeys(
            re.findall(r'href="glossary\.html#([^"]+)"', path.read_text(encoding="utf-8")), path.stem
        )
    assert len(linked) > 40
    assert {name: page for name, page in linked.items() if name not in cards} == {}
    assert [name for name, text in cards.items() if "</strong> · " not in text and "zh-Hans" not in text] == []
    assert len(written.encode()) < 60_000
