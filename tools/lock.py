"""Renew the locks from pyproject.toml, then environment.yml: ``make lock``.

`requirements.lock` is what the book needs, `requirements-test.lock` that and what the tests need; what is in both has
the same version.  uv resolves once for every supported Python and platform ("universal"): one list, with markers where
a platform needs something of its own.  ``--upgrade`` takes the newest versions that fit together; without it present
pins are kept.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK, TEST_LOCK = ROOT / "requirements.lock", ROOT / "requirements-test.lock"
HEADER = "# Exact versions for Python 3.11 and newer on Linux, macOS and Windows. Made by `make lock`; do not edit.\n"
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;]+)( ; .*)?$")

#: Extras of pyproject.toml that each lock holds, beside the dependencies.
EXTRAS = {LOCK: ("book", "server"), TEST_LOCK: ("book", "server", "test")}

CONDA_PYTHON = "3.12"


def pins(text: str) -> dict[str, str]:
    """Return name -> version of every pinned line of `text` (a lock file)."""
    found = (PIN.match(line) for line in text.splitlines())
    return {m[1]: m[2] for m in found if m}


def direct_requirements(pyproject: str, extras: Sequence[str] = ("book", "server")) -> list[str]:
    """Return what pyproject.toml itself asks for (dependencies and `extras`), sorted, without versions."""
    project = tomllib.loads(pyproject)["project"]
    optional = project["optional-dependencies"]
    lines = [*project["dependencies"], *(line for extra in extras for line in optional.get(extra, ()))]
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


def resolve(lock: Path, *more: str) -> int:
    """Write one lock; return how many packages it pins."""
    optional = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    extras = [word for extra in EXTRAS[lock] if extra in optional for word in ("--extra", extra)]
    fixed = [
        "--universal",
        "--fork-strategy",
        "fewest",
        "--python-version",
        "3.11",
        "--no-emit-index-url",
        "--no-header",
    ]
    command = [sys.executable, "-m", "uv", "pip", "compile", *fixed, "--quiet", *extras, *more]
    subprocess.run([*command, "--output-file", str(lock), "pyproject.toml"], cwd=ROOT, check=True)
    lock.write_text(HEADER + lock.read_text())
    return len(pins(lock.read_text()))


def main() -> None:
    """Resolve, and write the three files."""
    upgrade = ["--upgrade"] if "--upgrade" in sys.argv[1:] else []
    book = resolve(LOCK, *upgrade)
    tests = resolve(TEST_LOCK, *upgrade, "--constraint", LOCK.name)
    (ROOT / "environment.yml").write_text(environment(LOCK.read_text(), (ROOT / "pyproject.toml").read_text()))
    print(f"[lock] {book} packages pinned for the book, {tests} with the tests; environment.yml renewed")


if __name__ == "__main__":
    main()
