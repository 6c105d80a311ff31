"""Intervals over seeds: no stochastic number stands alone.

A run of a simulation is one draw.  What a chapter reports is the mean over several seeds, with an interval that
would cover the long-run mean in a stated share of repetitions of the whole experiment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, stdtrit

from labcode.checks import integer


@dataclass(frozen=True)
class Interval:
    """A mean (or another statistic) over `n` draws, with its confidence interval.

    ``format(interval, ".1f")`` gives "64.3 ± 1.2", or "64.3 [62.9, 66.0]" where the interval is not symmetric.
    """

    mean: float
    low: float
    high: float
    n: int
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if not self.low <= self.mean <= self.high:
            raise ValueError(f"Interval mean = {self.mean!r}: must lie in [{self.low!r}, {self.high!r}]")

    @property
    def half(self) -> float:
        """Half the width."""
        return (self.high - self.low) / 2

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __format__(self, spec: str) -> str:
        spec = spec or ".3g"
        skew = abs((self.high - self.mean) - (self.mean - self.low))
        if skew <= 1e-9 * max(abs(self.mean), self.half):
            return f"{self.mean:{spec}} ± {self.half:{spec}}"
        return f"{self.mean:{spec}} [{self.low:{spec}}, {self.high:{spec}}]"

    def __str__(self) -> str:
        return format(self, "")


def mean_interval(values: ArrayLike, level: float = 0.95) -> tuple[float, float, float]:
    """Return mean, lower and upper end of Student's t interval; NaN ends for fewer than two values."""
    values = np.asarray(values, dtype=float)
    n = len(values)
    if n == 0:
        return np.nan, np.nan, np.nan
    mean = float(values.mean())
    if n == 1:
        return mean, np.nan, np.nan
    half = float(stdtrit(n - 1, (1 + level) / 2) * values.std(ddof=1) / np.sqrt(n))
    return mean, mean - half, mean + half


def _draws(values: ArrayLike, confidence: float) -> NDArray[np.float64]:
    draws = np.asarray(values, dtype=float)
    if draws.ndim != 1 or len(draws) < 2:
        raise ValueError(f"values has shape {draws.shape}: at least two draws in one dimension are needed")
    bad = np.flatnonzero(~np.isfinite(draws))
    if len(bad):
        raise ValueError(f"values[{bad[0]}] = {draws[bad[0]]!r}: a finite number is needed")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence = {confidence!r}: must lie between 0 and 1")
    return draws


def t_interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Return the mean of independent draws and Student's interval for it.

    mean ± t(n - 1) · s / √n, exact for normal draws (Student 1908) and good for means of long runs, which are
    nearly normal.  The interval is about the *mean*: single draws scatter √n times as widely.

    Parameters
    ----------
    values : array_like, shape (n,)
        One number a seed, n >= 2, all finite.
    confidence : float
        In (0, 1).

    Raises
    ------
    ValueError
        If there are fewer than two draws, or one is not finite (which).
    """
    draws = _draws(values, confidence)
    mean, low, high = mean_interval(draws, confidence)
    return Interval(mean, low, high, len(draws), confidence)


def over_seeds(measure: Callable[[int], float], seeds: int | Iterable[int] = 10, confidence: float = 0.95) -> Interval:
    """Return the interval of ``measure(seed)`` over `seeds` (a number: 0 to seeds - 1)."""
    each = range(integer("seeds", seeds, at_least=2)) if isinstance(seeds, int) else seeds
    return t_interval([measure(seed) for seed in each], confidence)


def quantile_interval(values: ArrayLike, q: float, confidence: float = 0.95) -> tuple[float, float, float]:
    """Return a percentile of independent draws and an interval for it between two order statistics.

    The number of draws at or below the true quantile is binomial(n, q/100), whatever the distribution, so the l-th and
    the u-th smallest draw enclose it with the probability of l <= B < u (David and Nagaraja 2003, section 7.1).
    Requests of one run are *not* independent: their queue is common to them.  Use one value a run, or batches.

    Parameters
    ----------
    values : array_like, shape (n,)
        NaN (who never finished) counts as larger than everything: an unfinished request is no missing one.
    q : float
        In per cent, strictly between 0 and 100.
    confidence : float
        In (0, 1).

    Returns
    -------
    (percentile, low, high)
        Nearest rank; `low` is -inf and `high` inf where there are too few draws for an end.

    Raises
    ------
    ValueError
        If there are no values, or a number is out of its range.
    """
    draws = np.asarray(values, dtype=float)
    draws = np.sort(np.where(np.isnan(draws), np.inf, draws))
    if draws.ndim != 1 or not len(draws):
        raise ValueError(f"values has shape {draws.shape}: at least one draw in one dimension is needed")
    if not 0 < q < 100:
        raise ValueError(f"q = {q!r}: must lie between 0 and 100")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence = {confidence!r}: must lie between 0 and 1")
    n, share, tail = len(draws), q / 100, (1 - confidence) / 2
    below = bdtr(np.arange(n), n, share)  # P(B <= k) for k = 0 ... n-1
    low = int(np.searchsorted(below, tail, side="right"))  # P(B <= low - 1) <= tail, so B >= low with 1 - tail
    high = int(np.searchsorted(below, 1 - tail)) + 1  # P(B <= high - 1) >= 1 - tail, so B < high
    rank = max(1, int(np.ceil(n * share - 1e-9)))
    return (
        float(draws[rank - 1]),
        float(draws[low - 1]) if low >= 1 else -np.inf,
        float(draws[high - 1]) if high <= n else np.inf,
    )


def batch_means(values: ArrayLike, batches: int = 20, confidence: float = 0.95) -> Interval:
    """Return the mean of one long run, and an interval that allows for neighbours being alike.

    The run is cut into `batches` equal pieces (what is left over at the beginning is dropped, it is nearest to the
    warm-up); means of long pieces are nearly independent, so Student's interval over them holds (Law 2015, section
    9.5.3).  The same interval over the single values would be far too narrow.

    Raises
    ------
    ValueError
        If there are fewer than two values for each batch.
    """
    series = np.asarray(values, dtype=float)
    batches = integer("batches", batches, at_least=2)
    size = len(series) // batches
    if size < 2:
        raise ValueError(f"values: {len(series)} for {batches} batches; at least two for each are needed")
    return t_interval(series[len(series) - size * batches :].reshape(batches, size).mean(axis=1), confidence)
