"""The page view of a lab: a still picture of the default setting in a place that the page's script brings to life.

Without the script, on paper, or before the lab comes into view, the reader sees the picture, its headline and its
sentences.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from html import escape

import matplotlib

from labcode.labkit.build import lab_digest
from labcode.labkit.lab import Lab
from labcode.labkit.panel import Panel
from labcode.labkit.render_matplotlib import draw
from labcode.labkit.theme import HATCHES, colours, variable


def svg(panels: Sequence[Panel], alt: str, salt: str) -> str:
    """Return the panels as inline SVG for a page: themed through CSS variables, text as text, `alt` as its name.

    Parameters
    ----------
    panels : sequence of Panel
    alt : str
        Text alternative.
    salt : str
        Makes the ids inside unique on the page, e.g. the lab's id.
    """
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        figure = draw(panels)
        width, height = (side * 72 for side in figure.get_size_inches())
        out = io.StringIO()
        figure.savefig(
            out, format="svg", facecolor="none", metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
        )
    body = _smaller(out.getvalue())
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" role="img" '
        f'aria-label="{escape(alt)}" viewBox="0 0 {width:.0f} {height:.0f}" class="lab-picture">'
        f"<title>{escape(alt)}</title>"
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
    text = re.sub(r"(\d+\.\d)\d+", r"\1", text)  # A tenth of a point is below a pixel.
    text = re.sub(r">\s+<", "><", re.sub(r"\s+", " ", text))
    for name, colour in colours("light").items():
        text = text.replace(colour, variable(name))
    return re.sub(r'<pattern id="([^"]*)".*?stroke: var\(--lab-(\w+)\).*?</pattern>', _hatch, text)


def _hatch(found: re.Match[str]) -> str:
    """Return a small tile in place of matplotlib's hatch, which spells out every stroke and dot of it."""
    name, role = found.groups()
    return (
        f'<pattern id="{name}" width="5" height="5" patternUnits="userSpaceOnUse">'
        f'<rect width="5" height="5" fill="{variable("paper")}"/>'
        f'<path d="{HATCHES[role]}" stroke="{variable(role)}" fill="none"/></pattern>'
    )


class Still:
    """HTML of a lab's default setting, as IPython shows it.

    Parameters
    ----------
    lab : Lab
    """

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.result = lab.run()
        self.alt = lab.alt_text(self.result, lab.default)

    def _repr_html_(self) -> str:
        lab = self.lab
        setting = ", ".join(f"{c.label}: {c.text(c.default)}" for c in lab.controls)
        sentences = "".join(
            f"<li><b>{escape(p.title)}.</b> {escape(p.text)}</li>" for p in self.result.panels if p.text
        )
        question = f'<p class="lab-question">{escape(lab.predict)}</p>' if lab.predict else ""
        # The version keeps a browser from pairing a new page with an old data file.
        return (
            f'<div class="lab" id="{lab.id}" data-lab="{lab.id}" data-version="{lab_digest(lab)}" role="group" '
            f'aria-label="Lab: {escape(lab.title)}">'
            f'<div class="lab-head"><p class="lab-title"><span class="lab-tag">Lab</span> {escape(lab.title)}</p></div>'
            f'<div class="lab-still">{question}<p class="lab-setting">{escape(setting)}</p>'
            f'<p class="lab-headline">{escape(self.result.headline)}</p>'
            f"{svg(self.result.panels, self.alt, lab.id)}"
            f'<ul class="lab-sentences">{sentences}</ul></div></div>'
        )

    def __repr__(self) -> str:
        return f"Lab: {self.lab.title}. {self.result.headline}"
