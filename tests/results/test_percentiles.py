"""Percentiles by their definition: the smallest value at or below which at least q percent of the weight lies."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import labcode
from labcode.results.metrics import mean, weighted_percentiles

VALUES = st.lists(st.one_of(st.integers(-5, 5).map(float), st.just(float("nan"))), max_size=12)


@given(VALUES, st.data(), st.lists(st.sampled_from([0, 1, 25, 50, 90, 99, 100]), min_size=1, max_size=4))
def test_against_the_definition(values, data, qs):
    weights = data.draw(st.one_of(st.none(), st.lists(st.integers(0, 3), min_size=len(values), max_size=len(values))))
    pairs = [(v, w) for v, w in zip(values, weights or [1] * len(values), strict=True) if v == v and w > 0]
    results = weighted_percentiles(values, weights, qs)
    if not pairs:
        assert all(np.isnan(results)) and np.isnan(mean(values, weights))
        return
    total = sum(w for _, w in pairs)
    for q, result in zip(qs, results, strict=True):
        enough = [v for v, _ in pairs if 100 * sum(w for u, w in pairs if u <= v) >= q * total]
        assert result == min(enough)
    assert mean(values, weights) == pytest.approx(sum(v * w for v, w in pairs) / total)


#: What is interpolated on purpose, being no percentile of anything measured: the edges of buckets.
INTERPOLATED = {"course/evidence/buckets.py"}


def test_the_percentile_is_defined_once():
    root = Path(labcode.__file__).parent
    others = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if re.search(r"np\.(nan)?(percentile|quantile)\(", path.read_text(encoding="utf-8"))
    }
    assert others <= INTERPOLATED, "use labcode.results.metrics.percentile"
