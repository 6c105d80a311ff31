"""Chapter 9's tables of places."""

import numpy as np
import pytest

from labcode import workload
from labcode.course.evidence import knobs


def test_littles_law_gives_the_drain_rate():
    table = knobs.places_by_memory(workload.chat(1200, 1.0, 0), ("max:8192", "max:4096"))
    assert table["C / R"].to_numpy() == pytest.approx(table["drain rate"].to_numpy(), rel=0.06)
    assert table.loc["max:8192", "C: together"] == pytest.approx(52, abs=0.5)
    assert table["drain rate"].is_monotonic_increasing and table["R (s)"].is_monotonic_increasing


@pytest.mark.slow
def test_steps_that_do_not_fit_are_left_out():
    table = knobs.places_by_size((32, 64), (512, 8192), seeds=2)
    assert np.isnan(table.loc[64, "decode step at 8192 (ms)"]) and not np.isnan(
        table.loc[32, "decode step at 8192 (ms)"]
    )
    assert table.loc[32, "decode step at 512 (ms)"] == pytest.approx(6.8, abs=0.1)
    assert table.loc[64, "keeps up with (req/s)"] > 1.3 * table.loc[32, "keeps up with (req/s)"]
