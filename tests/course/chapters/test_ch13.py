"""What chapter 13 says of its recorded measurements, and of its two loops."""

from __future__ import annotations

import numpy as np
import pytest

from labcode import workload
from labcode.cost import StepShape
from labcode.course import chapter13
from labcode.course.evidence import diagnosis, faults, omission, prediction


def test_the_recorded_stall_says_what_the_text_says() -> None:
    views = omission.recorded()
    assert views.loc["closed", "p99_s"] < 0.2 < 1.5 < views.loc["open", "p99_s"]
    for name in ("closed, corrected by arithmetic", "closed, from the wanted send"):
        assert 1.5 < views.loc[name, "p99_s"] < 2.5
    assert views[["how", "machine", "load", "date"]].notna().all().all()


def test_the_recorded_faults_have_the_signs_of_the_table() -> None:
    seen = dict(iter(faults.recorded().groupby("fault")))
    assert set(seen) == set(faults.FAULTS)
    waiting = {name: part["requests_waiting"].iloc[-1] for name, part in seen.items()}
    assert waiting["overload"] > 5 * max(waiting["healthy"], 1)
    paused = {name: part["requests_paused"].max() for name, part in seen.items()}
    assert paused["slow clients"] > 0 == paused["healthy"] == paused["overload"] == paused["long prompts"]
    gaps = {name: faults.itl_above(part, "0.2").max() for name, part in seen.items()}
    assert gaps["long prompts"] > 0.05 > max(gaps["healthy"], gaps["overload"], gaps["slow clients"])
    assert all((part["kv_reserved_tokens"] < 65_536 / 2).all() for part in seen.values())


def test_the_recorded_prediction_is_whole() -> None:
    found = prediction.recorded()
    assert len(found) == len(prediction.SHARES) * len(prediction.SEEDS) * len(prediction.KEYS)
    table = prediction.table(found)
    assert len(table) == len(prediction.SHARES) * len(prediction.KEYS)
    assert (
        table["within"]
        == (table["error"].abs() <= np.where(table.index.get_level_values(1).str.contains("p99"), 0.3, 0.15))
    ).all()


def test_a_price_and_its_scatter_predict_what_they_were_made_from() -> None:
    """Steps of a known price, one in fifty slow by others' doing: capacity and medians come back, the tail as well."""
    rng, shapes = np.random.default_rng(3), [StepShape.of((), int(b), int(60 * b)) for b in range(1, 17)] * 60
    exact = [0.004 + 0.0005 * shape.seqs for shape in shapes]
    ratios = np.where(rng.random(len(shapes)) < 0.02, 8.0, rng.uniform(0.95, 1.05, len(shapes)))
    price = prediction.priced(list(zip(shapes, (ratios * exact).tolist(), strict=True)))
    modelled = np.array([price.cost.step_time(shape) for shape in shapes])
    assert np.abs(modelled / exact - 1).max() < 0.05  # the slow ones have no say in the price ...
    assert price.ratios.mean() == pytest.approx(ratios.mean(), rel=0.03)  # ... and all of it in the scatter
    calm = prediction.Price(price.cost, np.ones(1))
    assert calm.capacity() / price.capacity() == pytest.approx(price.ratios.mean(), rel=0.01)
    load = prediction.load_at(0.3 * price.capacity(), 80, 1)
    expected, offset = price.predicted(load), price.predicted(load, 0.1)
    assert offset["ttft_p50_s"] == pytest.approx(expected["ttft_p50_s"] + 0.1)
    assert expected["itl_p99_s"] > 3 * expected["itl_p50_s"] > 0 and offset["itl_p50_s"] == expected["itl_p50_s"]


def test_four_curves_tell_the_planted_faults_apart() -> None:
    """In every case the rule finds what was planted; the queue's age alone would be wrong about slow clients."""
    normal = diagnosis.evidence(diagnosis.REFERENCE)
    found = {name: diagnosis.diagnosed(diagnosis.evidence(case), normal)[0] for name, case in diagnosis.CASES.items()}
    assert found == {name: case.fault for name, case in diagnosis.CASES.items()}
    assert set(found.values()) == {diagnosis.HEALTHY, diagnosis.OVERLOAD, diagnosis.LONG, diagnosis.SLOW}
    trap = diagnosis.evidence(diagnosis.CASES["E"])
    assert max(trap.age[20:]) > 2 * max(trap.age[:10])
    assert all(diagnosis.evidence(case).memory < 0.2 for case in diagnosis.CASES.values())


def test_a_closed_loop_holds_back() -> None:
    load = workload.chat(120, 60.0, 0)
    closed = chapter13.tails(chapter13.closed(load, users=240, think=4.0), "closed: ")
    assert closed["closed: arrive, 1/s"] < 60 and chapter13.fewest(99) == 368
