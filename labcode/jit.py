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
    """Compile `function` on its first call and keep the machine code on disk for later processes."""
    if not AVAILABLE:
        return function
    decorated: Callable[..., Any] = numba.njit(cache=True)(function)
    return decorated
