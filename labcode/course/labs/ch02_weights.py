"""Chapter 2: the same measurements, weighed by request and weighed by token."""

from __future__ import annotations

from functools import cache

import numpy as np

from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.words import percent
from labcode.results.metrics import mean, weighted_percentile

N = 2000
SHORT = 20  # output tokens of a short answer
LIMIT = 0.05


@cache
def population(share: float, longer: int, slow: float, fast: float) -> tuple[np.ndarray, np.ndarray]:
    """Return TPOT (s) and output length (tokens) of 2000 requests, a `share` of which give `longer` tokens.

    Long answers take `slow` ms per token and short ones `fast` ms, each with a log-normal scatter of 5 %.
    """
    rng = np.random.default_rng(31)
    scatter = np.exp(rng.normal(-(0.05**2) / 2, 0.05, N))
    is_long = np.arange(N) < round(share * N)
    return np.where(is_long, slow, fast) * 1e-3 * scatter, np.where(is_long, longer, SHORT)


def distribution(values: np.ndarray, weights: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return 60 points (ms, share) of a weighted distribution function."""
    shares = np.linspace(0.0, 100.0, 60)
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / weights.sum() * 100
    at = values[order][np.minimum(np.searchsorted(reached, shares * (1 - 1e-12)), len(values) - 1)]
    return tuple((at * 1e3).tolist()), tuple((shares / 100).tolist())


def compute(share: float, longer: int, slow: float, fast: float) -> Result:
    """`slow` and `fast` in ms per token."""
    tpot, tokens = population(share, longer, slow, fast)
    equal, by_token = np.ones(N), (tokens - 1).astype(float)  # a request has O - 1 gaps
    held = by_token[tokens > SHORT].sum() / by_token.sum()
    within = float(np.mean(tpot <= LIMIT)), float(np.average(tpot <= LIMIT, weights=by_token))
    curves = Panel(
        "curves",
        "The distribution, counted in two ways",
        Axis("Time per output token", "ms"),
        Axis("Share at or below", limits=(0.0, 1.0)),
        (
            Series("every request counts once", "step", *distribution(tpot, equal), role="baseline"),
            Series("every token counts once", "step", *distribution(tpot, by_token), role="ours"),
        ),
        marks=(Mark("vline", LIMIT * 1e3, "SLO 50 ms"),),
        text=f"Long answers are {percent(share)} of the requests and hold {percent(held)} of the gaps between tokens. "
        f"{percent(within[1])} of the tokens are within 50 ms.",
    )
    names = ("mean", "P50", "P99")

    def three(weights: np.ndarray) -> tuple[float, ...]:
        return tuple(
            1e3 * v
            for v in (
                mean(tpot, weights),
                weighted_percentile(tpot, weights, 50),
                weighted_percentile(tpot, weights, 99),
            )
        )

    requests, weighed = three(equal), three(by_token)
    bars = Panel(
        "bars",
        "Three statistics, two populations",
        Axis("Statistic"),
        Axis("Time per output token", "ms"),
        (
            Series("over requests", "bar", names, requests, role="baseline"),
            Series("over tokens", "bar", names, weighed, role="ours"),
        ),
        marks=(Mark("hline", LIMIT * 1e3, "SLO 50 ms"),),
        text=f"The mean is {requests[0]:.1f} ms over requests and {weighed[0]:.1f} ms over tokens.",
    )
    return Result(
        (curves, bars),
        f"{percent(within[0])} of the requests and {percent(within[1])} of the tokens are within 50 ms; "
        f"the two means differ by a factor of {max(requests[0], weighed[0]) / min(requests[0], weighed[0]):.2f}.",
    )


def _tokens_within(result: Result) -> float:
    """Return the share of tokens within the limit, as the curve shows it."""
    curve = result.panel("curves").curve("every token counts once")
    return max(share for at, share in zip(curve.x, curve.y, strict=True) if at <= 1e3 * LIMIT)


LAB = Lab(
    "ch02-weights",
    "Whose time per token?",
    (
        Control("share", "Long answers", (0.02, 0.05, 0.1, 0.2, 0.5), 0.1, "of requests", "{:g}".format),
        Control("longer", "Length of a long answer", (100, 300, 1000), 1000, "tokens"),
        Control("slow", "TPOT of long answers", (10.0, 20.0, 40.0, 60.0, 100.0), 60.0, "ms", "{:g}".format),
        Control("fast", "TPOT of short answers", (10.0, 20.0, 40.0, 100.0), 20.0, "ms", "{:g}".format),
    ),
    compute,
    predict=Prediction(
        "One request in ten is long and slow (1000 tokens at 60 ms), the others are short and quick (20 tokens at "
        "20 ms), so nine requests in ten are within 50 ms. What share of the tokens is?",
        ("none", "about 15 %", "about 50 %", "about 90 %"),
        right=lambda result: graded(
            _tokens_within(result), (0.1, "none"), (0.35, "about 15 %"), (0.7, "about 50 %"), beyond="about 90 %"
        ),
        why=lambda result: result.panel("curves").text,
    ),
    numbers=("arithmetic",),
)
