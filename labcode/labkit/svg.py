"""A matplotlib figure as inline SVG for a page: small, text as text, coloured by the page's theme."""

from __future__ import annotations

import io
import re
from html import escape

import matplotlib
from matplotlib.figure import Figure

from labcode.labkit.theme import HATCHES, colours, variable

#: Styles that every axis has, and the classes of book/assets/labs.css that say the same in a few letters.
CLASSES = {
    "fill:none;stroke:var(--lab-grid);stroke-width:0.8": "lab-g",
    "fill:var(--lab-axis);stroke:var(--lab-axis);stroke-width:0.8": "lab-a",
    "font-size:8px;text-anchor:middle;fill:var(--lab-quiet)": "lab-m",
    "font-size:8px;text-anchor:end;fill:var(--lab-quiet)": "lab-e",
}


def inline(figure: Figure, alt: str, salt: str) -> str:
    """Return a figure of panels as inline SVG.

    Parameters
    ----------
    figure : Figure
        Drawn in the light theme, whose colours become CSS variables.
    alt : str
        Text alternative.
    salt : str
        Makes the ids inside unique on the page, e.g. the lab's id.
    """
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        width, height = (side * 72 for side in figure.get_size_inches())
        out = io.StringIO()
        figure.savefig(
            out, format="svg", facecolor="none", metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
        )
    body = _smaller(out.getvalue())
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" role="img" '
        f'aria-label="{escape(alt)}" viewBox="0 0 {width:.0f} {height:.0f}" class="lab-picture">'
    )
    return head + body[body.index(">") + 1 :].strip()


def _smaller(text: str) -> str:
    """Return matplotlib's SVG without what a page does not need, its colours replaced by CSS variables."""
    text = text[text.index("<svg") :]
    # The style element would apply to the whole page, names of groups would appear once for each lab of it.
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>", "", text, flags=re.S)
    text = re.sub(r'<g id="[^"]*"', "<g", text)
    for needless in (r'font-family: [^;"]*;? ?', r' transform="rotate\(-0 [^"]*"', "; stroke-linecap: square"):
        text = re.sub(needless, "", text)
    # A tenth of a point is below a pixel.  Inside the tags only: a label says 0.002 and not 0.0.
    text = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\d+\.\d)\d+", r"\1", tag[0]), text)
    text = re.sub(r">\s+<", "><", re.sub(r"\s+", " ", text))
    text = re.sub(r' d="([^"]*)"', _short_path, text)
    for name, colour in colours("light").items():
        text = text.replace(colour, variable(name))
    text = re.sub(r'<pattern id="([^"]*)".*?stroke: var\(--lab-(\w+)\).*?</pattern>', _hatch, text)
    text = re.sub(r'style="[^"]*"', lambda found: found[0].replace(": ", ":").replace("; ", ";"), text)
    for style, name in CLASSES.items():
        text = text.replace(f'style="{style}"', f'class="{name}"')
    return _without_plain_groups(text)


def _without_plain_groups(text: str) -> str:
    """Return the SVG without groups that say nothing about their members."""
    parts: list[str] = []
    kept: list[bool] = []  # for each open group, whether it stays
    for part in re.split(r"(<g>|<g [^>]*[^/>]>|</g>)", text):
        opens, closes = part == "<g>" or (part.startswith("<g ") and not part.endswith("/>")), part == "</g>"
        if opens:
            kept.append(part != "<g>")
        if not (opens or closes) or kept[-1]:
            parts.append(part)
        if closes:
            kept.pop()
    return "".join(parts)


def _short_path(found: re.Match[str]) -> str:
    """Return a path without the blanks around its letters and the zeros behind its points."""
    short = re.sub(r" ?([MLCQz]) ?", r"\1", re.sub(r"\.0(?!\d)", "", found[1]))
    return f' d="{short.strip()}"'


def _hatch(found: re.Match[str]) -> str:
    """Return a small tile in place of matplotlib's hatch, which spells out every stroke and dot of it."""
    name, role = found.groups()
    return (
        f'<pattern id="{name}" width="5" height="5" patternUnits="userSpaceOnUse">'
        f'<rect width="5" height="5" fill="{variable("paper")}"/>'
        f'<path d="{HATCHES[role]}" stroke="{variable(role)}" fill="none"/></pattern>'
    )
