"""Numbers as labs say them: shares in per cent, counts with their noun."""

from __future__ import annotations

from typing import Any


def percent(share: float, digits: int = 0) -> str:
    """Return a share as per cent: 0.824 is "82 %"."""
    return f"{100 * share:.{digits}f} %"


def counted(value: Any, noun: str) -> str:
    """Return `value` with its noun, in the singular where there is one of them: "1 token", "8 requests/s"."""
    if value == 1:
        head, slash, rest = noun.partition("/")
        noun = (head[:-1] if len(head) > 2 and head.endswith("s") else head) + slash + rest
    return f"{value} {noun}".strip()
