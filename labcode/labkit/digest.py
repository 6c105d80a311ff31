"""A hash of the source files that a module is made of, so that only labs whose code changed are computed again."""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]  # The folder that holds the package `labcode`.


def _source(module: str) -> Path | None:
    """Return the source file of a module of this package, None if there is none."""
    path = _ROOT.joinpath(*module.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


@cache
def _imports(path: Path) -> frozenset[str]:
    """Return the modules of this package that a source file imports, anywhere in it, with their parent packages."""
    package = path.parent.relative_to(_ROOT).as_posix().replace("/", ".") if path.is_relative_to(_ROOT) else ""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parts, *([base] if base else [])])
            found.add(base)
            found.update(f"{base}.{alias.name}" for alias in node.names)  # May be a module or a name in one.
    top = _ROOT.joinpath("labcode").name
    parents = {".".join(name.split(".")[:i]) for name in found for i in range(1, name.count(".") + 2)}
    return frozenset(name for name in parents if name.split(".")[0] == top)


def sources(start: Path) -> list[Path]:
    """Return `start` and every source file of this package that it imports, directly or not, sorted."""
    seen: set[Path] = set()
    waiting = [start.resolve()]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        waiting += [source for name in _imports(path) if (source := _source(name)) is not None]
    return sorted(seen)


def digest(start: Path, *more: str) -> str:
    """Return 16 hex digits that change when `start`, a module it needs, a data file beside those, or `more` changes."""
    total = hashlib.sha256("\n".join(more).encode())
    for path in sources(start):
        total.update(path.name.encode())
        total.update(path.read_bytes())
    data = _ROOT / "labcode" / "cost" / "data"
    for path in sorted(data.rglob("*")) if data.is_dir() else ():
        if path.is_file():
            total.update(path.read_bytes())
    return total.hexdigest()[:16]
