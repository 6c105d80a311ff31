"""What chapter 13 says of its recorded measurements, and of its two loops."""

from __future__ import annotations

from labcode import workload
from labcode.course import chapter13
from labcode.course.evidence import faults, omission, prediction


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
    assert len(prediction.table(found)) == len(prediction.SHARES) * len(prediction.KEYS)


def test_a_closed_loop_holds_back() -> None:
    load = workload.chat(120, 60.0, 0)
    closed = chapter13.tails(chapter13.closed(load, users=240, think=4.0), "closed: ")
    assert closed["closed: arrive, 1/s"] < 60 and chapter13.fewest(99) == 368
