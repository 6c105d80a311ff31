"""The same comparison under three costs."""

from __future__ import annotations

import pytest

from labcode import workload
from labcode.experiments.cost_table import COSTS, change, cost_table, under_costs
from labcode.experiments.saturation import drain_rate

SETTINGS = {"wide": {"max_bs": 32}, "narrow": {"max_bs": 8}}


def chat(seed):
    return workload.chat(200, 1.0, seed)


def test_every_cell_is_a_measurement_of_its_own():
    found = under_costs(chat, SETTINGS, seeds=2)
    assert list(found) == [(name, cost) for name in SETTINGS for cost in COSTS]
    assert found["narrow", "measured"][1] == drain_rate(chat(1), gpu="a100-80", cost="measured", max_bs=8)
    assert all(found["wide", cost][0] > found["narrow", cost][0] for cost in COSTS)
    pairs = [n / w - 1 for n, w in zip(found["narrow", "smooth"], found["wide", "smooth"], strict=True)]
    assert change(found, "narrow", "wide", "smooth").mean == pytest.approx(sum(pairs) / 2)
    with pytest.raises(ValueError, match="base = 'tall': known are wide"):
        change(found, "wide", "tall", "paper")


def test_the_table_says_the_mean_and_the_paired_change():
    values = {("a", cost): [10.0, 20.0] for cost in COSTS} | {("b", cost): [11.0, 22.0] for cost in COSTS}
    table = cost_table(values, "a")
    assert table.loc["a", "smooth"] == "15.0"
    assert table.loc["b", "measured"] == "16.5 (+10.0 ± 0.0 %)"
    assert cost_table(values).loc["b", "paper"] == "16.5"


def test_another_measure_may_be_taken():
    found = under_costs(chat, {"one": {"max_bs": 4}}, lambda load, **options: float(options["max_bs"]), seeds=2)
    assert set(map(tuple, found.values())) == {(4.0, 4.0)}
    roofs = under_costs(chat, {"one": {}}, lambda load, **options: 1.0, seeds=2, gpu="h100", costs=("paper", "smooth"))
    assert list(cost_table(roofs).columns) == ["paper", "smooth"]
