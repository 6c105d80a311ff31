"""From runs to panels: distribution curves and averages over time that several labs draw in the same way."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labcode import workload
from labcode.metrics import SLO, weighted_percentiles
from labcode.run import Run
from labcode.workload import Workload

#: Shares of requests at which a TTFT curve is drawn.
REQUEST_SHARES = (0.01, 0.03, 0.06, *np.round(np.arange(0.1, 0.9, 0.05), 2).tolist(), 0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 0.997)
#: Shares of tokens that are slower, at which an ITL curve is drawn.
SLOWER_SHARES = (1.0, 0.8, 0.6, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005)

Points = tuple[tuple[float, ...], tuple[float, ...]]


@lru_cache(maxsize=256)
def chat(n: int, seed: int) -> Workload:
    """Return the chat load at rate 1, made once."""
    return workload.chat(n=n, rate=1.0, seed=seed)


def ttft_of(run: Run) -> NDArray[np.float64]:
    """Return the TTFT of every submitted request in s, NaN for those that never started, shape (n,)."""
    return run.record.first_token - run.load.arrival


def share_within(ttft: ArrayLike, shares: Sequence[float] = REQUEST_SHARES) -> Points:
    """Return the points (seconds, share of *submitted* requests that have started by then)."""
    ttft = np.asarray(ttft, dtype=float)
    served = np.sort(ttft[~np.isnan(ttft)])
    kept = [share for share in shares if share * len(ttft) <= len(served)]
    at = [int(np.ceil(share * len(ttft))) - 1 for share in kept]
    return tuple(float(served[max(i, 0)]) for i in at), tuple(kept)


def share_slower(values: ArrayLike, weights: ArrayLike, shares: Sequence[float] = SLOWER_SHARES) -> Points:
    """Return the points (seconds, share of tokens whose inter-token latency is at least that)."""
    x = weighted_percentiles(values, weights, [100 * (1 - share) for share in shares])
    kept = [(float(v), share) for v, share in zip(x, shares, strict=True) if not np.isnan(v)]
    return tuple(v for v, _ in kept), tuple(share for _, share in kept)


def pooled_itl(runs: Sequence[Run]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return inter-token latencies (s) of several runs and how many tokens had each."""
    values, weights = zip(*(run.itl() for run in runs), strict=True)
    return np.concatenate(values), np.concatenate(weights)


def averaged(run: Run, values: ArrayLike, edges: ArrayLike) -> NDArray[np.float64]:
    """Return the mean over each interval of `edges` (s) of something constant in each segment and 0 in between.

    Parameters
    ----------
    values : array_like, shape (m,)
        One a segment of the run.
    edges : array_like, shape (k + 1,)

    Returns
    -------
    float64, shape (k,)
    """
    s = run.record.segments
    knots = np.column_stack([s["start"], s["end"]]).ravel()
    area = np.repeat(np.cumsum((s["end"] - s["start"]) * np.asarray(values, dtype=float)), 2)
    area = np.concatenate([[0.0], area[:-1]])  # the area rises inside a segment only
    edges = np.asarray(edges, dtype=float)
    return np.diff(np.interp(edges, knots, area)) / np.diff(edges)


def middles(edges: NDArray[np.float64]) -> tuple[float, ...]:
    """Return the middle of each interval."""
    return tuple(((edges[:-1] + edges[1:]) / 2).tolist())


def span(run: Run, points: int) -> NDArray[np.float64]:
    """Return the edges of `points` equal intervals from 0 to the end of the run, in s."""
    return np.linspace(0.0, float(run.record.segments["end"][-1]), points + 1)


def attained(loads: Sequence[Workload], rate: float, slo: SLO, **options: object) -> NDArray[np.float64]:
    """Return the share of requests within the SLO for each load at `rate`, shape (len(loads),)."""
    from labcode import simulate

    return np.array([simulate(load.at_rate(rate), **options).met(slo) for load in loads])  # type: ignore[arg-type]


def what_binds(run: Run, max_bs: int) -> tuple[str, float]:
    """Return what keeps people waiting, "seats" or "memory", or "" if hardly anybody does, and the share of time somebody waits."""
    s = run.record.segments
    length, waits = s["end"] - s["start"], s["waiting"] > 0
    share = float(length[waits].sum() / length.sum())
    if share < 0.01:
        return "", share
    running = s["n_prefill"] + s["n_decode"]
    full = float(length[waits & (running >= max_bs)].sum())
    return ("seats" if full > 0.5 * length[waits].sum() else "memory"), share
