"""Means over repetitions with their confidence intervals, and differences between policies paired by seed."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from labcode.checks import fraction, one_of
from labcode.experiments.intervals import mean_interval


def interval(table: pd.DataFrame, key: str, level: float = 0.95) -> pd.DataFrame:
    """Return for every cell of a sweep the mean of `key` over its repetitions, with a confidence interval.

    Parameters
    ----------
    table : DataFrame
        What `sweep` returned.
    key : str
        One of its result columns.
    level : float
        Confidence, in (0, 1).

    Returns
    -------
    DataFrame
        The parameters, ``mean``, ``low``, ``high``, ``repetitions`` (those that gave a number) and
        ``missing`` (those that did not: failed cells, statistics of nothing).
    """
    level = _level(level)
    one_of("key", key, table.columns)
    rows = []
    for values, part in _cells(table):
        numbers = part[key].dropna()
        rows.append((*values, *mean_interval(numbers, level), len(numbers), len(part) - len(numbers)))
    return pd.DataFrame(rows, columns=[*_parameters(table), "mean", "low", "high", "repetitions", "missing"])


def paired(
    table: pd.DataFrame, key: str, parameter: str, first: object, second: object, level: float = 0.95
) -> pd.DataFrame:
    """Return the difference of `key`, `second` minus `first` value of `parameter`, paired repetition by
    repetition.

    Both met the same requests in each repetition, so what the requests have in common cancels; the interval
    is far narrower than one from two separate means.
    """
    level = _level(level)
    one_of("key", key, table.columns)
    one_of("parameter", parameter, _parameters(table))
    for name, value in (("first", first), ("second", second)):
        one_of(name, value, table[parameter].unique().tolist())
    others = [name for name in _parameters(table) if name != parameter]
    on = [*others, "repetition"]
    left, right = (table.loc[table[parameter] == value, [*on, key]] for value in (first, second))
    both = left.merge(right, on=on, suffixes=("_first", "_second"))
    both["difference"] = both[f"{key}_second"] - both[f"{key}_first"]
    groups = both.groupby(others, sort=False, dropna=False) if others else [((), both)]
    rows = []
    for values, part in groups:
        numbers = part["difference"].dropna()
        rows.append((*values, *mean_interval(numbers, level), len(numbers)))
    return pd.DataFrame(rows, columns=[*others, "mean", "low", "high", "repetitions"])


def _level(level: float) -> float:
    if fraction("level", level) == 1:
        raise ValueError("level = 1: must be below 1")
    return level


def _parameters(table: pd.DataFrame) -> Sequence[str]:
    names = list(table.columns)
    one_of("table column", "repetition", names)
    return names[: names.index("repetition")]


def _cells(table: pd.DataFrame) -> list[tuple[tuple, pd.DataFrame]]:
    return [(values, part) for values, part in table.groupby(list(_parameters(table)), sort=False, dropna=False)]
