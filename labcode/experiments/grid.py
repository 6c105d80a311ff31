"""What a sweep consists of: the cells of a grid, and the seeds that every cell is run with."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from labcode.checks import integer

Cell = dict[str, Any]


@dataclass(frozen=True)
class Seeds:
    """The random numbers of one repetition: `index` from 0, the workload's seed, and the policies'."""

    index: int
    workload: int
    policy: int


def cells_of(grid: Mapping[str, Iterable[Any]]) -> list[Cell]:
    """Return every combination of a grid's values; the last name varies fastest.

    Parameters
    ----------
    grid : mapping
        Name of an option -> the values to try, e.g. ``{"rate": [8, 16], "memory": ["oracle", "max:8192"]}``.

    Raises
    ------
    ValueError
        If the grid or one of its lists is empty, or a value is not a list (a string is not one).
    """
    if not isinstance(grid, Mapping):
        raise ValueError(f"grid = {grid!r}: a mapping from option name to a list of values is needed")
    if not grid:
        raise ValueError("grid = {}: at least one option with its values is needed")
    values: dict[str, list[Any]] = {}
    for name, column in grid.items():
        if not isinstance(name, str):
            raise ValueError(f"grid: {name!r}: the name of an option is needed")
        if isinstance(column, str | bytes) or not isinstance(column, Iterable):
            raise ValueError(
                f"grid[{name!r}] = {column!r}: a list of values is needed; write [{column!r}] for a single one"
            )
        # Plain numbers for numpy's, so that tables and files show 8 and not np.int64(8).
        values[name] = [value.item() if isinstance(value, np.generic) else value for value in column]
        if not values[name]:
            raise ValueError(f"grid[{name!r}] = []: at least one value is needed")
    return [dict(zip(values, combination, strict=True)) for combination in itertools.product(*values.values())]


def seeds_of(seeds: int | Iterable[int], entropy: int = 0) -> list[Seeds]:
    """Return the repetitions of a sweep.

    Every cell meets the same repetitions (common random numbers), so that two policies differ by what they do
    and not by what they were given.  The repetitions among themselves are independent: they are children of
    one ``numpy.random.SeedSequence``, and a child does not depend on how many there are.

    Parameters
    ----------
    seeds : int or iterable of int
        How many repetitions; or the very seeds to use, which then serve workload and policies alike.
    entropy : int
        Root of the seed sequence.

    Raises
    ------
    ValueError
        If there is none, one is given twice, or one is negative.
    """
    if isinstance(seeds, Iterable) and not isinstance(seeds, str):
        given = [integer(f"seeds[{i}]", seed, at_least=0) for i, seed in enumerate(seeds)]
        if not given:
            raise ValueError("seeds = []: at least one is needed")
        if len(set(given)) < len(given):
            raise ValueError(f"seeds = {given!r}: the same seed twice would pretend to be two repetitions")
        return [Seeds(i, seed, seed) for i, seed in enumerate(given)]
    children = np.random.SeedSequence(integer("seed", entropy, at_least=0)).spawn(integer("seeds", seeds))
    # 63 bits, so that a signed column of a table can hold them.
    states = [child.generate_state(2, np.uint64) >> np.uint64(1) for child in children]
    return [Seeds(i, int(state[0]), int(state[1])) for i, state in enumerate(states)]


def label(value: Any) -> Any:
    """Return how a value is shown in the table: numbers and texts as they are, other things by their name."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    for attribute in ("name", "__name__"):
        name = getattr(value, attribute, None)
        if isinstance(name, str):
            return name
    return repr(value)
