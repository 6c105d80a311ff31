"""Compile the hot loops with Numba where it is installed; run the same source as plain Python where it is not.

The results do not depend on which of the two happens (a test holds both to the same record), only the speed does.
Set ``LABCODE_COMPILE=0`` to run everything as plain Python, in a debugger for instance.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

try:
    import numba
except ImportError:  # Pyodide, or a Python that Numba does not support yet
    numba = None  # type: ignore[assignment]

#: Whether `compiled` really compiles here.
AVAILABLE = numba is not None and os.environ.get("LABCODE_COMPILE", "1") != "0"

_HERE = Path(__file__).resolve().parent


@cache
def _cache_folder() -> str:
    """Return where machine code is kept: a folder of its own for every state of the compiled sources.

    Numba looks at the file of a function only, not at the compiled functions that it calls from other files.
    """
    total = hashlib.sha256()
    for path in sorted([*(_HERE / "cost").glob("*.py"), *(_HERE / "simulation").glob("*.py")]):
        total.update(path.read_bytes())
    return str(_HERE / "__pycache__" / f"numba-{total.hexdigest()[:16]}")


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` on its first call and keep the machine code on disk for later processes."""
    if not AVAILABLE:
        return function
    config: Any = numba.config
    before, config.CACHE_DIR = config.CACHE_DIR, os.environ.get("NUMBA_CACHE_DIR") or _cache_folder()
    try:
        return numba.njit(cache=True)(function)
    except RuntimeError:  # nowhere to keep it: a read-only package, a user without a home
        return numba.njit(function)
    finally:
        config.CACHE_DIR = before
