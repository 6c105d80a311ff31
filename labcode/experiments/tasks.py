"""What is done in one cell: simulate and summarise, or a function of the reader's own.

Tasks are plain data, so that they can be pickled and sent to another process or machine.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Protocol

from labcode.checks import one_of
from labcode.experiments.grid import Cell, Seeds
from labcode.results.metrics import SLO
from labcode.results.run import Run
from labcode.simulate import simulate
from labcode.workload import Workload

LoadSource = Workload | Callable[..., Workload]

#: Options of `simulate` that a grid may name.  The seed is not among them: the repetitions decide about it.
SIMULATE_OPTIONS = tuple(name for name in inspect.signature(simulate).parameters if name not in ("load", "seed"))

#: Columns of the table that no result may be called after.
RESERVED = ("repetition", "workload_seed", "error")


class Task(Protocol):
    """What one cell does."""

    def check(self, names: Iterable[str]) -> None:
        """Raise a `ValueError` if the grid's `names` are not options of this task."""

    def run(self, cell: Cell, seeds: Seeds) -> Mapping[str, float]:
        """Return the numbers of one cell in one repetition."""


@dataclass(frozen=True)
class SimulateTask:
    """Build a workload, simulate it, and keep the summary or what `metrics` picks."""

    load: LoadSource | None
    options: Mapping[str, Any] = field(default_factory=dict)
    slo: SLO | None = None
    metrics: tuple[str, ...] | Callable[[Run], Mapping[str, float]] | None = None
    loads: tuple[LoadSource, ...] = ()  # those that the grid itself names

    def check(self, names: Iterable[str]) -> None:
        """Raise a `ValueError` for a missing load, an unknown option, or a name that means two things."""
        sources = self.loads or (() if self.load is None else (self.load,))
        if not sources:
            raise ValueError(
                "load is missing: a Workload, or a function that makes one from a seed, such as workload.chat"
            )
        names = list(names)
        for source in sources:
            of_load = load_options(source)
            for name in [*names, *self.options]:
                one_of("grid or option name", name, ["load", *SIMULATE_OPTIONS, *of_load])
                if name in of_load and name in SIMULATE_OPTIONS:
                    raise ValueError(f"{name!r} is an option of simulate and of the load function: rename the latter's")
        both = sorted(set(names) & set(self.options))
        if both:
            raise ValueError(f"{', '.join(both)}: given in the grid and as a fixed option; one of the two")

    def run(self, cell: Cell, seeds: Seeds) -> Mapping[str, float]:
        """Return the summary of the run of one cell."""
        values = {**self.options, **cell}
        source = values.pop("load", self.load)
        of_load = {name: values.pop(name) for name in load_options(source) if name in values}
        run = simulate(make_load(source, seeds.workload, of_load), seed=seeds.policy, **values)
        if callable(self.metrics):
            return self.metrics(run)
        summary = run.summary(self.slo)
        if self.metrics is None:
            return summary
        return {one_of("metrics", key, summary): summary[key] for key in self.metrics}  # type: ignore[misc]


@dataclass(frozen=True)
class FunctionTask:
    """Call a function of the reader's own: ``function(seed=..., **cell) -> {name: number}``."""

    function: Callable[..., Mapping[str, float]]
    options: Mapping[str, Any] = field(default_factory=dict)

    def check(self, names: Iterable[str]) -> None:
        """Raise a `ValueError` if the function does not take `seed` and the names."""
        names = list(names)
        both = sorted(set(names) & set(self.options))
        if both:
            raise ValueError(f"{', '.join(both)}: given in the grid and as a fixed option; one of the two")
        parameters = inspect.signature(self.function).parameters
        if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            return
        if "seed" not in parameters:
            raise ValueError(f"function = {self.function!r}: must take an argument named seed")
        for name in [*names, *self.options]:
            one_of("grid or option name", name, [key for key in parameters if key != "seed"])

    def run(self, cell: Cell, seeds: Seeds) -> Mapping[str, float]:
        """Return what the function returns."""
        return self.function(seed=seeds.workload, **{**self.options, **cell})


def _parameters(source: Callable[..., Workload]) -> tuple[str, list[str]]:
    """Return the name of a load function's seed argument and those of the others."""
    names = [
        name
        for name, p in inspect.signature(source).parameters.items()
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    if not names:
        raise ValueError(f"load = {source!r}: the function must take a seed")
    seed = "seed" if "seed" in names else names[0]
    return seed, [name for name in names if name != seed]


def load_options(source: LoadSource) -> list[str]:
    """Return the names that a grid may use for the workload; the rate is always one of them."""
    if isinstance(source, Workload):
        return ["rate"]
    if not callable(source):
        raise ValueError(f"load = {source!r}: a Workload, or a function that makes one from a seed, is needed")
    return list(dict.fromkeys([*_parameters(source)[1], "rate"]))


def make_load(source: LoadSource, seed: int, options: Mapping[str, Any]) -> Workload:
    """Return the workload of one repetition, brought to the rate that `options` names, if any."""
    options = dict(options)
    if isinstance(source, Workload):
        return source.at_rate(options["rate"]) if "rate" in options else source
    seed_name, others = _parameters(source)
    rate = None if "rate" in others else options.pop("rate", None)
    load = source(**{seed_name: seed}, **options)
    return load if rate is None else load.at_rate(rate)


@dataclass(frozen=True)
class Item:
    """One cell in one repetition: what an executor is handed."""

    position: int
    cell: Cell
    seeds: Seeds


@dataclass(frozen=True)
class Outcome:
    """The numbers of an item, or why there are none."""

    values: dict[str, float]
    error: str = ""


def perform(task: Task, item: Item) -> Outcome:
    """Run one item; an exception becomes its outcome, so that it costs no other item anything."""
    try:
        values = task.run(item.cell, item.seeds)
        if not isinstance(values, Mapping) or not values:
            raise ValueError(f"a mapping from name to number was expected, not {values!r}")
        for name, value in values.items():
            if isinstance(value, str) or not isinstance(value, Real):
                raise ValueError(f"{name} = {value!r}: a number was expected")
            if name in item.cell or name in RESERVED:
                raise ValueError(f"a result is called {name!r}, as another column is: rename it")
        return Outcome({str(name): float(value) for name, value in values.items()})
    except Exception as error:
        return Outcome({}, f"{type(error).__name__}: {error}")
