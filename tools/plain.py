"""Keeps the chapters ordinary Jupyter Markdown, readable without any extension, and their references right.

What only one program understands is a fault here (roles, directives, attributes, labels), and so is a link within the
book that leads nowhere or whose text names another number than its target has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from tools.anchors import source
from tools.bibliography import entries, label

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^([ \t>]*)(`{3,}|~{3,})(?!\{).*?^\1\2[ \t]*$", re.S | re.M)
SPAN = re.compile(r"(?<![`}])`[^`\n]+`")
MATH = re.compile(r"\$\$.*?\$\$|\$[^$\n]+\$", re.S)
SPECIAL = {
    "role": re.compile(r"\{[\w:.+-]+\}`[^`]*`"),
    "directive": re.compile(r"^[ \t>]*(?:`{3,}|~{3,}|:{3,})\{.*$|^[ \t>]*:{3,}.*$", re.M),
    "attribute list": re.compile(r"[\])`]\{[^}\n]*\}|^\{[.#%][^}\n]*\}$", re.M),
    "target": re.compile(r"^\([\w:.-]+\)=[ \t]*$", re.M),
    "definition list": re.compile(r"^:[ \t]+\S.*$", re.M),
    "substitution": re.compile(r"\{\{.*?\}\}"),
    "comment or block break": re.compile(r"^%.*$|^\+\+\+.*$", re.M),
}
LABELLED = re.compile(r"\$\$[ \t]*\([\w:.-]+\)")
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
NUMBERED = re.compile(r"\([\w.]+\)|[Ff]igure\s+[\w.]+")
PLACE = re.compile(r'<a id="([^"]+)"></a>\s*(?:\*\*([^*]*?)\.?\*\*|\$\$(?:(?!\$\$).)*\\tag\{([^}]*)\})?', re.S)


def blank(pattern: re.Pattern[str], text: str) -> str:
    """Return `text` without what `pattern` finds, with the same lines."""
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def special_syntax(text: str) -> list[str]:
    """Return what in a Markdown text is no ordinary Markdown: its kind, and the piece itself."""
    bare = blank(FENCE, text)
    found = [f"role: {match[0]}" for match in SPECIAL["role"].finditer(bare)]
    found += [f"label of an equation: {match[0]}" for match in LABELLED.finditer(bare)]
    bare = blank(MATH, blank(SPAN, blank(SPECIAL["role"], bare)))
    for kind, pattern in SPECIAL.items():
        if kind != "role":
            found += [f"{kind}: {match[0].strip()}" for match in pattern.finditer(bare)]
    return found


def texts(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the Markdown of a notebook or page, cell by cell: the cell's id (or "") and its text."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        yield "", text
        return
    for cell in json.loads(text)["cells"]:
        if cell["cell_type"] == "markdown":
            yield cell["id"], source(cell)


def documents(root: Path = ROOT) -> list[Path]:
    """Return the chapters and pages."""
    return sorted([*(root / "book").glob("*.ipynb"), *(root / "book").glob("*.md")])


def places(path: Path) -> dict[str, str]:
    """Return the anchors of a document, and the number or name that stands at each ("" if there is none)."""
    found: dict[str, str] = {}
    for cell, text in texts(path):
        for match in PLACE.finditer(blank(FENCE, text)):
            if match[1] in found:
                raise ValueError(f"{path.name}, cell {cell}: the anchor {match[1]} is there twice")
            found[match[1]] = f"({match[3]})" if match[3] else match[2] or ""
    return found


def wrong_references(root: Path = ROOT) -> list[str]:
    """Return a sentence for each link within the book that has no target, or says something else than its target."""
    known = {path.name: places(path) for path in documents(root)}
    papers = {key: label(entry) for key, entry in entries(root).entries.items()}
    wrong = []
    for path in documents(root):
        for cell, text in texts(path):
            for match in LINK.finditer(blank(SPAN, blank(FENCE, text))):
                says, (name, _, place) = match[1], match[2].partition("#")
                where = f"{path.name}, cell {cell}: [{says}]({match[2]})"
                if re.match(r"\w+:", name):
                    continue
                name = name or path.name
                if not (root / "book" / name).exists():
                    wrong.append(f"{where}: no such file")
                elif place and place not in known.get(name, {}):
                    wrong.append(f"{where}: no such place")
                elif place and name == "bibliography.md":
                    who, year = papers[place]
                    if " ".join(says.split()) not in {f"{who}, {year}", f"{who} ({year})"}:
                        wrong.append(f"{where}: it is {who}, {year}")
                elif place and NUMBERED.fullmatch(says) and says.lower() != known[name][place].lower():
                    wrong.append(f"{where}: it is {known[name][place]}")
    return wrong
