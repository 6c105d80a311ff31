"""The first use of each term of the glossary in each chapter is a link to its entry."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tools.term_links import ORDINARY, PHRASES, link_terms, names, with_links
from tools.terms import GLOSSARY

ENTRIES = """<p><a id="step"></a><strong>step</strong> · <span lang="zh-Hans">迭代</span><br />One.</p>
<p><a id="arrival"></a><strong>arrival</strong> · x<br />Two.</p>
<p><a id="arrival-rate"></a><strong>arrival rate</strong> · x<br />Three.</p>
<p><a id="ttft"></a><strong>TTFT</strong> · x<br />Four.</p>
<p><a id="littles-law"></a><strong>Little’s law</strong> · x<br />Five.</p>
<p><a id="plan"></a><strong>plan</strong> · x<br />Six.</p>"""
KNOWN = names(ENTRIES)


def linked(body: str) -> list[tuple[str, str]]:
    """Return (key, text) of the links that a chapter with this body gets, and see that nothing else changes."""
    page = f"<p>step</p><article>{body}</article><p>TTFT</p>"
    once = with_links(page, KNOWN)
    assert with_links(once, KNOWN) == once
    assert re.sub(r'<a class="term"[^>]*>(.*?)</a>', r"\1", once, flags=re.S) == page
    return re.findall(r'<a class="term" href="glossary\.html#([^"]+)">(.*?)</a>', once, re.S)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("<p>A step, then steps.</p>", [("step", "step")]),
        ("<p>Steps and TTFTs; ttft is no name.</p>", [("step", "Steps"), ("ttft", "TTFTs")]),
        ("<p>The arrival\nrate, an arrival.</p>", [("arrival-rate", "arrival\nrate"), ("arrival", "arrival")]),
        ("<ul><li><strong>Little’s law</strong></li></ul>", [("littles-law", "Little’s law")]),
        ("<h2>A step</h2><p><code>step</code> one-step, stepwise</p><p>a step</p>", [("step", "step")]),
        ('<p><a href="glossary.html#step">iteration</a> or step</p>', []),
        ('<p>a step or <a href="glossary.html#step">iteration</a></p>', [("step", "step")]),
        ('<div class="cell_output"><p>step</p></div><div><p>step</p></div>', [("step", "step")]),
        (
            '<p><span class="num-paper">a step</span></p><summary>step</summary><table><tr><th>step</th></tr></table>',
            [],
        ),
        ("<p>step by step; we plan</p>", []),
        ("<p>a<br>b <img src='x'> step</p><p>TTFT</p>", [("step", "step"), ("ttft", "TTFT")]),
        ("", []),
    ],
)
def test_the_first_use_in_running_text_is_a_link(body: str, found: list[tuple[str, str]]) -> None:
    assert linked(body) == found


def test_chapters_only(tmp_path: Path) -> None:
    chapter, other = tmp_path / "book" / "03-a.html", tmp_path / "book" / "intro.html"
    pages = {
        tmp_path / GLOSSARY: ENTRIES,
        chapter: "<article><p>step</p></article>",
        other: "<article><p>step</p></article>",
    }
    done = link_terms(pages, tmp_path)
    assert "glossary.html#step" in done[chapter] and done[other] == pages[other]
    assert link_terms({chapter: pages[chapter]}, tmp_path) == {chapter: pages[chapter]}


class Running(HTMLParser):
    """The running text of a chapter, a piece each: the text, and the term that it is a link to."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[tuple[str, str]] = []
        self.tags: list[tuple[str, str, str]] = []
        self.feed(html[html.find("<article") : html.find("</article>")])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what is open."""
        if tag not in {"br", "img", "input", "hr", "wbr", "source"}:
            given = dict(attrs)
            self.tags.append((tag, given.get("class") or "", given.get("href") or ""))

    def handle_endtag(self, tag: str) -> None:
        """Close it."""
        while self.tags and self.tags.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        """Keep what is read as text."""
        kinds = {tag for tag, _, _ in self.tags}
        classes = " ".join(found for _, found, _ in self.tags)
        hidden = kinds & {"pre", "code", "summary", "button", "math", "svg", "script", "th", "h1", "h2", "h3", "h4"}
        if kinds & {"p", "li", "dd"} and not hidden and not re.search(r"cell_|\blab\b|num-|caption|\bmath\b", classes):
            href = next((address for tag, _, address in self.tags if tag == "a"), "")
            self.pieces.append((data, href.partition("glossary.html#")[2] if "glossary" in href else "-" * bool(href)))


@pytest.mark.slow
def test_every_term_is_linked_where_each_chapter_uses_it_first(built_book: Path) -> None:
    """Read off the built pages, by other means than those that set the links."""
    known = names((built_book / GLOSSARY).read_text(encoding="utf-8"))
    chapters = sorted((built_book / "book").glob("[01][0-9]-*.html"))
    assert len(chapters) == 14 and len(known) > 100 and set(known) >= ORDINARY
    wrong = []
    for path in chapters:
        pieces = Running(path.read_text(encoding="utf-8")).pieces
        seen = {key for _, key in pieces} - {"", "-"}
        assert len(seen) >= 10, f"{path.stem} links {len(seen)} terms"
        for key, name in known.items():
            longer = [other for other in known.values() if name.lower() in other.lower() and other != name]
            words = re.compile(
                rf"(?<![\w’/-]){re.escape(unescape(name))}(?:e?s)?(?![\w/-])", 0 if name.isupper() else re.I
            )
            for text, at in pieces:
                plain = " ".join(text.split())
                for other in (*longer, *PHRASES):
                    plain = re.sub(re.escape(other), "", plain, flags=re.I)
                if at == key:
                    break
                if not at and words.search(plain) and key not in ORDINARY:
                    wrong.append(f"{path.stem}: {name} in {plain[:60]!r}")
                    break
    assert wrong == []
