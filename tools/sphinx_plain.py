"""What a page adds to a plain notebook, on the way from its Markdown to HTML.

The notebooks know nothing of it: marks in ``<small>`` become badges, sections called *Exercise* boxes, paragraphs that
begin with a figure's anchor captions, and numbers *measured here* those of this build's own run.
"""

from __future__ import annotations

from pathlib import Path

import nbformat
from docutils import nodes
from jupyter_cache import get_cache
from sphinx.application import Sphinx

from tools.execute import cached_values
from tools.numbers import page_source

BADGES = {
    "paper GPU": "num-paper",
    "measured here": "num-measured",
    "quoted": "num-quoted",
    "arithmetic": "num-arithmetic",
}


def use_own_measurements(app: Sphinx, name: str, content: list[str]) -> None:
    """Put the numbers that this build's run measured into a notebook's text; the file stays as it is."""
    if Path(app.env.doc2path(name)).suffix != ".ipynb" or "<!--measured " not in content[0]:
        return
    notebook = nbformat.reads(content[0], as_version=4)
    values = cached_values(notebook, get_cache(app.config.nb_execution_cache_path))
    if values is not None:
        content[0] = page_source(content[0], values)


def is_raw(node: nodes.Node, start: str) -> bool:
    """Return whether `node` is a piece of HTML that begins with `start`."""
    return isinstance(node, nodes.raw) and node.astext().startswith(start)


def badges(tree: nodes.document) -> None:
    """Turn ``<small>paper GPU</small>`` into an inline element with a class."""
    for opening in [node for node in tree.findall(nodes.raw) if node.astext() == "<small>"]:
        parent, at = opening.parent, opening.parent.index(opening)
        inner = parent[at + 1 : at + 3]
        if len(inner) == 2 and inner[0].astext() in BADGES and is_raw(inner[1], "</small>"):
            kind = inner[0].astext()
            parent[at : at + 3] = [nodes.inline("", kind, classes=[BADGES[kind]])]


def boxes(tree: nodes.document) -> None:
    """Give sections that are exercises, and paragraphs that are captions, a class."""
    for section in tree.findall(nodes.section):
        if section[0].astext().startswith("Exercise "):
            section["classes"].append("exercise")
    for paragraph in tree.findall(nodes.paragraph):
        if paragraph.children and is_raw(paragraph[0], '<a id="fig-'):
            paragraph["classes"].append("caption")


def tagged_equations(tree: nodes.document) -> None:
    """Let an equation of several lines keep its number.

    Sphinx puts whatever has a line break into *split*, in which TeX allows no tag.
    """
    for equation in tree.findall(nodes.math_block):
        text = equation.astext()
        if r"\tag{" in text and r"\\" in text:
            equation.children = [nodes.Text(rf"\begin{{equation}}{text.strip()}\end{{equation}}")]
            equation["nowrap"] = True


def dress(app: Sphinx, tree: nodes.document) -> None:
    """Apply all of the above to a page that has been read."""
    badges(tree)
    boxes(tree)
    tagged_equations(tree)


def connect(app: Sphinx) -> None:
    """Register the handlers."""
    app.connect("source-read", use_own_measurements)
    app.connect("doctree-read", dress)
