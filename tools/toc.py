"""Write _toc.yml from what lies in book/: ``make toc`` after adding a chapter or an appendix.

Files are told apart by their names: ``NN-name`` is a chapter, ``aN-name`` an appendix, both in the order of their
numbers; `index` is the front page and `intro` follows it; what remains closes the book in the order of `LAST`.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAST = ["lecturers", "answers", "reference", "glossary", "bibliography"]
HEADER = """\
# Every notebook and page under book/, in reading order. Written by `make toc`; a test holds that nothing is missing.
format: jb-book
root: book/index
parts:
"""


def documents(root: Path = ROOT) -> list[str]:
    """Return the names of all notebooks and pages directly under book/, without suffix, sorted."""
    return sorted(path.stem for path in (root / "book").iterdir() if path.suffix in {".ipynb", ".md"})


def table_of_contents(names: list[str]) -> str:
    """Return the text of _toc.yml for documents of these names."""
    chapters = sorted(name for name in names if re.match(r"\d\d-", name))
    appendices = sorted(name for name in names if re.match(r"a\d+-", name))
    rest = [name for name in names if name not in {"index", "intro", *chapters, *appendices}]
    closing = sorted(rest, key=lambda name: (LAST.index(name) if name in LAST else -1, name))
    lines = ["  - chapters:", "      - file: book/intro"] if "intro" in names else []
    if chapters:
        lines += ["  - caption: Chapters · 正文", "    numbered: 2", "    chapters:"]
        lines += [f"      - file: book/{name}" for name in chapters]
    if appendices or closing:
        lines += ["  - caption: Appendices · 附录", "    chapters:"]
        lines += [f"      - file: book/{name}" for name in [*appendices, *closing]]
    return HEADER + "\n".join(lines) + "\n"


def main() -> None:
    """Write the file."""
    text = table_of_contents(documents())
    (ROOT / "_toc.yml").write_text(text, encoding="utf-8")
    print(text, end="")


if __name__ == "__main__":
    main()
