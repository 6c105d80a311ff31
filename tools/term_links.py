"""The first use of a glossary's term in each chapter leads to its entry, also where the author has set no link.

The notebooks know nothing of it: a term is found in the built page by its English name (or its plural) and gets a link
that looks like the text around it; the card at it is that of every link to the glossary. Doing it
again changes nothing.
"""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

from tools.terms import GLOSSARY

TAG = re.compile(r"(<!--.*?-->|<[^>]+>)", re.S)
NAME = re.compile(r'<p><a id="(?P<key>[^"]+)"></a><strong>(?P<name>.*?)</strong>')
LINKED = re.compile(r'<a class="term"[^>]*>(.*?)</a>', re.S)
#: Terms that are also ordinary words, in another sense, in some chapter: only the author knows which is meant.
ORDINARY = {"plan", "overlap", "kv-block", "mixed", "outcome", "coverage", "fence", "minimum-run", "batch-means"}
#: Where a term's word stands for something else.
PHRASES = ("step by step", "step through", "each of its steps", "packets in a router")
VOID = {"br", "img", "input", "hr", "wbr", "meta", "link", "source", "col"}
#: What holds running text, and what within it is none.
RUNNING, CLOSED = {"p", "li", "dd"}, {"a", "code", "pre", "summary", "button", "math", "svg", "script", "style", "th"}
CLOSED_CLASS = re.compile(r'class="[^"]*\b(?:cell_output|cell_input|lab|num-\w+|math|caption)\b')
CHAPTER = re.compile(r"\d\d-")


def names(glossary: str) -> dict[str, str]:
    """Return key -> English name of the glossary's entries."""
    return {m["key"]: unescape(TAG.sub("", m["name"])) for m in NAME.finditer(glossary)}


def group(key: str) -> str:
    """Return the name of a key's group in the pattern."""
    return "t_" + re.sub(r"\W", "_", key)


def pattern(known: dict[str, str]) -> re.Pattern[str]:
    """Return what finds any of the names, the longest first: "arrival rate" is no use of "arrival"."""
    longest = sorted(known.items(), key=lambda item: -len(item[1]))
    each = ["(?i:" + "|".join(re.sub(" ", r"\\s+", phrase) for phrase in PHRASES) + ")"]
    for key, name in longest:
        words = r"\s+".join(re.escape(word) for word in re.sub("['’]", "’", name).split())
        words = words if name.isupper() else f"(?i:{words})"
        each.append(f"(?P<{group(key)}>{words})")
    return re.compile(rf"(?<![\w’/-])(?:{'|'.join(each)})(?:e?s)?(?![\w/-])")


def with_links(html: str, known: dict[str, str]) -> str:
    """Return a chapter in which the first use of each term is a link to its entry."""
    html = LINKED.sub(r"\1", html)
    begin, end = html.find("<article"), html.find("</article>")
    if not known or begin < 0:
        return html
    finds = pattern(known)
    keys = {group(key): key for key in known}
    done: set[str] = set()
    open_tags: list[tuple[str, bool, bool]] = []  # name, holds running text, is closed to links
    out = []
    for part in TAG.split(html[begin:end]):
        tag = re.match(r"<(/?)([\w-]+)", part)
        if tag is not None and tag[2].lower() not in VOID and not part.endswith("/>"):
            name = tag[2].lower()
            if tag[1]:
                while open_tags and open_tags.pop()[0] != name:
                    pass
            else:
                above = open_tags[-1] if open_tags else ("", False, False)
                closed = above[2] or name in CLOSED or (name[0] == "h" and name[1:].isdigit())
                open_tags.append((name, above[1] or name in RUNNING, closed or bool(CLOSED_CLASS.search(part))))
                linked = re.search(r'href="glossary\.html#([^"]+)"', part)
                if linked is not None:
                    done.add(linked[1])
        elif tag is None and open_tags and open_tags[-1][1] and not open_tags[-1][2]:

            def link(match: re.Match[str]) -> str:
                key = keys.get(match.lastgroup or "", "")
                if not key or key in done or key in ORDINARY:
                    return match[0]
                done.add(key)
                return f'<a class="term" href="glossary.html#{key}">{match[0]}</a>'

            part = finds.sub(link, part)
        out.append(part)
    return html[:begin] + "".join(out) + html[end:]


def link_terms(pages: dict[Path, str], folder: Path) -> dict[Path, str]:
    """Return the pages of the build in `folder`, the chapters with links to the glossary; as they are without one."""
    glossary = pages.get(folder / GLOSSARY)
    if glossary is None:
        return pages
    known = names(glossary)
    return {path: with_links(text, known) if CHAPTER.match(path.name) else text for path, text in pages.items()}
