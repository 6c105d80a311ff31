"""Compile the hot loops with Numba where it is installed; run the same source as plain Python where it is not.

The results do not depend on which of the two happens (a test holds both to the same time stamps), only
the speed does.  Set ``LABCODE_COMPILE=0`` to run everything as plain Python, in a debugger for instance.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

try:
    import numba
except ImportError:  # Pyodide, or a Python that Numba does not support yet
    numba = None  # type: ignore[assignment]

#: Whether `compiled` really compiles here.
AVAILABLE = numba is not None and os.environ.get("LABCODE_COMPILE", "1") != "0"


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` on its first call and keep the machine code on disk for later processes.

    What is kept is thrown away when the source of `function` changes, or that of a compiled function that it calls, or
    a constant that it uses (Numba alone looks at its own file only).  What it calls must be defined above it.
    """
    if not AVAILABLE:
        return function
    decorated: Callable[..., Any] = numba.njit(cache=True)(function)
    used = {name: function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__}
    files = {function.__code__.co_filename}.union(*(getattr(value, "sources", ()) for value in used.values()))
    decorated.sources = files  # type: ignore[attr-defined]
    sources = tuple((file, os.stat(file).st_mtime_ns, os.stat(file).st_size) for file in sorted(files))
    constants = tuple((name, value) for name, value in sorted(used.items()) if isinstance(value, int | float | str))
    stored = decorated._cache._cache_file  # type: ignore[attr-defined]
    stored._source_stamp = (stored._source_stamp, sources, constants)
    return decorated
