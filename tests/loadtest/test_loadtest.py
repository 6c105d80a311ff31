"""Load generators against a server whose delays are known."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import time
from collections.abc import Coroutine
from typing import Any

import numpy as np
import pytest

pytest.importorskip("httpx")

from labcode import SLO
from labcode.loadtest.closed_loop import closed_loop
from labcode.loadtest.exchange import Target
from labcode.loadtest.measured import Measured
from labcode.loadtest.open_loop import open_loop
from labcode.loadtest.stalls import corrected, on_paper
from labcode.workload import fixed, from_arrays

from .fake import Script, faking, tokens


def against(script: Script, test: Any, **options: Any) -> Measured:
    """Run a test against a fake server."""

    async def run() -> Measured:
        async with faking(script) as url:
            made: Coroutine[Any, Any, Measured] = test(Target(url, **options))
            return await made

    return asyncio.run(asyncio.wait_for(run(), 60))


def test_tokens_and_chunks_are_apart() -> None:
    """Counted by the server: tokens of each chunk; not counted: chunks only, their sizes unknown, no ITL."""
    load = fixed(3, 20.0, 5, 8)
    measured = against(lambda body: tokens(8, sizes=2), lambda target: open_loop(target, load))
    # Whether the schedule was kept to 50 ms is up to the machine; to 5 s, it must have been.
    assert (
        dataclasses.replace(measured, tolerance=5.0).valid
        and [e.outcome for e in measured.exchanges] == ["finished"] * 3
    )
    assert measured.log.requests["output_tokens"].tolist() == [8, 8, 8]
    assert measured.log.requests["chunks"].tolist() == [4, 4, 4]
    assert set(measured.log.intervals["tokens"]) == {2.0} and not measured.log.per_token
    blind = against(lambda body: tokens(8, sizes=2, usage=False), lambda target: open_loop(target, load), counts=False)
    assert blind.log.requests["output_tokens"].tolist() == [8, 8, 8]
    assert blind.log.intervals["tokens"].isna().all() and len(blind.log.intervals) == 9
    with pytest.raises(ValueError, match="use chunk_intervals"):
        blind.log.itl()
    single = against(lambda body: tokens(8, delay=0.02), lambda target: open_loop(target, load))
    seconds, _ = single.log.itl()
    assert len(seconds) == 21 and 0.015 < np.median(seconds) < 0.5


def test_what_a_request_asks_for() -> None:
    """Limits, words or token ids of the planned length, the same in every test."""
    bodies: list[dict[str, Any]] = []

    def note(body: dict[str, Any]) -> list[tuple[float, str]]:
        bodies.append(body)
        return tokens(2)

    load = from_arrays([0.0, 0.05], [7, 9], [4, 5])
    against(note, lambda target: open_loop(target, load), vocab=50, model="m")
    against(note, lambda target: open_loop(target, load), vocab=50)
    against(note, lambda target: open_loop(target, load))
    assert [len(body["prompt"]) for body in bodies[:2]] == [7, 9] and bodies[0]["model"] == "m"
    assert [body["max_tokens"] for body in bodies[:2]] == [4, 5]
    assert bodies[0]["prompt"] == bodies[2]["prompt"] and bodies[0]["prompt"][:7] != bodies[1]["prompt"][:7]
    assert max(bodies[0]["prompt"]) < 50 and len(bodies[4]["prompt"].split()) == 7


@pytest.mark.slow
def test_every_outcome_has_its_name() -> None:
    """Refused, failed, cut off, timed out, given up, unfinished: each is counted, none is left out."""
    error = json.dumps({"error": {"type": "timed_out", "message": "its deadline has passed"}})
    answers = iter([
        (429, '{"error": {"message": "full"}}'), (400, "no"), (503, "{}"), (504, "{}"),
        [*tokens(2)[:1], (0.0, "CUT")], [*tokens(2)[:1], (0.0, error), (0.0, "[DONE]")], [(0.0, "[DONE]")],
        [(5.0, "[DONE]")], [(0.0, "{")],
    ])  # fmt: skip
    load = fixed(9, 20.0, 5, 8)
    measured = against(lambda body: next(answers), lambda target: open_loop(target, load), patience=1.0)
    assert [e.outcome for e in measured.exchanges] == [
        "refused", "failed", "refused", "timed_out", "failed", "timed_out", "failed", "cancelled", "failed",
    ]  # fmt: skip
    assert measured.exchanges[0].reason == "429: full" and "gave up after 1 s" in measured.exchanges[7].reason
    summary = measured.summary(SLO(1.0))
    assert summary["submitted"] == 9 and summary["finished"] == 0 and summary["slo_of_submitted"] == 0
    cut = against(lambda body: [(5.0, "[DONE]")], lambda target: open_loop(target, load, stop_at=0.3))
    assert [e.outcome for e in cut.exchanges] == ["unfinished"] * len(cut.exchanges) and len(cut.exchanges) == 6
    assert cut.summary()["unfinished"] == 6 and cut.window[1] >= 0.3


def test_time_counts_from_the_schedule_and_lateness_is_reported() -> None:
    """A load generator that is held up reports the wait, says how late it was, and does not call the result valid."""
    load = fixed(20, 100.0, 5, 1)
    first = itertools.count()

    def held_up(ended: int) -> None:
        if next(first) == 0:
            time.sleep(0.5)  # the generator itself stands still

    measured = against(lambda body: tokens(1, 0.001), lambda target: open_loop(target, load, progress=held_up))
    late = measured.lateness
    assert 0.3 < late["late_max_s"] < 1.5 and late["late_share"] > 0.5
    assert not measured.valid and "could not keep the schedule" in (measured.problem or "")
    assert any(note.startswith("NOT VALID") for note in measured.summary().notes)
    # From the schedule, the wait before sending is part of the answer's time.
    hidden = measured.log.requests["ttft"] - measured.log_as_sent.requests["ttft"]
    assert measured.log.requests["ttft"].max() > 0.4 > measured.log_as_sent.requests["ttft"].median()
    assert hidden.max() > 0.3
    report = measured.report(url="x")
    assert not report["valid"] and len(report["requests"]) == 20 and json.dumps(report)


@pytest.mark.slow
def test_open_and_closed_loop_under_a_slow_server() -> None:
    """Twelve at once wait for nobody in an open loop; two users have two requests under way, never three."""
    under_way = 0
    most = 0

    def slow(body: dict[str, Any]) -> list[tuple[float, str]]:
        return tokens(1, 0.2)

    load = fixed(12, 100.0, 5, 1)
    opened = against(slow, lambda target: open_loop(target, load))
    sent = sorted(e.sent for e in opened.exchanges)
    assert sent[-1] < 1.0  # one after the other they would take 2.4 s
    closed = against(slow, lambda target: closed_loop(target, load, users=2))
    events = sorted([(e.sent, 1) for e in closed.exchanges] + [(e.ended, -1) for e in closed.exchanges])
    for _, change in events:
        under_way += change
        most = max(most, under_way)
    assert most == 2 and closed.window[1] > 1.1 and len(closed.exchanges) == 12
    thinking = against(slow, lambda target: closed_loop(target, load, users=12, think=0.4, stop_at=0.5, seed=3))
    assert thinking.window[1] < 3 and {e.outcome for e in thinking.exchanges} <= {"finished", "unfinished"}


def test_correction_by_arithmetic() -> None:
    """A latency of 1 s at 0.25 s between sends stands for four requests; short ones for themselves."""
    assert corrected([0.1, 1.0, np.nan], 0.25).tolist() == [0.1, 0.25, 0.5, 0.75, 1.0]
    assert corrected([0.3], 0.1).tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert corrected([], 0.1).tolist() == []
    with pytest.raises(ValueError, match="interval = 0"):
        corrected([1.0], 0)


def test_a_stall_on_paper() -> None:
    """A stall of 2 s at ten requests/s and 10 ms each: one latency for the closed user, some twenty in truth."""
    views = on_paper(0.1, 0.01, 2.0)
    bad = {name: int((seconds > 0.1).sum()) for name, seconds in views.items()}
    assert bad["closed"] == 1 and len(views["closed"]) == len(views["open"]) == 600
    # k requests come 0.1 s apart and leave 0.01 s apart: 2.01 - 0.09 k > 0.1.
    assert bad["open"] == bad["wanted"] == 22 and bad["corrected"] in (20, 21)
    assert max(views["closed"]) == pytest.approx(max(views["open"])) == pytest.approx(2.01)
    still = on_paper(0.1, 0.01, 0.0)
    assert all(np.allclose(seconds, 0.01) for seconds in still.values())
    with pytest.raises(ValueError, match="service = 1"):
        on_paper(0.1, 1.0, 0.0)


@pytest.mark.slow
def test_a_paced_user_forgets_a_stall_unless_the_wanted_times_count() -> None:
    """One answer of 0.6 s at a pace of 0.05 s: one bad latency as sent, a dozen from the wanted times."""
    count = itertools.count()

    def stalls(body: dict[str, Any]) -> list[tuple[float, str]]:
        return tokens(1, 0.6 if next(count) == 5 else 0.001)

    load = fixed(40, 20.0, 5, 1)
    measured = against(stalls, lambda target: closed_loop(target, load, users=1, pace=0.05))
    naive = measured.log_as_sent.requests["ttft"].to_numpy()
    wanted = measured.log.requests["ttft"].to_numpy()
    # A machine that is busy makes others late as well, so only the differences are told.
    assert (wanted > 0.3).sum() >= (naive > 0.3).sum() + 4
    assert (corrected(naive, 0.05) > 0.3).sum() >= (naive > 0.3).sum() + 4
    assert (wanted >= naive - 1e-9).all()


def test_arguments_are_checked() -> None:
    """Each is named."""
    with pytest.raises(ValueError, match="url = 'ftp:"):
        Target("ftp://x")
    with pytest.raises(ValueError, match="users = 0"):
        against(lambda body: tokens(1), lambda target: closed_loop(target, fixed(1), users=0))
    with pytest.raises(ValueError, match="stop_at = -1"):
        against(lambda body: tokens(1), lambda target: open_loop(target, fixed(1), stop_at=-1))
