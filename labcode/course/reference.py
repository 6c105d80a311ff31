"""The reference of the library, read from its docstrings: `reference("labcode.workload")` in a notebook."""

from __future__ import annotations

import importlib
import inspect
import re
from html import escape
from types import ModuleType
from typing import Any

#: The packages and modules of the library with what each is for, front door first.
PACKAGES = {
    "labcode": "the front door",
    "labcode.workload": "what arrives",
    "labcode.cost.hardware": "GPUs, models, and what a step costs on paper",
    "labcode.cost": "prices of a step: paper, smooth, measured, a reader's own",
    "labcode.cost.roofline": "the two rooflines, and a straight line",
    "labcode.scheduler": "who runs next",
    "labcode.scheduler.waiting": "orders of the queue",
    "labcode.scheduler.kv_cache": "one pool of blocks, and who takes from it",
    "labcode.scheduler.admission": "who is let in",
    "labcode.scheduler.preemption": "who is sent away, and how",
    "labcode.scheduler.fair": "queues that are fair to tenants",
    "labcode.scheduler.bounded_round": "the chapter's bounded round, in one function",
    "labcode.scheduler.lifecycle": "cancellation, explored in every order of events",
    "labcode.simulation.loop": "the loop that owns the time",
    "labcode.simulation.batches": "request-level engines",
    "labcode.simulation.algorithm1": "Orca's own scheduler, line by line",
    "labcode.simulation.deadlock": "a standstill, found and named",
    "labcode.simulation.pipeline": "a model in stages",
    "labcode.simulation.buffers": "an output buffer between engine and client",
    "labcode.simulation.streams": "an engine whose clients read as they like",
    "labcode.simulation.retries": "clients that try again",
    "labcode.results.metrics": "latencies, SLOs, percentiles",
    "labcode.results.logs": "logs that readers measured themselves",
    "labcode.results.timeline": "what everybody did in every iteration",
    "labcode.results.trace_export": "a run for a trace viewer",
    "labcode.experiments": "sweeps, the largest rate, capacity",
    "labcode.experiments.saturation": "what an engine can keep up for ever",
    "labcode.experiments.intervals": "intervals over seeds and within a run",
    "labcode.experiments.seed_table": "tables over seeds",
    "labcode.experiments.cost_table": "the same comparison under three prices",
    "labcode.experiments.capacity": "how many GPUs for a trace",
    "labcode.cluster": "several engines behind a router",
    "labcode.queueing": "closed forms and bounds",
    "labcode.clipper": "adaptive batching",
    "labcode.model": "the mini Llama",
    "labcode.model.layers": "the parts of a Llama block",
    "labcode.model.executor": "the mini model under a scheduler's plans",
    "labcode.model.padding": "what filling up to the longest costs",
    "labcode.model.picture": "a picture of a step's queries and keys",
    "labcode.loadtest.open_loop": "a client of a real server that keeps to its plan",
    "labcode.loadtest.stalls": "what a client that waits does not see",
    "labcode.labkit": "how a lab is made and shown",
    "labcode.labkit.render_matplotlib": "panels as pictures",
    "labcode.course": "labs and checks in a notebook",
}


def public(module: ModuleType) -> list[tuple[str, Any]]:
    """Return the public functions, classes and constants of a module, by ``__all__`` or what is defined in it."""
    names = getattr(module, "__all__", None)
    if names is None:
        names = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    return [(name, getattr(module, name)) for name in names if not name.startswith("_")]


def shown(name: str) -> list[tuple[str, Any]]:
    """Return the public names that the section of a module lists: those that its package has not listed before it."""
    order, package = list(PACKAGES), name.rpartition(".")[0]
    known: list[Any] = []
    if package in order[1 : order.index(name)]:
        known = [value for _, value in public(importlib.import_module(package))]
    return [one for one in public(importlib.import_module(name)) if not any(one[1] is value for value in known)]


def home(value: Any) -> str:
    """Return where something is defined, as a dotted name; empty for a constant, which does not know."""
    if inspect.ismodule(value):
        return value.__name__
    return f"{value.__module__}.{value.__qualname__}" if hasattr(value, "__qualname__") else ""


def signature(name: str, value: Any) -> str:
    """Return how something is called, without `self` and types, which the text below it has in words."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    plain = [one.replace(annotation=inspect.Parameter.empty) for one in found.parameters.values() if one.name != "self"]
    return f"{name}{found.replace(parameters=plain, return_annotation=inspect.Signature.empty)}"


def documented(value: Any) -> tuple[str, str]:
    """Return the first paragraph of a docstring, on one line, and the rest, its titles not underlined."""
    first, _, rest = (inspect.getdoc(value) or "").partition("\n\n")
    return " ".join(first.split()), re.sub(r"\n-{3,}$", "", rest, flags=re.M)


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
        elsewhere = f' data-home="{home(value)}"' if home(value) not in {here, ""} else ""
        place = f'<dt id="{here}"{elsewhere}>'  # tools/entries.py reads both
        if inspect.ismodule(value):
            return f"{place}<code>{escape(name)}</code></dt><dd>{escape(documented(value)[0])}</dd>"
        if not callable(value):
            return f"{place}<code>{escape(name)}</code></dt><dd>{escape(type(value).__name__)}</dd>"
        first, rest = documented(value)
        listed = ""
        if inspect.isclass(value):
            rows = [f"{call}: {documented(member)[0]}" for call, member in methods(value)]
            listed = "\n".join(rows)
        more = "" if self._is_above(value) else "\n\n".join(part for part in (rest, listed) if part)
        fold = f"<details><summary>more</summary><pre>{escape(more)}</pre></details>" if more else ""
        call = escape(signature(name, value))
        return f"{place}<code>{call}</code></dt><dd>{escape(first)}{fold}</dd>"

    def _is_above(self, value: Any) -> bool:
        """Whether an earlier section has listed this as well, and so all that it says."""
        order = list(PACKAGES)
        above = order[: order.index(self.module.__name__)]
        return any(value is other for name in above for _, other in shown(name))

    def _repr_html_(self) -> str:
        return f'<dl class="reference">{"".join(self._entry(*one) for one in shown(self.module.__name__))}</dl>'

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {documented(value)[0]}" for name, value in shown(self.module.__name__))


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
