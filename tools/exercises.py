"""Write book/a8-exercises.md, the list of all exercises: ``python -m tools.exercises [--check]``.

The list is read from the chapters' headings, ``### Exercise 7.1 · 练习 · Title``, each with its anchor
``<a id="ex-7-1"></a>`` before it.  `SOURCES` says where the exercises of the two sources stand.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "book" / "a8-exercises.md"
HEADING = re.compile(r'(<a id="ex-([\w-]+)"></a>\s+)?^### Exercise ([\w.]+) · 练习 · (.+)$', re.M)

#: Exercises of the lecture and of the textbook chapter: number, what it asks, where it stands, whether it is optional.
SOURCES = {
    "The lecture · 讲义": (
        ("1", "iteration-level FCFS", ("7.1",), False),
        ("2", "a latency profile, AIMD by hand", ("4.1",), False),
        ("3", "lowering the context limit", ("9.1",), False),
        ("4", "the price of padding", ("5.3", "6.1"), False),
        ("5", "when order matters", ("9.2",), False),
        ("6", "pipelines and micro-batches", ("7.3",), False),
        ("7", "how many machines", ("8.1",), False),
        ("8", "the length of the experiment", ("8.2",), False),
        ("9", "less interference of prefill and decode", ("9.3",), False),
    ),
    "The textbook chapter · 教材": (
        ("31.1", "TTFT, TPOT and the wait", ("2.1",), False),
        ("31.2", "rounds that depend on the batch", ("5.1",), False),
        ("31.3", "shares of padding", ("5.2",), False),
        ("31.4", "pairs of chunks", ("6.4", "10.1"), False),
        ("31.5", "blocks of two sequences", ("10.2",), False),
        ("31.6", "the area under the staircase", ("3.1",), False),
        ("31.7", "M/M/1 derived", ("3.2",), True),
        ("31.8", "percentiles of two stages", ("3.3", "11.3"), False),
        ("31.9", "fair per request and per token", ("12.1",), True),
        ("31.10", "a slow client", ("11.1",), False),
        ("31.11", "cancel, release, re-queue", ("12.4",), False),
        ("31.12", "evidence of a load test", ("13.1",), False),
        ("31.13", "a diagnosis", ("13.2",), False),
    ),
}
HEAD = """\
# All exercises · 全部练习

Each exercise stands in its chapter, with a folded answer. Most check your numbers, with `check("8.3a", value)` in a
kernel or in the field below the exercise on the page; those called *build* take a function of yours,
`check.code("5.build", your_function)`. The key is the chapter and `build`, also where the exercise has a number
(13.5, 14.6).

<!-- Written by `python -m tools.exercises` from the chapters; edit those. -->
"""


@dataclass(frozen=True)
class Exercise:
    """An exercise of the book."""

    id: str
    title: str
    page: str
    anchored: bool

    @property
    def link(self) -> str:
        """Its number as a link."""
        return f"[{self.id}]({self.page}#{anchor(self.id)})"

    @property
    def builds(self) -> bool:
        """Whether a function is to be written."""
        return self.id.endswith("build") or "uild" in self.title


def anchor(id: str) -> str:
    """Return the anchor of an exercise."""
    return "ex-" + id.lower().replace(".", "-")


def exercises(root: Path = ROOT) -> list[Exercise]:
    """Return all exercises in reading order."""
    found = []
    for path in sorted((root / "book").glob("*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            text = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                found += [
                    Exercise(m[3], m[4].strip(), path.name, f"ex-{m[2]}" == anchor(m[3]))
                    for m in HEADING.finditer(text)
                ]
    return found


def missing(found: list[Exercise]) -> list[str]:
    """Return a sentence for every exercise of a source that stands nowhere, and for every one without its anchor."""
    known = {one.id for one in found}
    wrong = [
        f"{source}, exercise {number}: {id} is not in the book"
        for source, rows in SOURCES.items()
        for number, _, where, _ in rows
        for id in where
        if id not in known
    ]
    return wrong + [
        f'{one.page}: exercise {one.id} lacks <a id="{anchor(one.id)}"></a>' for one in found if not one.anchored
    ]


def page(found: list[Exercise], titles: dict[str, str]) -> str:
    """Return the text of the page."""
    by_id = {one.id: one for one in found}
    parts = [HEAD]
    for source, rows in SOURCES.items():
        parts.append(f"## {source}\n\n| exercise | asks for | here | |\n|---|---|---|---|")
        for number, what, where, optional in rows:
            links = ", ".join(by_id[id].link for id in where)
            parts.append(f"| {number} | {what} | {links} | {'optional · 选修' if optional else ''} |")
        parts.append("")
    building = [one for one in found if one.builds]
    parts.append("## To build · 动手\n\n| | function or object |\n|---|---|")
    parts += [f"| {one.link} | {one.title} |" for one in building]
    parts.append("\n## By chapter · 按章\n")
    for name in dict.fromkeys(one.page for one in found):
        listed = "; ".join(f"{one.link} {one.title}" for one in found if one.page == name)
        parts.append(f"**[{titles[name]}]({name})**: {listed}.\n")
    return "\n".join(parts).rstrip() + "\n"


def chapter_titles(root: Path = ROOT) -> dict[str, str]:
    """Return the English title of every notebook, by file name."""
    found = {}
    for path in sorted((root / "book").glob("*.ipynb")):
        text = "".join("".join(cell["source"]) + "\n" for cell in json.loads(path.read_text(encoding="utf-8"))["cells"])
        line = next(line for line in text.splitlines() if line.startswith("# "))
        found[path.name] = line[2:].split(" · ")[0].strip()
    return found


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or say whether it is up to date."""
    parser = argparse.ArgumentParser(prog="python -m tools.exercises", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if the page is stale")
    options = parser.parse_args(arguments)
    found = exercises()
    wrong = missing(found)
    for line in wrong:
        print(line)
    if wrong:
        return 1
    text = page(found, chapter_titles())
    if options.check:
        return int(not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
