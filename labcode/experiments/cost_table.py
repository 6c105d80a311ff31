"""Does a conclusion survive another price?  The same comparison under the hard roofline, the smooth one and kernels.

A hard maximum of two roofs rewards whoever brings both to the same height; real kernels reward that less.  So what is
said of capacity or of an order of policies is computed under all three costs, on a GPU where all three are known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from labcode.checks import integer, one_of
from labcode.experiments.intervals import Interval, t_interval
from labcode.experiments.saturation import drain_rate
from labcode.workload import Workload

COSTS = ("paper", "smooth", "measured")

#: (setting, cost) -> what was measured, a number a seed.
Values = dict[tuple[str, str], list[float]]


def under_costs(
    make: Callable[[int], Workload],
    settings: Mapping[str, Mapping[str, Any]],
    measure: Callable[..., float] = drain_rate,
    seeds: int = 4,
    gpu: str = "a100-80",
    costs: Sequence[str] = COSTS,
) -> Values:
    """Measure every setting under the three costs, with the same requests for all of them.

    Parameters
    ----------
    make : callable
        ``make(seed)`` -> Workload.
    settings : mapping
        Name -> options of :func:`labcode.simulate`.
    measure : callable
        ``measure(load, **options)`` -> number; the drain rate by default (requests/s).
    seeds : int
        At least 2: seeds 0 to seeds - 1.
    gpu : str
        "measured" needs one for which kernels were measured.
    costs : sequence of str

    Returns
    -------
    dict
        (setting, cost) -> a number a seed.
    """
    loads = [make(seed) for seed in range(integer("seeds", seeds, at_least=2))]
    return {
        (name, cost): [measure(load, gpu=gpu, cost=cost, **options) for load in loads]
        for name, options in settings.items()
        for cost in costs
    }


def change(values: Values, name: str, base: str, cost: str) -> Interval:
    """Return by which share of `base` the setting `name` differs from it, pair by pair over the seeds."""
    one_of("base", base, [setting for setting, _ in values])
    pairs = zip(values[name, cost], values[base, cost], strict=True)
    return t_interval([ours / theirs - 1 for ours, theirs in pairs])


def cost_table(values: Values, base: str | None = None, digits: int = 1) -> pd.DataFrame:
    """Return a row a setting and a column a cost: the mean, and in which range its change against `base` lies.

    Parameters
    ----------
    base : str, optional
        The setting that the others are compared with; without it only means are shown.
    digits : int
        Of the means.
    """

    def cell(name: str, cost: str) -> str:
        shown = f"{t_interval(values[name, cost]).mean:.{digits}f}"
        if base is None or name == base:
            return shown
        by = change(values, name, base, cost)
        return f"{shown} ({100 * by.mean:+.1f} ± {100 * by.half:.1f} %)"

    names, costs = (list(dict.fromkeys(key[part] for key in values)) for part in (0, 1))
    return pd.DataFrame({cost: {name: cell(name, cost) for name in names} for cost in costs})
