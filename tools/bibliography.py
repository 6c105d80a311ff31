"""Write book/bibliography.md from book/references.bib: ``python -m tools.bibliography [--check]``.

The page is ordinary Markdown, each entry with its key as an anchor: ``[Yu et al., 2022](bibliography.md#yu2022orca)``.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from pybtex.backends.markdown import Backend
from pybtex.database import BibliographyData, Entry, parse_file
from pybtex.richtext import Text
from pybtex.style.formatting.plain import Style

ROOT = Path(__file__).resolve().parent.parent
HEAD = """\
# Bibliography · 参考文献

Every paper that a chapter quotes is listed here. Where a number in the text comes from one of them, it carries the mark
<small>quoted</small> and the citation; it has not been measured again for this book.

Each entry ends in its DOI. USENIX, NeurIPS, ICML and MLSys give their papers none: those have the publisher's address
or the paper's number at arXiv. Books have their ISBN; one old article has only its journal and pages. Each identifier
was looked up, with its title and authors, in the reference lists of at least two other works (for that old article in
one); `references.bib` says when, entry by entry.

<!-- Written by `python -m tools.bibliography` from references.bib; edit that. -->
"""


def entries(root: Path = ROOT) -> BibliographyData:
    """Return the entries of references.bib."""
    return parse_file(str(root / "book" / "references.bib"))


def label(entry: Entry) -> tuple[str, str]:
    """Return how a text names an entry: its authors, shortened, and the year."""
    people = [
        str(Text.from_latex(" ".join(person.prelast_names + person.last_names))) for person in entry.persons["author"]
    ]
    if len(people) > 2 or people[-1] == "others":
        who = f"{people[0]} et al."
    else:
        who = " and ".join(people)
    return who, entry.fields["year"]


def page(root: Path = ROOT) -> str:
    """Return the text of bibliography.md."""
    found = entries(root)
    backend: Any = Backend()
    lines = []
    for item in Style().format_bibliography(found):
        who, year = label(found.entries[item.key])
        text = re.sub(r"\\([.()\-!\\])", r"\1", item.text.render(backend))  # none of these means anything inside a line
        text = " ".join(text.replace("&nbsp;", " ").split())
        text = re.sub(r"URL: \[https://arxiv\.org/abs/([\d.]+)\]", r"[arXiv:\1]", text)
        text = re.sub(r"(?<!\[)arXiv:(\d{4}\.\d{4,5})", r"[arXiv:\1](https://arxiv.org/abs/\1)", text)
        text = re.sub(r"RFC (\d+)", r"[RFC \1](https://www.rfc-editor.org/rfc/rfc\1)", text)
        lines.append(f'<a id="{item.key}"></a>**{who}, {year}.** {text}')
    return HEAD + "\n" + "\n\n".join(lines) + "\n"


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.bibliography", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if the page is not up to date")
    options = parser.parse_args(arguments)
    path, text = root / "book" / "bibliography.md", page(root)
    if options.check:
        return int(path.read_text(encoding="utf-8") != text)
    path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
