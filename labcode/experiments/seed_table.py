"""Tables over seeds: the same setting run for several draws, every number with its interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from labcode.checks import integer, one_of
from labcode.experiments.intervals import Interval, t_interval
from labcode.results.metrics import SLO, Summary
from labcode.simulate import simulate
from labcode.workload import Workload

#: What a table can show: name -> (heading, key of the summary, factor).
COLUMNS: dict[str, tuple[str, str, float]] = {
    "slo": ("SLO met (%)", "slo_of_submitted", 100),
    "ttft_mean": ("TTFT mean (s)", "ttft_mean_s", 1),
    "ttft_p50": ("TTFT median (ms)", "ttft_p50_s", 1000),
    "ttft_p99": ("TTFT P99 (s)", "ttft_p99_s", 1),
    "ttft_max": ("TTFT longest (s)", "ttft_max_s", 1),
    "tpot_p50": ("TPOT median (ms)", "tpot_p50_s", 1000),
    "itl_p99": ("ITL P99 (ms)", "itl_p99_s", 1000),
    "itl_max": ("ITL longest (ms)", "itl_max_s", 1000),
    "tokens": ("output tokens/s", "output_tokens_per_s", 1),
    "batch": ("mean batch", "mean_batch", 1),
    "most": ("most running", "most_running", 1),
    "reserved": ("reserved (%)", "kv_reserved_of_pool", 100),
    "written": ("written (%)", "kv_used_of_pool", 100),
    "preemptions": ("preemptions", "preemptions", 1),
    "refused": ("refused", "refused", 1),
}


def run_seeds(
    make: Callable[[int, float, int], Workload],
    rate: float,
    slo: SLO | None = None,
    *,
    n: int = 600,
    seeds: int | Iterable[int] = 10,
    **options: Any,
) -> list[Summary]:
    """Return the summaries of one setting, a seed each.

    Parameters
    ----------
    make : callable
        ``make(n, rate, seed)`` -> Workload, as `workload.chat`.  The same seed gives every setting the same requests.
    rate : float
        Requests/s.
    slo : SLO, optional
        By default 1 s and 50 ms.
    seeds : int or iterable of int
        A number means 0 to seeds - 1.
    **options
        As for :func:`labcode.simulate`.
    """
    each = range(integer("seeds", seeds)) if isinstance(seeds, int) else seeds
    return [simulate(make(n, rate, seed), **options).summary(slo or SLO()) for seed in each]


def over(runs: Sequence[Summary], key: str, factor: float = 1.0) -> Interval:
    """Return the interval of a summary's key over the seeds."""
    return t_interval([factor * run[key] for run in runs])


def rounded(interval: Interval) -> str:
    """Return "mean ± half" with two significant digits of uncertainty, and no digit beyond those."""
    if interval.half <= 1e-9 * abs(interval.mean):
        return f"{interval.mean:,.4g}"
    digits = max(0, 1 - math.floor(math.log10(interval.half)))
    return f"{interval.mean:,.{digits}f} ± {interval.half:,.{digits}f}"


def seed_table(runs: Mapping[Any, Sequence[Summary]], columns: Sequence[str], index: Any = None) -> pd.DataFrame:
    """Return a table, a row a setting, with a mean and its 95 % interval in every cell.

    Parameters
    ----------
    runs : mapping
        Label (a tuple makes several levels) -> summaries of `run_seeds`.
    columns : sequence of str
        Names in `COLUMNS`.
    index : str or list of str, optional
        Name of the labels.

    Raises
    ------
    ValueError
        If a column is not known.
    """
    for name in columns:
        one_of("columns", name, COLUMNS)
    cells = {
        label: {COLUMNS[name][0]: rounded(over(each, *COLUMNS[name][1:])) for name in columns}
        for label, each in runs.items()
    }
    table = pd.DataFrame(cells).T
    return table if index is None else table.rename_axis(index)
