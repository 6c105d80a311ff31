"""Paragraphs and sentences of a chapter's Markdown, with the marks that say where their numbers come from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MARK = re.compile(r"<small>(paper GPU|measured here|quoted)</small>")
COMPUTED = {"paper GPU", "measured here"}
END = re.compile(r"(?<!\d)[.?!][)*\"”]*\s+(?=[^\sa-z])|\d[.?!][)*\"”]*\s+(?=[^\sa-z\d])")
BLOCK = re.compile(r"\n[ \t>]*\n|\n(?=[ \t]*(?:[-*]|\d+\.) )|\n(?=[ \t]*\|)")


@dataclass(frozen=True)
class Sentence:
    """A sentence at its place in a cell: `text` begins at position `start` of the source."""

    start: int
    text: str
    marks: frozenset[str]

    @property
    def plain(self) -> str:
        """The sentence in one line, without comments and tags."""
        return " ".join(re.sub(r"<!--.*?-->|</?\w+[^>]*>", "", self.text, flags=re.S).split())


def pieces(text: str, ends: re.Pattern[str], whole: bool) -> Iterator[tuple[int, str]]:
    """Yield the parts of `text` with their places; the match that ends a part belongs to it if `whole`."""
    start = 0
    for found in ends.finditer(text):
        stop = found.end() if whole else found.start()
        if text[start:stop].strip():
            yield start, text[start:stop]
        start = found.end()
    if text[start:].strip():
        yield start, text[start:]


def sentences(text: str) -> Iterator[Sentence]:
    """Yield the sentences of a Markdown text.

    A mark belongs to the sentence in which it stands. One that opens a paragraph or an item belongs to all of it, and a
    mark after the last full stop belongs to the sentence before it.
    """
    for at, block in pieces(text, BLOCK, whole=False):
        opening = MARK.match(re.sub(r"^(?:[\s>|*-]|\d+\. )+", "", block))
        for start, sentence in pieces(block, END, whole=True):
            marks = {found[1] for found in MARK.finditer(sentence)} | ({opening[1]} if opening else set())
            yield Sentence(at + start, sentence, frozenset(marks))


def sentence_at(text: str, position: int) -> str:
    """Return the sentence of `text` around `position` in one line."""
    for sentence in sentences(text):
        if sentence.start <= position < sentence.start + len(sentence.text):
            return sentence.plain
    return ""
