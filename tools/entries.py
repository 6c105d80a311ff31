"""Names of `labcode` on a page lead to their entry in the reference, and the entry back to where they are used.

The notebooks know nothing of it. What a name means is read off the notebook's imports (the build keeps its source),
what there is to link to off the built reference. Each name is a link where a page uses it first: once in the code
that is seen, once in the text. Doing it again changes nothing.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape, unescape
from pathlib import Path

REFERENCE = "reference"
ENTRY = re.compile(
    r'<dt id="([\w.]+)"(?: data-home="([\w.]+)")?>.*?</dt><dd>(.*?)(?=<details|<p class="uses"|</dd>)', re.S
)
SECTION = re.compile(r'<a id="(labcode[\w-]*)"></a>')
LINKED = re.compile(r'<a class="entry"[^>]*>(.*?)</a>', re.S)
USES = re.compile(r'<p class="uses">.*?</p>', re.S)
END = re.compile(r'(<dt id="([\w.]+)"(?: data-home="[\w.]+")?>(?:(?!</dd>).)*)(</dd>)', re.S)
TAG = re.compile(r"(<!--.*?-->|<[^>]+>)", re.S)
INPUT = re.compile(r'(<div class="cell_input\b(?:(?!<pre>).)*<pre>)(.*?)(</pre>)', re.S)
INLINE = re.compile(r'(<code class="docutils literal notranslate">)((?:<span class="pre">[^<]*</span>\s*)+)(</code>)')
#: Where no link may stand: in another link, in what opens and closes something, in titles, in what the code printed.
CLOSED = re.compile(r"<(a|summary|h[1-6]|pre|script|button)\b.*?</\1>", re.S)
CLASS = re.compile(r"[A-Z]\w*[a-z]\w*")


@dataclass
class Entries:
    """What the reference has: entries by every name they go by, with their first sentences, and sections of modules."""

    places: dict[str, str] = field(default_factory=dict)
    says: dict[str, str] = field(default_factory=dict)
    short: dict[str, set[str]] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, page: str) -> Entries:
        """Return what a built reference has."""
        found = cls()
        for name in SECTION.findall(page):
            found.places[name.replace("-", ".")] = name
        for name, home, text in ENTRY.findall(page):
            found.places[name] = name
            first = found.places.setdefault(home or name, name)
            if first != name and "." not in first:  # another name of a module
                found.modules[name] = home
            found.says[name] = " ".join(unescape(TAG.sub("", text)).split())
            found.short.setdefault(name.rpartition(".")[2], set()).add(first)
        return found

    def place(self, path: str) -> str:
        """Return the anchor for a dotted path: its entry, or what it is a part of; empty if there is neither."""
        for name, home in self.modules.items():
            if path.startswith(f"{name}."):
                path = home + path[len(name) :]
        whole = path
        while path.startswith("labcode."):
            if path in self.places and (path == whole or path not in {"labcode", "labcode.course"}):
                return self.places[path]
            path = path.rpartition(".")[0]
        return ""

    def only(self, name: str) -> str:
        """Return the anchor of the one entry that is called `name`; empty if there are several or none."""
        found = self.short.get(name, set())
        return next(iter(found)) if len(found) == 1 else ""


def parsed(code: str) -> ast.Module | None:
    """Return the tree of a cell, its magic lines blank; None if it is no Python."""
    plain = "\n".join("" if re.match(r"\s*[%!]", line) else line for line in code.splitlines())
    try:
        return ast.parse(plain)
    except SyntaxError:
        return None


def imports(cells: list[str]) -> tuple[dict[str, str], set[str]]:
    """Return what the cells of a notebook import from labcode, name -> dotted path, and the names they assign."""
    names: dict[str, str] = {}
    assigned: set[str] = set()
    for tree in filter(None, map(parsed, cells)):
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "labcode":
                names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                ours = [alias for alias in node.names if alias.name.split(".")[0] == "labcode"]
                names |= {alias.asname or "labcode": alias.name if alias.asname else "labcode" for alias in ours}
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                assigned.add(node.id)
            elif isinstance(node, ast.arg):
                assigned.add(node.arg)
    return names, assigned


def named(tree: ast.Module, names: dict[str, str], assigned: set[str]) -> Iterator[tuple[int, int, str, str]]:
    """Yield line (from 1), column (bytes), identifier and dotted path of what a cell takes from labcode."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "labcode":
            for alias in node.names:
                yield alias.lineno, alias.col_offset, alias.name, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Name) and node.id in names and node.id not in assigned:
            yield node.lineno, node.col_offset, node.id, names[node.id]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names:
            end = (node.end_col_offset or 0) - len(node.attr.encode())
            yield node.end_lineno or 0, end, node.attr, f"{names[node.value.id]}.{node.attr}"


class Linker:
    """Puts the links into one page, each name once in the code and once in the text."""

    def __init__(self, entries: Entries, cells: list[str]) -> None:
        self.entries = entries
        self.names, self.assigned = imports(cells)
        self.used: dict[str, str] = {}

    def link(self, place: str, text: str) -> str:
        """Return `text` as a link; the first of a place carries the id to which its entry leads back."""
        mark = ""
        if place not in self.used:
            short = f"use-{place.rpartition('.')[2]}"
            self.used[place] = f"use-{place}" if short in self.used.values() else short
            mark = f' id="{self.used[place]}"'
        says = self.entries.says.get(place, "")
        title = f' title="{escape(says)}"' if says else ""
        return f'<a class="entry"{mark} href="{REFERENCE}.html#{place}"{title}>{text}</a>'

    def code(self, html: str, seen: set[str]) -> str:
        """Return the highlighted code of a cell with links."""
        parts = TAG.split(html)
        text = "".join(unescape(part) for part in parts[::2])
        tree = parsed(text)
        if tree is None:
            return html
        lines = text.splitlines(keepends=True)
        starts: dict[int, tuple[str, str]] = {}
        for line, column, name, path in sorted(named(tree, self.names, self.assigned)):
            place = self.entries.place(path)
            at = sum(map(len, lines[: line - 1])) + len(lines[line - 1].encode()[:column].decode())
            if place and place not in seen and text.startswith(name, at):
                seen.add(place)
                starts[at] = name, place
        at = 0
        for i in range(0, len(parts), 2):
            plain = unescape(parts[i])
            inside = sorted((start - at, *starts[start]) for start in starts if at <= start < at + len(plain))
            out, done = [], 0
            for start, name, place in inside:
                if start + len(name) <= len(plain):
                    out += [escape(plain[done:start], quote=False), self.link(place, name)]
                    done = start + len(name)
            at += len(plain)
            if out:
                parts[i] = "".join(out) + escape(plain[done:], quote=False)
        return "".join(parts)

    def meant(self, text: str) -> str:
        """Return the anchor of what inline code names; empty if it names nothing of the library."""
        if re.fullmatch(r"labcode(/[a-z_0-9]+)+(\.py)?/?", text):
            return self.entries.place(re.sub(r"\.py$", "", text.strip("/")).replace("/", "."))
        found = re.fullmatch(r"([A-Za-z]\w*(?:\.\w+)*)(\(.*\))?", text, re.S)
        if found is None:
            return ""
        path, call = found[1], found[2]
        head, _, rest = path.partition(".")
        if head == "labcode":
            return self.entries.place(path)
        if head in self.names:
            known = head not in self.assigned or call
            return self.entries.place(f"{self.names[head]}.{rest}" if rest else self.names[head]) if known else ""
        return self.entries.only(head) if not rest and (call or CLASS.fullmatch(head)) else ""

    def page(self, html: str) -> str:
        """Return a page with its links."""
        html = LINKED.sub(r"\1", html)
        in_code: set[str] = set()
        in_text: set[str] = set()
        closed = [match.span() for match in CLOSED.finditer(html)]
        pieces, done = [], 0
        for match in sorted([*INPUT.finditer(html), *INLINE.finditer(html)], key=lambda found: found.start()):
            if match.re is INPUT:
                new = self.code(match[2], in_code)
            elif any(a <= match.start() < b for a, b in closed):
                continue
            else:
                place = self.meant(" ".join(unescape(TAG.sub("", match[2])).split()))
                if not place or place in in_text:
                    continue
                in_text.add(place)
                new = self.link(place, match[2])
            pieces += [html[done : match.start(2)], new]
            done = match.end(2)
        return "".join(pieces) + html[done:]


def called(name: str) -> str:
    """Return how a list names a page: a chapter by its number."""
    number = re.match(r"(\d+)-|(a\d+)-", name)
    return (str(int(number[1])) if number[1] else number[2].upper()) if number else name


def with_uses(page: str, uses: dict[str, list[tuple[str, str]]]) -> str:
    """Return the reference with what uses each entry: `uses` has the pages, and the places in them, by anchor."""

    def more(match: re.Match[str]) -> str:
        links = [f'<a href="{name}.html#{mark}">{called(name)}</a>' for name, mark in uses.get(match[2], [])]
        return match[1] + (f'<p class="uses">used in {", ".join(links)}</p>' if links else "") + match[3]

    return END.sub(more, USES.sub("", page))


def sources(path: Path) -> list[str]:
    """Return the code cells of a notebook."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def link_entries(pages: dict[Path, str], folder: Path) -> dict[Path, str]:
    """Return the pages of the build in `folder` with links to the reference and back; as they are if it has none."""
    reference = folder / "book" / f"{REFERENCE}.html"
    if reference not in pages:
        return pages
    done, entries = dict(pages), Entries.read(pages[reference])
    uses: dict[str, list[tuple[str, str]]] = {}
    for path in pages:
        notebook = folder / "_sources" / "book" / f"{path.stem}.ipynb"
        if path.parent.name == "book" and path != reference and notebook.is_file():
            linker = Linker(entries, sources(notebook))
            done[path] = linker.page(pages[path])
            for place, mark in linker.used.items():
                uses.setdefault(place, []).append((path.stem, mark))
    done[reference] = with_uses(pages[reference], uses)
    return done
