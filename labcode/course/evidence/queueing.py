"""The seed figures that queueing theory answers: rows C06, C07, C08 and C12 of the ledger."""

from __future__ import annotations

import math

import numpy as np

from labcode.queueing.bounds import (
    independent_exponential_sum_quantile,
    quantile,
    stage_level,
    union_bound,
    worst_case_pair,
)
from labcode.queueing.closed_forms import MM1
from labcode.queueing.little import little


def little_by_hand() -> dict[str, float]:
    """C06: residences [0, 2) and [1, 3) on [0, 3]; area, mean number, rate (1/s), mean time (s)."""
    seen = little([0, 1], [2, 3], (0, 3))
    return {
        "area": seen.area,
        "mean_number": seen.mean_number,
        "rate": seen.rate,
        "mean_time": seen.mean_time,
    }


def mm1_tails() -> dict[str, float]:
    """C07: service rate 100/s, arrival rates 80/s and 95/s; mean and p99 of the sojourn time (s)."""
    easy, hard = MM1(80, 100), MM1(95, 100)
    return {
        "mean_80": easy.W,
        "p99_80": easy.quantile(0.99),
        "mean_95": hard.W,
        "p99_95": hard.quantile(0.99),
    }


def two_stages() -> dict[str, float]:
    """C08: stages with p99 0.1 s and 0.2 s; what 0.3 s covers for sure, and two sums whose p99 is not 0.3 s.

    `independent_p99`: independent exponential stages with those p99s.  `worst_p99`: the joint law of
    `worst_case_pair` with an overshoot of 0.05 s, whose coverage at 0.3 s is `worst_coverage`.
    `each_level` is the level to take in each stage for 99 % in all.
    """
    x99, y99 = 0.1, 0.2
    law = worst_case_pair(x99, y99, excess=0.05)
    total = [(p, round(x + y, 9)) for p, x, y in law]
    return {
        "union_coverage": union_bound([0.01, 0.01]),
        "independent_p99": independent_exponential_sum_quantile(0.99, x99 / math.log(100), y99 / math.log(100)),
        "worst_coverage": sum(p for p, value in total if value <= round(x99 + y99, 9)),
        "worst_p99": quantile(total, 0.99),
        "each_level": stage_level(0.99, 2),
    }


def little_in_words() -> float:
    """C12: 20 requests/s that stay 0.4 s on average (each for a time of its own); the mean number present, counted.

    The window is a whole number of patterns of stays, so that no edge is left: ten seconds out of the middle.
    """
    arrivals = np.arange(600) / 20
    stays = np.resize([0.1, 0.7, 0.2, 0.6], len(arrivals))
    return round(little(arrivals, arrivals + stays, window=(10.0, 20.0)).mean_number, 9)
