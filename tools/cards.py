"""Pictures for the front page's chapters: each card shows a chart of the chapter's own lab, as this build drew it."""

from __future__ import annotations

import re
from pathlib import Path

FRONT = "index.html"
#: The list under the heading that `book/index.ipynb` calls chapters.
LIST = re.compile(r'(<section id="chapters[^"]*">(?:(?!<ul).)*)<ul class="simple">(.*?)</ul>', re.S)
ITEM = re.compile(r'<li>(?P<text>.*?href="(?P<page>[\w-]+\.html)".*?)</li>', re.S)
PICTURE = re.compile(r'<svg[^>]*class="lab-picture"[^>]*>.*?</svg>', re.S)
#: Only words for a screen reader; beside its chapter's name a picture is an ornament.
NAMED = re.compile(r' role="img" aria-label="[^"]*"')
MOST = 10_000


def picture(html: str) -> str:
    """Return the first small chart of a page's labs, an ornament without a name; empty if the page has none."""
    small = (m[0] for m in PICTURE.finditer(html) if len(m[0]) <= MOST)
    return NAMED.sub(' aria-hidden="true" focusable="false"', next(small, ""), count=1)


def with_cards(front: str, folder: Path) -> str:
    """Return the front page with its list of chapters as cards; a page that is finished already stays as it is.

    Parameters
    ----------
    front : str
        HTML of the front page.
    folder : pathlib.Path
        Where the chapters' pages lie.
    """

    def card(m: re.Match[str]) -> str:
        page = folder / m["page"]
        drawn = picture(page.read_text(encoding="utf-8")) if page.is_file() else ""
        return f'<li class="card-chapter"><div class="card-picture">{drawn}</div>{m["text"]}</li>'

    return LIST.sub(lambda m: f'{m[1]}<ul class="cards">{ITEM.sub(card, m[2])}</ul>', front, count=1)


def make_cards(folder: Path) -> bool:
    """Give the front page in `folder` its cards; return whether anything changed."""
    path = folder / FRONT
    if not path.is_file():
        return False
    before = path.read_text(encoding="utf-8")
    after = with_cards(before, folder)
    if after != before:
        path.write_text(after, encoding="utf-8")
    return after != before
