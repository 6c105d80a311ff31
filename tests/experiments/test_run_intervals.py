"""Intervals for a percentile, and for the mean of one long run."""

from __future__ import annotations

import numpy as np
import pytest

from labcode.experiments.intervals import batch_means, quantile_interval, t_interval


def test_quantile_intervals_cover_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    for q, n in ((50, 30), (90, 100), (99, 800)):
        truth, hits = -np.log(1 - q / 100), 0
        for _ in range(600):
            _, low, high = quantile_interval(rng.exponential(size=n), q)
            hits += low <= truth <= high
        # At least 95 %, and not much more than the steps of a binomial allow: 600 trials, standard deviation 0.9 %.
        assert 0.925 <= hits / 600 <= 0.99, (q, hits / 600)


def test_too_few_draws_have_no_upper_end_and_the_unfinished_count_as_large() -> None:
    assert quantile_interval(range(1, 101), 99)[2] == np.inf
    assert quantile_interval(range(1, 101), 50)[0] == 50
    value, low, _ = quantile_interval([*range(90), *[np.nan] * 10], 95)
    assert value == np.inf and low < np.inf
    for q in (0, 100):
        with pytest.raises(ValueError, match="q = "):
            quantile_interval([1.0], q)
    with pytest.raises(ValueError, match="values has shape"):
        quantile_interval([], 50)


def test_batch_means_are_wider_where_neighbours_are_alike() -> None:
    rng = np.random.default_rng(1)
    hits = narrow = 0
    for _ in range(200):
        noise = rng.standard_normal(4000)
        series = np.empty(4000)
        series[0] = noise[0]
        for i in range(1, 4000):
            series[i] = 0.95 * series[i - 1] + noise[i]
        means, single = batch_means(series, 20), t_interval(series)
        hits += means.low <= 0 <= means.high
        narrow += single.low <= 0 <= single.high
    assert hits / 200 > 0.85 > 0.5 > narrow / 200
    with pytest.raises(ValueError, match="at least two for each"):
        batch_means([1.0] * 30, 20)
