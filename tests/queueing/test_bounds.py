"""p99s do not add: the union bound, its worst case, and an independent counter-example."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labcode.course.evidence.queueing import two_stages
from labcode.queueing import independent_exponential_sum_quantile, stage_level, union_bound, worst_case_pair
from labcode.queueing.bounds import quantile


def test_exercise_31_8():
    figures = two_stages()
    assert figures["union_coverage"] == 0.98
    assert figures["each_level"] == 0.995
    assert figures["worst_coverage"] == pytest.approx(0.98)
    assert figures["worst_p99"] == pytest.approx(0.35)  # above 0.3 s
    assert figures["independent_p99"] < 0.25  # below 0.3 s


def test_worst_case_keeps_both_p99s():
    law = worst_case_pair(0.1, 0.2, 5.0)
    assert sum(p for p, _, _ in law) == pytest.approx(1)
    assert quantile([(p, x) for p, x, _ in law], 0.99) == 0.1
    assert quantile([(p, y) for p, _, y in law], 0.99) == 0.2


def test_independent_exponential_quantile_against_a_sample():
    rng = np.random.default_rng(5)
    total = rng.exponential(1.0, 400_000) + rng.exponential(2.0, 400_000)
    assert independent_exponential_sum_quantile(0.99, 1.0, 2.0) == pytest.approx(np.quantile(total, 0.99), rel=0.02)


@given(st.lists(st.floats(0, 0.3), min_size=1, max_size=3), st.integers(0, 2**32 - 1))
def test_the_bound_holds_for_dependent_stages(levels, seed):
    rng = np.random.default_rng(seed)
    common = rng.exponential(1, 500)
    stages = [common * rng.uniform(0, 2, 500) for _ in levels]
    thresholds = [np.quantile(stage, 1 - eps, method="inverted_cdf") for stage, eps in zip(stages, levels, strict=True)]
    covered = np.mean(sum(stages) <= sum(thresholds) + 1e-12)
    exceeded = [float(np.mean(s > t)) for s, t in zip(stages, thresholds, strict=True)]
    assert covered >= union_bound(exceeded) - 1e-9


def test_refusals():
    with pytest.raises(ValueError, match=r"exceedances\[1\] = 1.5"):
        union_bound([0.1, 1.5])
    with pytest.raises(ValueError, match="total_level = 1"):
        stage_level(1, 2)
    with pytest.raises(ValueError, match="stages = 0"):
        stage_level(0.99, 0)
    with pytest.raises(ValueError, match="the means must differ"):
        independent_exponential_sum_quantile(0.99, 1.0, 1.0)
    with pytest.raises(ValueError, match="excess = 0"):
        worst_case_pair(1, 1, 0)
