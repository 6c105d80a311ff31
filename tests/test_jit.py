"""Compiled functions: kept by the state of all compiled sources, and at work where nothing can be kept."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from labcode import jit

pytestmark = pytest.mark.skipif(not jit.AVAILABLE, reason="nothing is compiled here")


def double(x):
    return 2 * x


def test_a_change_in_any_compiled_source_gives_another_folder(tmp_path: Path, monkeypatch):
    """Numba looks at a function's own file only; the functions that it calls may stand elsewhere."""
    for part in ("cost", "simulation"):
        shutil.copytree(jit._HERE / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__", "data"))
    monkeypatch.setattr(jit, "_HERE", tmp_path)
    folders = []
    for change in ("", "# a remark\n", "x = 1\n"):
        with (tmp_path / "simulation" / "compiled_state.py").open("a") as file:
            file.write(change)
        folders.append(jit._cache_folder.__wrapped__())
    assert len(set(folders)) == 3


def test_where_nothing_can_be_kept_it_compiles_all_the_same(monkeypatch):
    """A read-only package and a user without a home: numba finds no place for its files."""
    import numba

    real, asked = numba.njit, []

    def njit(*args, **options):
        asked.append(options)
        if options.get("cache"):
            raise RuntimeError("cannot cache function 'double': no locator available")
        return real(*args, **options)

    monkeypatch.setattr(numba, "njit", njit)
    assert jit.compiled(double)(21) == 42
    assert asked[:2] == [{"cache": True}, {}]  # numba then asks itself for more
