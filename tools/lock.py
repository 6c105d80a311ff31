"""Renew requirements.lock from pyproject.toml, then environment.yml from the lock: ``make lock``.

uv resolves once for every supported Python and platform ("universal"): one list, with markers where a platform needs
something of its own. ``--upgrade`` takes the newest versions that fit together; without it present pins are kept.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
HEADER = "# Exact versions for Python 3.11 and newer on Linux, macOS and Windows. Made by `make lock`; do not edit.\n"
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;]+)( ; .*)?$")

CONDA_PYTHON = "3.12"


def pins(text: str) -> dict[str, str]:
    """Return name -> version of every pinned line of `text` (a lock file)."""
    found = (PIN.match(line) for line in text.splitlines())
    return {m[1]: m[2] for m in found if m}


def direct_requirements(pyproject: str) -> list[str]:
    """Return what pyproject.toml itself asks for (dependencies, extras `book` and `test`), sorted, without versions."""
    project = tomllib.loads(pyproject)["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *extras["book"], *extras["test"]]
    return sorted({re.split(r"[<>=!~; ]", line)[0].lower() for line in lines})


def environment(lock: str, pyproject: str) -> str:
    """Return the text of environment.yml.

    conda gives Python and pip; the packages come from pip, so that their versions are the tested ones whatever
    conda-forge has at the time. The direct requirements are spelt out; the lock constrains all the others.
    """
    version = pins(lock)
    lines = [
        "# For conda (`conda env create -f environment.yml`) and Binder. Made by `make lock`; do not edit.",
        "name: labcode",
        "channels:",
        "  - conda-forge",
        "dependencies:",
        f"  - python={CONDA_PYTHON}",
        "  - pip",
        "  - pip:",
        "      - -c requirements.lock",
        *(f"      - {name}=={version[name.split('[')[0]]}" for name in direct_requirements(pyproject)),
        "      - -e .",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Resolve, and write both files."""
    upgrade = ["--upgrade"] if "--upgrade" in sys.argv[1:] else []
    command = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "compile",
        "--universal",
        "--fork-strategy",
        "fewest",
        "--python-version",
        "3.11",
        "--extra",
        "book",
        "--extra",
        "test",
        "--no-emit-index-url",
        "--no-header",
        "--quiet",
        *upgrade,
        "--output-file",
        str(LOCK),
        "pyproject.toml",
    ]
    subprocess.run(command, cwd=ROOT, check=True)
    text = HEADER + LOCK.read_text()
    LOCK.write_text(text)
    (ROOT / "environment.yml").write_text(environment(text, (ROOT / "pyproject.toml").read_text()))
    print(f"[lock] {len(pins(text))} packages pinned; environment.yml renewed")


if __name__ == "__main__":
    main()
