"""The reference of the library, read from its docstrings: `reference("labcode.workload")` in a notebook."""

from __future__ import annotations

import importlib
import inspect
from html import escape
from types import ModuleType
from typing import Any

#: The packages of the library with what each is for, front door first.
PACKAGES = {
    "labcode": "the front door",
    "labcode.workload": "what arrives",
    "labcode.cost.hardware": "GPUs, models, and what a step costs on paper",
    "labcode.cost": "prices of a step: paper, smooth, measured, a reader's own",
    "labcode.scheduler": "who runs next",
    "labcode.results.metrics": "latencies, SLOs, percentiles",
    "labcode.experiments": "sweeps, the largest rate, capacity",
    "labcode.cluster": "several engines behind a router",
    "labcode.queueing": "closed forms and bounds",
    "labcode.clipper": "adaptive batching",
    "labcode.model": "the mini Llama",
    "labcode.loadtest.open_loop": "a client of a real server that keeps to its plan",
    "labcode.labkit": "how a lab is made and shown",
}


def public(module: ModuleType) -> list[tuple[str, Any]]:
    """Return the public functions, classes and constants of a module, by ``__all__`` or what is defined in it."""
    names = getattr(module, "__all__", None)
    if names is None:
        names = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    return [(name, getattr(module, name)) for name in names if not name.startswith("_")]


def signature(name: str, value: Any) -> str:
    """Return how something is called, without types, which the text below it has in words."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    plain = [one.replace(annotation=inspect.Parameter.empty) for one in found.parameters.values()]
    return f"{name}{found.replace(parameters=plain, return_annotation=inspect.Signature.empty)}"


def documented(value: Any) -> tuple[str, str]:
    """Return the first paragraph of a docstring, on one line, and the rest."""
    first, _, rest = (inspect.getdoc(value) or "").partition("\n\n")
    return " ".join(first.split()), rest


def methods(value: type) -> list[tuple[str, Any]]:
    """Return what a class itself defines and documents for others."""
    found = []
    for name, member in vars(value).items():
        one = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if not name.startswith("_") and callable(one) and inspect.getdoc(one):
            found.append((name if isinstance(member, property) else signature(name, one), one))
    return found


class Reference:
    """The public names of a module as IPython shows them: calls, first sentences, the rest in a fold."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module

    def _entry(self, name: str, value: Any) -> str:
        here = f"{self.module.__name__}.{name}"
        if inspect.ismodule(value):
            return f'<dt id="{here}"><code>{escape(name)}</code></dt><dd>{escape(documented(value)[0])}</dd>'
        if not callable(value):
            return f'<dt id="{here}"><code>{escape(name)}</code></dt><dd>{escape(type(value).__name__)}</dd>'
        first, rest = documented(value)
        listed = ""
        if inspect.isclass(value):
            rows = [f"{call}: {documented(member)[0]}" for call, member in methods(value)]
            listed = "\n".join(rows)
        more = "\n\n".join(part for part in (rest, listed) if part)
        opener = (
            '<summary style="color:inherit">more</summary>'  # in the dark the theme's own is too pale for its ground
        )
        fold = f"<details>{opener}<pre>{escape(more)}</pre></details>" if more else ""
        call = escape(signature(name, value))
        return f'<dt id="{here}"><code>{call}</code></dt><dd>{escape(first)}{fold}</dd>'

    def _repr_html_(self) -> str:
        return f'<dl class="reference">{"".join(self._entry(*one) for one in public(self.module))}</dl>'

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {documented(value)[0]}" for name, value in public(self.module))


def reference(name: str) -> Reference:
    """Return the reference of a module of the library.

    Raises
    ------
    ValueError
        If `name` is none of `PACKAGES`.
    """
    if name not in PACKAGES:
        raise ValueError(f"name = {name!r}: known are {', '.join(PACKAGES)}")
    return Reference(importlib.import_module(name))
