"""What a finished build must look like: pages are there, have text, load nothing from outside, link to what exists."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml

SMALLEST_PAGE = 4_000  # bytes; a page of the theme without any text is larger than this, so text is looked at as well
SMALLEST_TEXT = 150  # characters of the article itself


def toc_files(root: Path) -> list[str]:
    """Return the documents of _toc.yml in reading order, as paths without suffix."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    found: list[str] = [toc["root"]]

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if "file" in node:
                found.append(node["file"])
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(toc)
    return found


class Page(HTMLParser):
    """The parts of a built page that are checked: text of the article, images, links, and everything it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.path = path
        self.images: list[dict[str, str | None]] = []
        self.loads: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.text: list[str] = []
        self._article = 0
        self._silent = 0
        html = path.read_text(encoding="utf-8")
        self.size = len(html.encode())
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag loads, and whether it opens the article."""
        given = dict(attrs)
        self.ids |= {str(given[key]) for key in ("id", "name") if given.get(key) and (key == "id" or tag == "a")}
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        if tag == "img":
            self.images.append(given)
        if tag in {"script", "img", "iframe", "source", "video", "audio", "embed", "track"} and given.get("src"):
            self.loads.append(str(given["src"]))
        if tag == "link" and given.get("rel") not in {"canonical", "author", "search", "next", "prev", "index"}:
            self.loads.append(str(given.get("href")))
        if tag in {"script", "style"}:
            self._silent += 1
        if tag == "article":
            self._article += 1

    def handle_endtag(self, tag: str) -> None:
        """Note the end of the article, or of a script."""
        if tag in {"script", "style"}:
            self._silent -= 1
        if tag == "article":
            self._article -= 1

    def handle_data(self, data: str) -> None:
        """Collect the text of the article."""
        if self._article and not self._silent:
            self.text.append(data)

    @property
    def external(self) -> list[str]:
        """Addresses on other servers that the page loads."""
        return [address for address in self.loads if re.match(r"(https?:)?//", address)]


def broken_links(page: Page, known: dict[Path, Page]) -> list[str]:
    """Return the links of `page` to files or places that do not exist; `known` holds pages already read."""
    wrong = []
    for link in dict.fromkeys(page.links):
        there = urlsplit(link)
        if there.scheme or there.netloc or link == "#":
            continue
        path = (page.path.parent / unquote(there.path)).resolve() if there.path else page.path.resolve()
        if not path.exists():
            wrong.append(link)
        elif there.fragment and path.suffix == ".html":
            if path not in known:
                known[path] = Page(path)
            if unquote(there.fragment) not in known[path].ids:
                wrong.append(link)
    return wrong


def problems(root: Path, html: Path) -> list[str]:
    """Return a sentence for everything that is wrong with the build in `html`."""
    wrong = []
    known: dict[Path, Page] = {}
    for name in toc_files(root):
        path = html / f"{name}.html"
        if not path.is_file():
            wrong.append(f"{path} was not built")
            continue
        page = known[path.resolve()] = known.get(path.resolve()) or Page(path)
        if page.size < SMALLEST_PAGE or len("".join(page.text).strip()) < SMALLEST_TEXT:
            wrong.append(f"{path} is empty or nearly so")
        wrong += [f"{path} loads {address}" for address in page.external]
        wrong += [f"{path}: no alt text on {i.get('src')}" for i in page.images if not (i.get("alt") or "").strip()]
        wrong += [f"{path}: the link to {link} leads nowhere" for link in broken_links(page, known)]
    if not (html / "index.html").is_file():
        wrong.append(f"{html / 'index.html'} was not built")
    return wrong
