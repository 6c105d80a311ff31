"""Labs: one definition, alive in a kernel, alive in the page without one, and testable without a picture.

Writing a lab
-------------
One file a lab, ``labcode/course/labs/<chapter>_<name>.py``, that exposes ``LAB``; its id is "<chapter>-<name>"::

    from labcode.labkit import Axis, Control, Lab, Mark, Panel, Prediction, Result, Series

    def compute(rate, policy):                       # pure and seeded, below 60 ms; any values, not only the grid's
        panel = Panel("ttft", "Waiting for the first token", Axis("Time", "s"), Axis("TTFT", "s", "log"),
                      (Series("this setting", "line", x, y, role="ours"),
                       Series("pinned: 8 req/s", "line", x, y0, role="baseline")),
                      marks=(Mark("hline", 1.0, "SLO 1 s"),), text=f"P99 is {p99:.2f} s.")
        return Result((panel,), headline=f"At {rate} req/s the P99 of TTFT is {p99:.2f} s.")

    LAB = Lab("ch08-example", "A lab", (Control("rate", "Arrival rate", (2, 4, 8), 4, "req/s"),
              Control("policy", "Reservation", ("max", "pow2"), "max")), compute,
              predict=Prediction("What does doubling the rate do to the P99?", ("it doubles", "more than that"),
                                 right=lambda result: "it doubles" if growth(result) < 2.2 else "more than that",
                                 why=lambda result: result.panel("ttft").text, reveal={"rate": 8}),
              numbers=("paper",))

In a notebook the lab is one cell, ``from labcode.course import show`` and ``show("ch08-example")``. Rules: at most 4
controls and about 600 states; at most 80 points a series; panels, titles and axes the same in every state, while
sentences, marks and numbers change; the baseline computed with the same seeds and drawn in role "baseline"; a value
that does not exist is NaN (a gap) and its mark left out. A role carries colour, dash and shape: the same thing has
the same role in every panel. The question comes before anything is shown, and its answer is read off the `Result` in
the deciding setting, never written down; `labcode.labkit.words` says shares and counts.

Views
-----
`show` makes ipywidgets around a matplotlib figure. With ``LABCODE_LABS=page`` in the environment (the build of the
book sets it) it leaves a static picture with its text alternative in a placeholder, which ``book/assets/labs.js``
brings to life with the data that ``python -m labcode.course.labs OUTDIR`` computes over every setting.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import Any

from labcode.labkit.lab import Lab
from labcode.labkit.view import in_page

__all__ = ["all_labs", "find", "register", "show"]

_extra: dict[str, Lab] = {}  # Labs made elsewhere: a reader's own, a test's.


def register(lab: Lab) -> Lab:
    """Make a lab defined outside this package known to `find` and `show`; return it."""
    _extra[lab.id] = lab
    return lab


def _module_names() -> list[str]:
    """Return the names of the modules that hold a lab: a chapter (ch05) or an appendix (a1), an underscore, a name."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if re.match(r"(ch\d\d|a\d)_", m.name))


def _load(module: str) -> Lab:
    lab = getattr(importlib.import_module(f"{__name__}.{module}"), "LAB", None)
    if not isinstance(lab, Lab):
        raise ValueError(f"course/labs/{module}.py: LAB = {lab!r}: a Lab is needed")
    if lab.id != module.replace("_", "-"):
        raise ValueError(
            f"course/labs/{module}.py: id {lab.id!r}: must be {module.replace('_', '-')!r}, as the file is named"
        )
    return lab


def all_labs() -> list[Lab]:
    """Return every lab of the book, in the order of their ids."""
    return [_load(module) for module in _module_names()]


def find(id: str) -> Lab:
    """Return the lab with this id; only its own module is imported.

    Raises
    ------
    ValueError
        If there is none; the message lists the known ones.
    """
    if id in _extra:
        return _extra[id]
    known = {module.replace("_", "-"): module for module in _module_names()}
    if id not in known:
        raise ValueError(f"lab id = {id!r}: known are {', '.join([*known, *_extra]) or 'none'}")
    return _load(known[id])


def show(lab: str | Lab, **setting: Any) -> None:
    """Show a lab, given by its id or itself, as the last line of a notebook cell.

    With a setting (control name = value), as "Copy Python" on the page writes it, a kernel shows that and asks nothing
    first; the page always opens with the default.

    Raises
    ------
    ValueError
        If there is no such lab or setting, or ``LABCODE_LABS`` asks for an unknown view.
    """
    found = lab if isinstance(lab, Lab) else find(lab)
    page = in_page()
    # Imported here, so that a test of a lab needs neither widgets nor IPython.
    from IPython.display import display

    if page:
        from labcode.labkit.page_view import Still

        display(Still(found))
    else:
        from labcode.labkit.kernel_view import Live

        display(Live(found, setting).view)
