"""Finds numbers that somebody typed where a computed one belongs.

A sentence marked *paper GPU* or *measured here* reports results, so a number in it must have an anchor. What needs
none: labels (chapter 8, H100, P99), what the same sentence quotes, and settings, that is numbers that stand in the
notebook's code, also in other units (``tpot=0.05`` is 50 ms). What is neither is tied to itself: ``512<!--512-->``.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from tools.anchors import NUMBER, hide_code, source
from tools.sentences import COMPUTED, MARK, sentences

LABEL = re.compile(
    r"(?i:chapters?|exercises?|figures?|sections?|tables?|lines?|parts?|equations?|iterations?|steps?|workers?|algorithm)"
    r"\s+\d[\d.]*(?:\s*(?:,|and|to|or|–|-)\s*\d[\d.]*)*"
    r"|\[[^\]]*\]\([^)]*\)"  # links: their texts name a chapter, an equation, a paper
    r"|\$[^$]*\$|<!--.*?-->|<[^>]*>"
    r"|[^\W\d_][\w.]*[-‑]\d[\w.-]*|[\w.-]*[^\W\d_]\w*[-‑/]?\d[\w.-]*"  # Llama-3-8B, H100, P99, A100-40GB
    r"|\d+(?:st|nd|rd|th)\b|\d+[-‑]\w*[^\W\d]\w*|\d+[BMKGk]\b|\d+ [BM](?= model)"
    r"|^[ \t>]*\d+\. "
    r"|\(?\b(?:19|20)\d\d\b\)?",
    re.S | re.M,
)
UNITS = (1.0, 1e3, 1e6, 100.0)  # as it stands, ms, µs, per cent


def settings(notebook: Any) -> set[float]:
    """Return the numbers that stand in the code of `notebook`, each also in other units."""
    found: set[float] = set()
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        code = re.sub(r"^\s*[!%].*$", "", source(cell), flags=re.M)
        for node in ast.walk(ast.parse(code)):
            if not isinstance(node, ast.Constant):
                continue
            if isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
                found.add(float(node.value))
            elif isinstance(node.value, str):
                found |= {float(x) for x in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])", node.value)}
                found |= {float(x) for x in re.findall(r"(?<=:)\d+", node.value)}
    return {float(f"{value * unit:.6g}") for value in found for unit in UNITS}


def blank(pattern: re.Pattern[str], text: str) -> str:
    """Return `text` with what `pattern` finds replaced by spaces."""
    return pattern.sub(lambda found: " " * len(found[0]), text)


def without_quoted(text: str) -> str:
    """Blank what is quoted: from the mark before, or the bracket around it, to the mark *quoted*."""
    out, start = text, 0
    for mark in MARK.finditer(text):
        if mark[1] == "quoted":
            begin = max(start, text.rfind("(", start, mark.start()))
            out = out[:begin] + " " * (mark.end() - begin) + out[mark.end() :]
        start = mark.end()
    return out


def typed_numbers(notebook: Any) -> list[tuple[str, str, str]]:
    """Return cell id, number and sentence for each typed number in a sentence that reports results."""
    known, found = settings(notebook), []
    number = re.compile(NUMBER)
    anchored = re.compile(rf"(?:{NUMBER} ± )?{NUMBER}(?=<!--\S)")
    for cell in notebook["cells"]:
        if cell["cell_type"] != "markdown":
            continue
        text = hide_code(source(cell))
        for sentence in sentences(text):
            if not sentence.marks & COMPUTED:
                continue
            left = blank(LABEL, blank(anchored, without_quoted(sentence.text)))
            for match in number.finditer(left):
                value = float(match[0].replace(",", "").replace("−", "-").rstrip("%"))
                if float(f"{abs(value):.6g}") not in known:
                    found.append((cell["id"], match[0], sentence.plain))
    return found
