"""`sweep`: every cell of a grid, every repetition, one tidy table."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from labcode.experiments.executors import Submits, check_executor, outcomes
from labcode.experiments.grid import cells_of, label, seeds_of
from labcode.experiments.store import Store, item_key
from labcode.experiments.tasks import FunctionTask, Item, LoadSource, Outcome, SimulateTask, Task
from labcode.results.metrics import SLO
from labcode.results.run import Run
from labcode.workload import Workload

Metrics = Sequence[str] | Callable[[Run], Mapping[str, float]]


class CellsFailed(UserWarning):
    """Some cells of a sweep raised; the table says which, and why."""


def sweep(
    grid: Mapping[str, Iterable[Any]],
    load: LoadSource | None = None,
    seeds: int | Iterable[int] | None = None,
    executor: str | Submits | None = None,
    *,
    slo: SLO | None = None,
    metrics: Metrics | None = None,
    function: Callable[..., Mapping[str, float]] | None = None,
    path: str | os.PathLike[str] | None = None,
    progress: bool = True,
    seed: int = 0,
    **options: Any,
) -> pd.DataFrame:
    """Simulate every combination of a grid, several times over, and return one row a cell and repetition.

    Parameters
    ----------
    grid : mapping
        Option -> list of values.  Options are those of `simulate` (``max_bs``, ``memory``, ...), those of the
        load function (``n``, ...), ``rate`` and ``load`` itself.
    load : Workload or function
        A function ``(seed, ...) -> Workload`` such as ``workload.chat`` gives other requests in every
        repetition; a Workload always the same, which makes sense for one repetition only.
    seeds : int or iterable of int
        Repetitions: how many (default 5, or 1 for a fixed Workload), or the seeds themselves.  All cells meet
        the same requests in the same repetition (common random numbers).
    executor : {"serial", "processes"} or object, optional
        Who does the work; an object needs ``submit(function, *args)`` as in ``concurrent.futures``.  The
        table does not depend on it.
    slo : SLO, optional
        For the keys of the summary about goodput.
    metrics : sequence of str or function, optional
        Keys of ``run.summary()`` to keep, or ``metrics(run) -> {name: number}``; everything by default.
    function : callable, optional
        Instead of simulating: ``function(seed=..., **cell) -> {name: number}``.
    path : str, optional
        A .csv file that takes each row as soon as it is known.  A sweep that finds its own rows there does
        not compute them again.
    progress : bool
        Show a progress bar.
    seed : int
        Root of the seed sequence.
    **options
        The same for all cells.

    Returns
    -------
    DataFrame
        The parameters, ``repetition``, ``workload_seed``, the results, and ``error``: empty, or why a cell
        has NaN.

    Raises
    ------
    ValueError
        If an argument or a name is not allowed; nothing has been computed then.

    Warns
    -----
    CellsFailed
        If cells raised.  All others are in the table.
    """
    cells = cells_of(grid)
    task = _task(grid, load, slo, metrics, function, options)
    task.check(grid)
    repetitions = seeds_of(_repetitions(seeds, load, grid, options, function), seed)
    check_executor(executor, task)
    items = [
        Item(position, cell, repetition)
        for position, (cell, repetition) in enumerate(
            (cell, repetition) for cell in cells for repetition in repetitions
        )
    ]
    done: dict[int, Outcome] = {}
    store = None if path is None else Store(path, list(grid))
    keys: dict[int, str] = {}
    if store is not None:
        keys = {item.position: item_key(task, item) for item in items}
        done = {position: Outcome(store.known[key]) for position, key in keys.items() if key in store.known}
    left = [item for item in items if item.position not in done]
    hidden = not progress or os.environ.get("LABCODE_LABS") == "page"  # a bar would end up in the built page
    with tqdm(total=len(items), initial=len(done), desc="sweep", unit="run", disable=hidden) as bar:
        for item, outcome in outcomes(executor, task, left):
            if store is not None and not outcome.error:
                try:
                    store.add(keys[item.position], item, _labels(item), outcome.values)
                except ValueError as error:
                    outcome = Outcome({}, str(error))
            done[item.position] = outcome
            bar.update()
    return _table(items, done, list(grid))


def _task(
    grid: Mapping[str, Iterable[Any]],
    load: LoadSource | None,
    slo: SLO | None,
    metrics: Metrics | None,
    function: Callable[..., Mapping[str, float]] | None,
    options: Mapping[str, Any],
) -> Task:
    if function is not None:
        if not callable(function):
            raise ValueError(f"function = {function!r}: something to call is needed")
        if load is not None or slo is not None or metrics is not None:
            raise ValueError("function: replaces load, slo and metrics; give it those itself")
        return FunctionTask(function, options)
    if load is not None and "load" in grid:
        raise ValueError("load: given in the grid and as an argument; one of the two")
    if slo is not None and not isinstance(slo, SLO):
        raise ValueError(f"slo = {slo!r}: an SLO is needed, such as SLO(ttft=1.0, tpot=0.05)")
    if isinstance(metrics, str):
        raise ValueError(f"metrics = {metrics!r}: a list of keys is needed; write [{metrics!r}] for a single one")
    kept = metrics if metrics is None or callable(metrics) else tuple(metrics)
    return SimulateTask(load, options, slo, kept, tuple(grid.get("load", ())))


def _repetitions(
    seeds: int | Iterable[int] | None,
    load: LoadSource | None,
    grid: Mapping[str, Iterable[Any]],
    options: Mapping[str, Any],
    function: object,
) -> int | Iterable[int]:
    fixed = isinstance(load, Workload) or any(isinstance(source, Workload) for source in grid.get("load", ()))
    if seeds is None:
        return 1 if fixed else 5
    if isinstance(seeds, Iterable) and not isinstance(seeds, str):
        seeds = list(seeds)
    orders = [*grid.get("order", ()), options.get("order")]
    guesses = any(isinstance(order, str) and order.startswith("sjf:") for order in orders)
    several = (len(seeds) if isinstance(seeds, list) else seeds) != 1
    if function is None and fixed and several and not guesses:
        raise ValueError(
            f"seeds = {seeds!r}: with a fixed Workload every repetition is the same run and its interval "
            "means nothing; pass a function such as workload.chat as load, or seeds=1"
        )
    return seeds


def _labels(item: Item) -> dict[str, Any]:
    return {name: label(value) for name, value in item.cell.items()}


def _table(items: list[Item], done: Mapping[int, Outcome], names: list[str]) -> pd.DataFrame:
    """Return the tidy table, in the order of the cells whatever the order of completion was."""
    keys = list(dict.fromkeys(key for item in items for key in done[item.position].values))
    columns: dict[str, Any] = {name: [_labels(item)[name] for item in items] for name in names}
    columns["repetition"] = [item.seeds.index for item in items]
    columns["workload_seed"] = [item.seeds.workload for item in items]
    for key in keys:
        columns[key] = np.array([done[item.position].values.get(key, np.nan) for item in items], dtype=float)
    columns["error"] = [done[item.position].error for item in items]
    failed = [item for item in items if done[item.position].error]
    if failed:
        first = failed[0]
        shown = ", ".join(f"{name}={value!r}" for name, value in _labels(first).items())
        warnings.warn(
            f"{len(failed)} of {len(items)} runs failed; see the column error. The first: {shown}, "
            f"repetition {first.seeds.index}: {done[first.position].error}",
            CellsFailed,
            stacklevel=3,
        )
    return pd.DataFrame(columns)
