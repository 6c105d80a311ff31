"""Which view a notebook shows: widgets for a kernel, or what the book's page brings to life."""

from __future__ import annotations

import os

VIEW_VARIABLE = "LABCODE_LABS"  # "live" or "page"; the build of the book sets "page".


def in_page() -> bool:
    """Return whether the book's page is being built.

    Raises
    ------
    ValueError
        If ``LABCODE_LABS`` asks for an unknown view.
    """
    view = os.environ.get(VIEW_VARIABLE, "live")
    if view not in ("live", "page"):
        raise ValueError(f"{VIEW_VARIABLE} = {view!r}: known are live, page")
    return view == "page"
