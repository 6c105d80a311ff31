"""Hidden tests of chapters 6, 7 and 9: the solutions pass, and each planted mistake is found."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from labcode.course import check


def trial(measure, order, seeds, placebo=None, paired=True, ddof=1):
    placebo = placebo or (lambda request: np.random.default_rng(request.id).random())
    other = list(seeds) if paired else list(seeds)[::-1]
    gaps = [measure(order, a) - measure(placebo, b) for a, b in zip(seeds, other, strict=True)]
    half = stats.t.ppf(0.975, len(gaps) - 1) * np.std(gaps, ddof=ddof) / np.sqrt(len(gaps))
    return float(np.mean(gaps)), float(half)


def test_a_placebo_controlled_trial():
    assert check.code("9.build", trial).startswith("right")


RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"placebo": lambda request: RNG.random()}, "same request again"),
        ({"placebo": lambda request: np.random.default_rng(request.prompt).random()}, "more than the request's id"),
        ({"placebo": lambda request: float(request.id)}, "not random"),
        ({"paired": False}, "returned"),
        ({"ddof": 0}, "returned"),
    ],
)
def test_what_is_no_trial_is_found(options, why):
    said = check.code("9.build", lambda *args: trial(*args, **options))
    assert said.startswith("not yet") and why in said
