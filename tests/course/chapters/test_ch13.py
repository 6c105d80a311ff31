"""What chapter 13 says of its recorded measurements, and of its two loops."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from labcode import workload
from labcode.cost import StepShape
from labcode.course import chapter13, check
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
    overloads = [diagnosis.evidence(case) for case in diagnosis.CASES.values() if case.fault == diagnosis.OVERLOAD]
    # Its queue is older than under either overload and grows to the end: whoever does not look for pauses is misled.
    assert trap.age[-1] > max(seen.age[-1] for seen in overloads) and trap.waiting[-1] == max(trap.waiting) > 30
    misled = dataclasses.replace(trap, paused=(0.0,) * diagnosis.SECONDS)
    assert diagnosis.diagnosed(misled, normal)[0] == diagnosis.OVERLOAD
    assert all(diagnosis.evidence(case).memory < 0.2 for case in diagnosis.CASES.values())


def test_a_closed_loop_holds_back() -> None:
    load = workload.chat(120, 60.0, 0)
    closed = chapter13.tails(chapter13.closed(load, users=240, think=4.0), "closed: ")
    assert closed["closed: arrive, 1/s"] < 60 and chapter13.fewest(99) == 368


def test_the_building_task_takes_the_books_answer_and_no_half_of_it() -> None:
    def bounds(seconds: list[float], ended: list[bool], q: float) -> tuple[float, float]:
        rank = max(1, math.ceil(q * len(seconds) / 100)) - 1
        most = sorted(s if done else math.inf for s, done in zip(seconds, ended, strict=True))
        return sorted(seconds)[rank], most[rank]

    def survivors_only(seconds: list[float], ended: list[bool], q: float) -> tuple[float, float]:
        kept = [s for s, done in zip(seconds, ended, strict=True) if done]
        return bounds(kept, [True] * len(kept), q) if kept else (0.0, 0.0)

    assert check.code("13.build", bounds) == "right: all 106 cases"
    for wrong in (survivors_only, lambda s, e, q: (bounds(s, e, q)[0],) * 2, lambda s, e, q: bounds(s, e, 0.9 * q)):
        assert check.code("13.build", wrong).startswith("not yet")


def test_the_verdict_follows_from_the_record() -> None:
    """A record that fits is called reached; one far off in one key is not, and that key is named."""
    found = prediction.recorded()
    fits = found.assign(measured=found["predicted"], hindsight=found["predicted"])
    assert "The aim was reached." in prediction.verdict(fits)
    off = fits.assign(measured=fits["measured"].where((fits["key"] != "itl_p99_s") | (fits["share"] != 0.6), 10.0))
    said = prediction.verdict(off)
    assert "The aim was not reached." in said and "itl_p99_s at 60%" in said and "P99 within 30%: 5 of 6." in said
    moved = fits.assign(predicted=2 * fits["measured"])
    assert "a price that had changed" in prediction.verdict(moved)


def test_runs_that_missed_their_schedule_have_no_say() -> None:
    """Their numbers move nothing, they are counted, and without any valid run nothing is compared."""
    found = prediction.recorded().assign(valid=True)
    found.loc[(found["share"] == 0.9) & (found["seed"] == 1), "valid"] = False
    absurd = found.assign(measured=found["measured"].where(found["valid"], 1e6))
    assert prediction.table(absurd).equals(prediction.table(found))
    assert "14 of 15 runs kept their schedule; the other 1" in prediction.verdict(absurd)
    assert "None of the 15 runs" in prediction.verdict(found.assign(valid=False))
    worse = found.assign(hindsight=5 * found["measured"], predicted=2 * found["measured"])
    assert "no better" in prediction.verdict(worse)


def test_batch_means_are_nearer_to_their_promise_than_the_naive_interval() -> None:
    held = chapter13.coverage(22.0, runs=12)
    assert held["as if independent"] < held["batch means"] <= 1


def test_before_help_comes_the_old_must_not_delay_the_young() -> None:
    """Four policies see to that and are far ahead with every seed; the order of the text holds."""
    helped = chapter13.before_help(seeds=2)
    in_time = helped["in time"]
    assert helped["in time, least"].iloc[2:].min() > 0.7 > 0.5 > in_time.iloc[:2].max()
    everybody, deadline, two, one, limit, last = in_time
    assert everybody < deadline < two < limit < last < one
    refused, gone = helped["refused or ended"], helped["backlog gone after, s"]
    assert refused.iloc[0] == refused.iloc[5] == 0 < refused.iloc[1:5].min() and refused.max() < 0.3
    assert gone.iloc[2:5].max() < 10 and min(gone.iloc[0], gone.iloc[5]) > 40
