"""What every page loads, in one script and one style sheet, and without what no page uses.

The theme brings a dozen files and most of Bootstrap. `bundle` joins them; of the style sheets it keeps the rules whose
classes and ids occur in some page or script of the build. The search's index loads on the search page only. (book.css
stays a file of its own, after those and after what single pages bring.)
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import tinycss2

SCRIPT, STYLE = "book-page.js", "book-page.css"
#: In the order in which a page would load them.
SCRIPTS = (
    "documentation_options.js",
    "doctools.js",
    "sphinx_highlight.js",
    "clipboard.min.js",
    "copybutton.js",
    "scripts/sphinx-book-theme.js",
    "togglebutton.js",
    "page-shim.js",
    "page-terms.js",
    "page-progress.js",
    "scripts/bootstrap.js",
    "scripts/pydata-sphinx-theme.js",
)
STYLES = (
    "basic.css",
    "styles/theme.css",
    "styles/pydata-sphinx-theme.css",
    "pygments.css",
    "styles/sphinx-book-theme.css",
    "togglebutton.css",
    "copybutton.css",
    "mystnb.*.css",
    "labs.css",
)
SETTINGS = (
    "var toggleHintShow = 'Click to show', toggleHintHide = 'Click to hide', toggleOpenOnPrint = 'true';\n"
    "var togglebuttonSelector = '.toggle, .admonition.dropdown';\n"
)
#: The theme would stop at a browser that keeps nothing, and with it all that follows in the bundle.
STORAGE = """for (const name of ["localStorage", "sessionStorage"]) {
  try { window[name].setItem("labcode-try", ""); window[name].removeItem("labcode-try"); } catch (error) {
    Object.defineProperty(window, name, { configurable: true, value: Object.create({
      getItem(key) { return Object.hasOwn(this, key) ? this[key] : null; },
      setItem(key, text) { this[key] = String(text); },
      removeItem(key) { delete this[key]; },
    }) });
  }
}
"""
INLINE = re.compile(
    r"\s*<script>\s*(?:let toggle\w+ = [^<]*|var togglebuttonSelector[^<]*|DOCUMENTATION_OPTIONS\.\w+ = [^<]*)</script>"
)
SEARCH = re.compile(r'\s*<script src="[^"]*(?:searchtools|language_data|searchindex)\.js[^"]*"[^>]*></script>')
WORD = re.compile(r"[A-Za-z_][\w-]*")


def names(kept: tuple[str, ...]) -> str:
    """Return a pattern for the addresses of these files of _static, with or without a version."""
    return "|".join(re.escape(name).replace(r"\*", r"[\w]+") for name in kept) + "|book-page\\.(?:js|css)"


TAGS = {
    SCRIPT: re.compile(rf'\s*<script[^>]*src="([^"]*_static/)(?:{names(SCRIPTS)})(?:\?[^"]*)?"[^>]*></script>'),
    STYLE: re.compile(
        rf'\s*<link[^>]*href="([^"]*_static/)(?:{names(STYLES)})(?:\?[^"]*)?"[^>]*rel="stylesheet"[^>]*>'
    ),
}
STYLE_FIRST = re.compile(
    rf'\s*<link[^>]*rel="stylesheet"[^>]*href="([^"]*_static/)(?:{names(STYLES)})(?:\?[^"]*)?"[^>]*>'
)
PRELOAD = re.compile(r'\s*<link rel="preload" as="script"[^>]*>')


def selectors(prelude: list) -> Iterator[list]:
    """Yield the selectors of a rule, which commas part."""
    one: list = []
    for token in prelude:
        if token.type == "literal" and token.value == ",":
            yield one
            one = []
        else:
            one.append(token)
    yield one


def can_match(selector: list, words: set[str]) -> bool:
    """Return whether all classes and ids of a selector, outside of brackets, are among `words`."""
    for before, token in zip([None, *selector], selector, strict=False):
        if token.type == "hash" and token.value not in words:
            return False
        is_class = token.type == "ident" and before is not None and before.type == "literal" and before.value == "."
        if is_class and token.value not in words:
            return False
    return True


def used(rules: list, words: set[str]) -> str:
    """Return those of the `rules` of a style sheet that can match something, as text."""
    kept = []
    for rule in rules:
        if rule.type == "qualified-rule":
            matching = [one for one in selectors(rule.prelude) if can_match(one, words)]
            if matching:
                head = ",".join(tinycss2.serialize(one).strip() for one in matching)
                kept.append(f"{head}{{{tinycss2.serialize(rule.content).strip()}}}")
        elif rule.type == "at-rule" and rule.content is not None and rule.lower_at_keyword in {"media", "supports"}:
            inner = used(tinycss2.parse_rule_list(rule.content, skip_comments=True, skip_whitespace=True), words)
            if inner:
                kept.append(f"@{rule.at_keyword}{tinycss2.serialize(rule.prelude)}{{{inner}}}")
        elif rule.type == "at-rule" and rule.lower_at_keyword not in {"import", "charset"}:
            kept.append(rule.serialize())
    return "\n".join(kept)


def style_sheet(static: Path, words: set[str]) -> str:
    """Return the style sheets of `static` as one, for pages in which these words occur."""
    parts = []
    for name in STYLES:
        for path in sorted(static.glob(name)):
            rules = tinycss2.parse_stylesheet(
                path.read_text(encoding="utf-8"), skip_comments=True, skip_whitespace=True
            )
            text = used(rules, words)
            if path.parent != static:  # Addresses are relative to the file that they stand in.
                text = re.sub(r'url\((["\']?)\.\./', r"url(\1", text)
            parts.append(text)
    return "\n".join(parts) + "\n"


def write(path: Path, text: str) -> str:
    """Write a file if it is not there already; return its version."""
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def bundle(static: Path, pages: list[str]) -> dict[str, str]:
    """Write the script and style sheet of all pages into `static`; return their versions, {} without a theme."""
    if not (static / "scripts" / "pydata-sphinx-theme.js").is_file():
        return {}
    script = (
        SETTINGS
        + STORAGE
        + ";\n".join((static / name).read_text(encoding="utf-8") for name in SCRIPTS if (static / name).is_file())
    )
    script = re.sub(r"\n//# sourceMappingURL=\S*", "", script)
    words: set[str] = set()
    own = [p for p in static.rglob("*.js") if "vendor" not in p.parts and "labs" not in p.relative_to(static).parts]
    for text in [*pages, *(path.read_text(encoding="utf-8") for path in own)]:
        words.update(WORD.findall(text))
    return {SCRIPT: write(static / SCRIPT, script), STYLE: write(static / STYLE, style_sheet(static, words))}


def in_one_piece(html: str, tags: re.Pattern[str], name: str, tag: str) -> str:
    """Return a page in which one `tag` stands for all that `tags` finds, at the place of the first."""
    first = tags.search(html)
    if first is None:
        return html
    one = "\n    " + tag.format(first[1] + name)
    return html[: first.start()] + one + tags.sub("", html[first.start() :])


def light(html: str, versions: dict[str, str]) -> str:
    """Return a page that loads the two bundles of these versions, and the search only if it is the search page."""
    if 'src="_static/searchtools.js' not in html or 'id="search-results"' not in html:
        html = SEARCH.sub("", html)
        html = PRELOAD.sub("", INLINE.sub("", html))
        tag = f'<script defer="defer" src="{{}}?v={versions[SCRIPT]}"></script>'
        html = in_one_piece(html, TAGS[SCRIPT], SCRIPT, tag)
    tag = f'<link rel="stylesheet" type="text/css" href="{{}}?v={versions[STYLE]}" />'
    html = TAGS[STYLE].sub(lambda m: re.sub(r'(href="[^"]*")(.*)(rel="stylesheet")', r"\3 \1\2", m[0]), html)
    return in_one_piece(html, STYLE_FIRST, STYLE, tag)


def lighten(folder: Path) -> int:
    """Make every page of a build in `folder` load the bundles; return how many changed. It can be done again."""
    found = [path for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts]
    pages = {path: path.read_text(encoding="utf-8") for path in found}
    versions = bundle(folder / "_static", list(pages.values()))
    changed = {path: light(html, versions) for path, html in pages.items()} if versions else {}
    changed = {path: html for path, html in changed.items() if html != pages[path]}
    for path, html in changed.items():
        path.write_text(html, encoding="utf-8")
    return len(changed)
