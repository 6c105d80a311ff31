"""Numbers in sentences, tied to the code that computes them by an HTML comment that no viewer shows.

::

    The step takes 12.3<!--1e3 * step.time:.1f--> ms, 85%<!--share:.0%--> of it reading weights.
    On this machine it is 4.1<!--measured speedup:.1f--> times.

The comment follows the number without a space and begins without one: a Python expression over the notebook's names at
that point of the run, a colon, and a format specification. The last colon counts, unless what stands before it is no
expression (``rows["a:b"]``); without a specification the value is written as `str` has it. ``64.3 ± 1.2`` is one value
when the expression gives such a text. *measured* marks a number that differs from machine to machine: the file keeps
what somebody once saw, and a page shows what its own build measured.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

COMMENT = re.compile(r"<!--(measured )?(?!\s)(.+?)-->", re.S)
NUMBER = r"(?:(?<![^\s(\[*_|=×])[+\-−])?(?<![\w.,])\d+(?:,\d{3})*(?:\.\d+)?(?:e[+\-]?\d+)?%?"
WORD = r"(?<!\w)[^\W\d_]\w*"
SIMPLE = re.compile(rf"(?:{NUMBER}|{WORD})\Z")
INTERVAL = re.compile(rf"{NUMBER} ± {NUMBER.replace('(?<![^', '(?<![^±', 1)}\Z")
CODE = re.compile(r"^(`{3,}|~{3,}).*?^\1|`[^`\n]+`", re.S | re.M)


@dataclass(frozen=True)
class Anchor:
    """One anchored number.

    Attributes
    ----------
    at : int
        Where the comment begins in the cell's source.
    expression, spec : str
        What is evaluated, and how the value is written.
    measured : bool
        Whether the number belongs to the machine that ran the notebook.
    line : str
        The line in which it stands.
    """

    at: int
    expression: str
    spec: str
    measured: bool
    line: str

    @property
    def key(self) -> str:
        """What a notebook's run is asked for: the expression that gives the number as text."""
        return f"format(({self.expression}), {self.spec!r})"


def hide_code(text: str) -> str:
    """Return `text` with code blocks and spans blanked out, of the same length."""
    return CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def split(body: str) -> tuple[str, str]:
    """Return expression and format specification of the text in a comment.

    Raises
    ------
    ValueError
        If neither the text before the last colon nor the whole is a Python expression.
    """
    before, colon, after = body.rpartition(":")
    for expression, spec in ((before, after), (body, "")) if colon else ((body, ""),):
        try:
            ast.parse(expression.strip(), mode="eval")
        except SyntaxError:
            continue
        return expression.strip(), spec.strip()
    raise ValueError(f"not an expression with a format: {body!r}")


def anchors(text: str) -> list[Anchor]:
    """Return the anchors of a Markdown text in order.

    Raises
    ------
    ValueError
        If a comment that begins without a space is no expression, or would be cut in two by a table's bars.
    """
    found = []
    for match in COMMENT.finditer(hide_code(text)):
        body = text[match.start(2) : match.end(2)]
        expression, spec = split(body)
        start = text.rfind("\n", 0, match.start()) + 1
        line = text[start : (text.find("\n", match.end()) + 1 or len(text) + 1) - 1]
        if "|" in body and line.lstrip().startswith("|"):
            raise ValueError(f"a bar inside an anchor would end the table's cell: {body!r}")
        found.append(Anchor(match.start(), expression, spec, match[1] is not None, line.strip()))
    return found


def shown(text: str, anchor: Anchor, value: str = "") -> tuple[int, int]:
    """Return where the text in front of an anchor begins and ends.

    It is as much as `value` has: an interval where that is one, a number or a word otherwise.

    Raises
    ------
    ValueError
        If there is no number directly in front of the comment.
    """
    before = text[: anchor.at]
    found = (INTERVAL.search(before) if "±" in value else None) or SIMPLE.search(before)
    if found is None:
        raise ValueError(f"no number in front of <!--{anchor.expression}-->: {anchor.line!r}")
    return found.start(), found.end()


Change = tuple[Anchor, str, str]  # an anchor, its old number and its new one


def fill(text: str, values: Mapping[str, str], only_measured: bool = False) -> tuple[str, list[Change]]:
    """Write `values` in front of the anchors of `text`.

    Parameters
    ----------
    text : str
        Source of a Markdown cell.
    values : mapping of str to str
        Text of the number for each `Anchor.key`.
    only_measured : bool
        Renew measured numbers and no others, rather than all others and not them.

    Returns
    -------
    new : str
        The text with present numbers.
    changes : list of Change
        What was replaced.
    """
    changes: list[Change] = []
    pieces: list[str] = []
    end = len(text)
    for anchor in reversed(anchors(text)):
        if anchor.measured != only_measured or anchor.key not in values:
            continue
        value = values[anchor.key]
        start, stop = shown(text, anchor, value)
        if text[start:stop] != value:
            changes.append((anchor, text[start:stop], value))
            pieces += [text[stop:end], value]
            end = start
    pieces.append(text[:end])
    return "".join(reversed(pieces)), changes[::-1]


def cells_with_anchors(notebook: Any) -> Iterator[tuple[int, Any, list[Anchor]]]:
    """Yield for each Markdown cell that has anchors: how many code cells precede it, the cell, its anchors."""
    before = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            before += 1
        elif cell["cell_type"] == "markdown":
            try:
                found = anchors(source(cell))
            except ValueError as error:
                raise ValueError(f"cell {cell.get('id')}: {error}") from None
            if found:
                yield before, cell, found


def source(cell: Any) -> str:
    """Return a cell's text, which a file may hold in one string or in lines."""
    return cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])


def wanted(notebook: Any) -> set[str]:
    """Return the names under which a run stores the numbers of `notebook`: place and expression."""
    return {f"{before}: {a.key}" for before, _, found in cells_with_anchors(notebook) for a in found}


def values_at(before: int, values: Mapping[str, str]) -> dict[str, str]:
    """Return those of a run's `values` that were computed after `before` code cells, by `Anchor.key`."""
    start = f"{before}: "
    return {name.removeprefix(start): value for name, value in values.items() if name.startswith(start)}
