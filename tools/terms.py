"""What the cards at links to the glossary say (book/assets/page-terms.js): its paragraphs, as a script of their own.

A script and not JSON, since a page that was opened from a folder may load the one and not the other.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

#: In the build's folder.
GLOSSARY, TERMS = Path("book") / "glossary.html", Path("_static") / "glossary-terms.js"
ENTRY = re.compile(r'<p><a id="(?P<name>[^"]+)"></a>(?P<text>.*?)</p>', re.S)
LINK = re.compile(r"</?a\b[^>]*>")


def terms(glossary: str) -> dict[str, str]:
    """Return name -> HTML of the entries of the glossary's page; a card is no place for links, so they go."""
    return {m["name"]: LINK.sub("", m["text"]).replace("\n", " ") for m in ENTRY.finditer(glossary)}


def write_terms(folder: Path) -> None:
    """Write the entries of the build in `folder` beside its other scripts; nothing if it has no glossary."""
    page = folder / GLOSSARY
    if page.is_file():
        found = json.dumps(terms(page.read_text(encoding="utf-8")), ensure_ascii=False)
        (folder / TERMS).write_text(f"window.bookTerms = {found};\n", encoding="utf-8")
