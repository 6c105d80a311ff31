"""The last step of a build: what Sphinx and the theme leave undone in the pages they write.

- Comments, among them the anchors that say how a number was computed, are not shipped.
- Formulas are set as MathML (tools/mathematics.py); a page loads MathJax only for those that cannot be.
- Names and punctuation in code, as dark as plain text, are no elements: a browser has a third fewer to lay out.
- Runs of Chinese are marked with their language, so that they are set in a Chinese face and read out in Chinese.
- The few icons that a page uses stand in it as SVG; the theme would load one and a half megabytes of script for them.
- A page loads the labs, design elements and copy buttons only if it has any; the labs' scripts are one file.
- What has words on it is called by them.
- Names of labcode lead to the reference, and the reference back (tools/entries.py).
- The first use of a glossary's term in each chapter is a link to it (tools/term_links.py).
- What the glossary says is written once more, for the cards at links to it (tools/terms.py).

Every change leaves a page alone that it has been made to before.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from tools.entries import link_entries
from tools.math_font import NAME as MATH_FACE
from tools.math_font import characters, write_font
from tools.mathematics import with_mathml
from tools.sphinx_book import LAB_ASSETS
from tools.term_links import link_terms
from tools.terms import write_terms

HAN = "\u2e80-\u2fdf\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
#: Chinese characters, with their punctuation and what stands between two of them without a blank.
CHINESE = re.compile(f"[{HAN}][{HAN}\u3000-\u303f\uff00-\uffef]*")
TAG = re.compile(r"(<!--.*?-->|<[^>]+>)", re.S)
UNTOUCHED = {"script", "style", "title", "textarea", "option", "svg", "head"}

ICON = re.compile(r'<(i|span)\b([^>]*?)class="([^"]*\bfa-[\w-]+[^"]*)"([^>]*)></\1>')
ICON_SCRIPT = re.compile(r"\s*<script[^>]*scripts/fontawesome\.js[^>]*></script>")
STYLES = {"fa-solid", "fas", "fa-regular", "far", "fa-brands", "fab", "fa-lg", "fa-fw"}
MATH = re.compile(r"\s*<script>window\.MathJax[^<]*</script>|\s*<script[^>]*vendor/mathjax/[^>]*></script>")
#: A formula in TeX's delimiters.
UNSET = re.compile(r'class="[^"]*\bmath\b[^"]*"[^>]*>\s*(?:\\\(|\\\[|\\begin)')
CODE = re.compile(r'<div class="highlight">.*?</pre>', re.S)
#: Names, punctuation, blanks and names of modules: both themes set them as plain text.
PLAIN = re.compile(r'<span class="(n|p|w|nn)">([^<]*)</span>')
BOOK_SHEET = re.compile(r'<link[^>]*href="(?P<folder>[^"]*_static/)book\.css[^"]*"[^>]*>')
FACE_SHEET = re.compile(rf"\s*<link[^>]*_static/{MATH_FACE}[^>]*>")
COMMENT = re.compile(r"(?P<kept><(script|style)\b.*?</\2>)|<!--.*?-->", re.S)
BUNDLE = "book-labs.js"
LAB_SCRIPT = re.compile(r'\s*<script[^>]*src="([^"]*_static/)labs[\w-]*\.js[^"]*"[^>]*></script>')
#: What a page has if it needs something, and the tags that load that.
USES = (
    (r'class="lab[ "]', re.compile(r"\s*<(?:script|link)[^>]*_static/labs[\w-]*\.(?:js|css)[^>]*>(?:</script>)?")),
    (r'class="[^"]*\bsd-', re.compile(r"\s*<(?:script|link)[^>]*(?:sphinx-design|design-tabs)[^>]*>(?:</script>)?")),
    (r"<pre", re.compile(r"\s*<(?:script|link)[^>]*_static/(?:clipboard|copybutton)[^>]*>(?:</script>)?")),
)
#: The theme's search field and the fold of a hidden cell.
MISNAMED = re.compile(
    r'(<button[^>]*\bsearch-button-field\b[^>]*?) aria-label="Search"|(?<=<summary) aria-label="Toggle hidden content"'
)


def mark_chinese(html: str) -> str:
    """Return a page whose runs of Chinese are marked as such."""
    out: list[str] = []
    skip: list[str] = []
    marked = False  # Inside a run that is marked already.
    for part in TAG.split(html):
        if part.startswith("<"):
            name = re.match(r"</?([\w-]+)", part)
            if name and name[1].lower() in UNTOUCHED and not part.endswith("/>"):
                if part.startswith("</"):
                    if skip:
                        skip.pop()
                else:
                    skip.append(name[1])
            marked = part == '<span lang="zh-Hans">'
            out.append(part)
        elif skip or marked:
            out.append(part)
        else:
            out.append(CHINESE.sub(r'<span lang="zh-Hans">\g<0></span>', part))
    return "".join(out)


def icon_paths(script: str) -> dict[str, tuple[int, int, str]]:
    """Return name -> (width, height, path) of the solid icons in the theme's icon script; aliases count as names."""
    solid = script[script.rindex('="solid"') if '="solid"' in script else 0 :]
    found: dict[str, tuple[int, int, str]] = {}
    for m in re.finditer(r'"?([\w-]+)"?:\[(\d+),(\d+),\[([^\]]*)\],"[0-9a-f]+","([^"]+)"\]', solid):
        names = [m[1], *re.findall(r'"([a-z][\w-]*)"', m[4])]
        for name in names:
            found.setdefault(name, (int(m[2]), int(m[3]), m[5]))
    return found


def inline_icons(html: str, icons: dict[str, tuple[int, int, str]]) -> str:
    """Return a page with its icons drawn in place, without the script that would draw them.

    A page with an icon that is not known keeps the script.
    """

    def drawn(m: re.Match[str]) -> str:
        classes = m[3].split()
        name = next((c[3:] for c in classes if c.startswith("fa-") and c not in STYLES), "")
        if name not in icons:
            return m[0]
        width, height, path = icons[name]
        kept = " ".join(c for c in classes if not c.startswith("fa") or c == "fa-lg")
        more = " ".join(f"{m[2]} {m[4]}".split())
        return (
            f'<span class="icon {kept}"{" " + more if more else ""}><svg viewBox="0 0 {width} {height}" '
            f'aria-hidden="true" focusable="false"><path fill="currentColor" d="{path}"/></svg></span>'
        )

    done = ICON.sub(drawn, html)
    return done if ICON.search(done) else ICON_SCRIPT.sub("", done)


def without_comments(html: str) -> str:
    """Return a page without comments; scripts and styles stay as they are."""
    return COMMENT.sub(lambda m: m["kept"] or "", html)


def without_idle_mathjax(html: str) -> str:
    """Return a page that loads MathJax only if it holds a formula that is not set yet."""
    return html if UNSET.search(html) else MATH.sub("", html)


def without_plain_spans(html: str) -> str:
    """Return a page whose code marks only what has a colour of its own, which is a third of it."""
    return CODE.sub(lambda m: PLAIN.sub(r"\2", m[0]), html)


def with_math_font(html: str, mark: str) -> str:
    """Return a page with formulas that loads the face for them, in the version that `mark` names."""
    html = FACE_SHEET.sub("", html)
    sheet = r'\n    <link rel="stylesheet" href="\g<folder>' + f'{MATH_FACE}?v={mark}" />'
    return BOOK_SHEET.sub(r"\g<0>" + sheet, html, count=1) if "<math" in html else html


def without_misnamed(html: str) -> str:
    """Return a page without names that hide what is written on a button: who speaks to a page says what he sees."""
    return MISNAMED.sub(r"\1", html)


def without_unused(html: str) -> str:
    """Return a page that loads only what it has a use for, and the labs' scripts in one file."""
    body = html[html.find("<body") :]
    for used, loads in USES:
        if not re.search(used, body):
            html = loads.sub("", html)
    first = LAB_SCRIPT.search(html)
    if first is None:
        return html
    folder = first[1]
    version = hashlib.sha256("".join(m[0] for m in LAB_SCRIPT.finditer(html)).encode()).hexdigest()[:8]
    one = f'\n    <script defer="defer" src="{folder}{BUNDLE}?v={version}"></script>'
    return LAB_SCRIPT.sub("", html[: first.start()] + one + html[first.end() :])


def bundle_labs(static: Path) -> None:
    """Write the labs' scripts into one file, in the order in which a page would load them."""
    parts = [(static / name).read_text(encoding="utf-8") for name in LAB_ASSETS if name.endswith(".js")]
    text = ";\n".join(parts)
    path = static / BUNDLE
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def finish(folder: Path) -> int:
    """Finish every page of a build in `folder`; return how many changed."""
    script = folder / "_static" / "scripts" / "fontawesome.js"
    icons = icon_paths(script.read_text(encoding="utf-8")) if script.is_file() else {}
    if (folder / "_static" / "labs.js").is_file():
        bundle_labs(folder / "_static")
    read: dict[Path, str] = {}
    finished: dict[Path, str] = {}
    for path in sorted(folder.rglob("*.html")):
        if "_static" in path.parts:
            continue
        read[path] = before = path.read_text(encoding="utf-8")
        lighter = without_unused(without_idle_mathjax(with_mathml(inline_icons(without_comments(before), icons))))
        finished[path] = mark_chinese(without_misnamed(without_plain_spans(lighter)))
    finished = link_terms(link_entries(finished, folder), folder)
    mark = write_font(folder / "_static", characters(list(finished.values())))
    changed = 0
    for path, after in finished.items():
        with_face = with_math_font(after, mark)
        if with_face != read[path]:
            path.write_text(with_face, encoding="utf-8")
            changed += 1
    write_terms(folder)
    return changed
