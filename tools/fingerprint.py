"""What the outputs of the notebooks depend on, boiled down to one hash: labcode, its data, the locked packages, Python.

The hash is part of the path of the cache of executed notebooks. After a change in labcode the path is another one, and
stale results cannot be shown. Which notebook it is, is seen to by jupyter-cache itself, which compares all code cells.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SKIP = {"__pycache__", ".ipynb_checkpoints"}


def sources(root: Path = ROOT) -> list[Path]:
    """Return the files that decide what a notebook prints, in a fixed order."""
    files = [p for p in (root / "labcode").rglob("*") if p.is_file() and not SKIP & set(p.parts) and p.suffix != ".pyc"]
    lock = root / "requirements.lock"
    return sorted([*files, *([lock] if lock.exists() else [])])


def fingerprint(root: Path = ROOT) -> str:
    """Return 16 hexadecimal digits that change when any of `sources` or Python's version does."""
    digest = hashlib.sha256(sys.version.split()[0].encode())
    for path in sources(root):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def book_fingerprint(root: Path = ROOT) -> str:
    """Return 16 hexadecimal digits that change with all that a page is made of: `fingerprint`, texts, assets, tools."""
    made_of = [
        p for folder in ("book", "tools") for p in (root / folder).rglob("*") if p.is_file() and not SKIP & set(p.parts)
    ]
    made_of += [root / name for name in ("_config.yml", "_toc.yml")]
    digest = hashlib.sha256(fingerprint(root).encode())
    for path in sorted(made_of):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def cache_path(root: Path = ROOT) -> Path:
    """Return the folder of executed notebooks that is valid for the present state of labcode."""
    return root / "_build" / "executed" / fingerprint(root)


def discard_if_changed(cache: Path, root: Path = ROOT) -> bool:
    """Remove `cache` if labcode has changed since its path was computed; return whether it had.

    A notebook that ran meanwhile may have seen either state of labcode, so what it left belongs to neither.
    """
    if cache == cache_path(root):
        return False
    shutil.rmtree(cache, ignore_errors=True)
    return True
