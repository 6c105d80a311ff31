"""How long a chapter takes, in one line under its title: ``python -m tools.times [--check]``.

Reading is counted from the words of the text and the lines of code; labs and exercises from their number.  The rates
are guesses about a reader who thinks along, not measurements.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORDS = 150  # words of technical prose a minute
LINES = 15  # lines of code a minute
LAB = 6  # minutes for a lab
EXERCISE = 6  # minutes for an exercise
BUILD = 20  # minutes for a function to be written
STEP = 5  # minutes: what the line is rounded to
SLACK = 10  # minutes by which a line may be off before the check fails

LINE = re.compile(r"^\*Reading about \d+ minutes, labs \d+, exercises \d+\.\*$", re.M)


@dataclass(frozen=True)
class Times:
    """Minutes for a page."""

    reading: int
    labs: int
    exercises: int

    def line(self) -> str:
        """Return the line under the title."""
        return f"*Reading about {self.reading} minutes, labs {self.labs}, exercises {self.exercises}.*"


def rounded(minutes: float) -> int:
    """Return minutes rounded to `STEP`; something is never nothing."""
    return max(STEP, STEP * round(minutes / STEP)) if minutes else 0


def times(path: Path) -> Times:
    """Return how long a notebook takes; folded answers are not read, hidden cells neither."""
    words = lines = labs = exercises = builds = 0
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "code":
            labs += len(re.findall(r'^show\("', text, re.M))
            hidden = {"remove-input", "remove-cell", "hide-input"} & set(cell["metadata"].get("tags", []))
            lines += 0 if hidden else sum(bool(line.strip()) for line in text.splitlines())
            continue
        named = re.findall(r"^### Exercise ([\w.]+)", text, re.M)
        builds += sum(one.endswith("build") for one in named)
        exercises += sum(not one.endswith("build") for one in named)
        read = re.sub(r"<details>.*?</details>|<!--.*?-->|\]\([^)]*\)|\$\$.*?\$\$", " ", text, flags=re.S)
        words += len(re.findall(r"[A-Za-z0-9][\w'-]*", read))
    return Times(
        rounded(words / WORDS + lines / LINES), rounded(labs * LAB), rounded(exercises * EXERCISE + builds * BUILD)
    )


def chapters(root: Path = ROOT) -> list[Path]:
    """Return the notebooks of the chapters in order."""
    return sorted((root / "book").glob("[0-9][0-9]-*.ipynb"))


def stated(path: Path) -> Times | None:
    """Return the times that stand under a chapter's title."""
    title = "".join(json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"])
    found = LINE.search(title)
    return Times(*map(int, re.findall(r"\d+", found[0]))) if found else None


def wrong(path: Path) -> bool:
    """Return whether a chapter's line is missing or off by more than `SLACK`."""
    now, then = times(path), stated(path)
    if then is None:
        return True
    pairs = ((now.reading, then.reading), (now.labs, then.labs), (now.exercises, then.exercises))
    return any(abs(a - b) > SLACK for a, b in pairs)


def write(path: Path) -> None:
    """Put the line under the title, or renew it."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    text, line = "".join(notebook["cells"][0]["source"]), times(path).line()
    if LINE.search(text):
        text = LINE.sub(line, text)
    else:
        title, _, rest = text.partition("\n")
        text = f"{title}\n\n{line}\n{rest}"
    notebook["cells"][0]["source"] = text.splitlines(keepends=True)
    path.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Write the lines, or check them."""
    parser = argparse.ArgumentParser(prog="python -m tools.times", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; name chapters whose line is off")
    options = parser.parse_args(arguments)
    off = [path.name for path in chapters() if wrong(path)]
    if options.check:
        print(*(f"{name}: run `python -m tools.times`" for name in off), sep="\n")
        return int(bool(off))
    for path in chapters():
        write(path)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
