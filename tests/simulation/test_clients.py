"""Clients: output buffers that fill, streams that end with a record, retries that feed a storm."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labcode.cost import as_cost
from labcode.cost.catalogue import as_gpu, as_model
from labcode.scheduler import Budgets, Request, Scheduler, memory
from labcode.scheduler.admission import bounded_queue
from labcode.simulation.buffers import OutputBuffer, fill_time, filling
from labcode.simulation.clock import PaperClock
from labcode.simulation.retries import (
    QueueServer,
    RetryPolicy,
    lasts_for_ever,
    poisson_arrivals,
    run_retries,
)
from labcode.simulation.streams import Backpressure, StreamLoop

KIB = 1024

# Buffers -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event", [1, 64, 256, 1024])
def test_the_sources_buffer_is_full_after_eight_seconds(event):
    assert fill_time(12 * KIB, 4 * KIB, 64 * KIB) == 8.0
    time, events = filling(12 * KIB, 4 * KIB, 64 * KIB, event)
    assert time == pytest.approx(8.0, abs=1.01 * event / (12 * KIB))
    assert events * event == pytest.approx(12 * KIB * 8, abs=2 * event)


def test_a_client_that_keeps_up_never_fills_it():
    assert fill_time(4.0, 4.0, 100.0) == float("inf")
    assert filling(4 * KIB, 4 * KIB, 8 * KIB, 256, until=100.0)[0] == float("inf")


@given(st.floats(100, 1e5), st.floats(0, 0.95), st.integers(1, 512), st.integers(4, 400))
def test_fluid_and_events_agree_within_two_events(written, share, event, places):
    capacity = event * places
    fluid = fill_time(written, share * written, capacity)
    time, _ = filling(written, share * written, capacity, event, until=2 * fluid + 10)
    # The first event comes after one gap, and the last one that does not fit stands for up to an event of room.
    assert abs(time - fluid) <= 2 * event / (written * (1 - share)) + 1e-9


def test_an_event_is_acknowledged_with_its_last_byte_and_none_is_dropped():
    buffer = OutputBuffer(capacity=300, read=100, event=100)
    for _ in range(3):
        buffer.put(0.0)
    assert not buffer.room and buffer.acknowledged == 0
    with pytest.raises(ValueError, match="250 of 300 bytes"):
        buffer.put(0.5)
    assert buffer.written == 3 and buffer.acknowledged == 0
    buffer.advance(1.0)
    assert buffer.acknowledged == 1 and buffer.room
    assert buffer.falls_to(100) == pytest.approx(2.0) and OutputBuffer(300, 0).falls_to(0) == 0.0
    buffer.advance(0.5)  # time does not run back
    assert buffer.now == 1.0


@pytest.mark.parametrize(
    ("arguments", "word"), [((10, 1, 11), "capacity"), ((10, -1, 1), "read"), ((10, 1, 0), "event")]
)
def test_a_buffer_refuses_what_it_cannot_be(arguments, word):
    with pytest.raises(ValueError, match=word):
        OutputBuffer(*arguments)


# Streams -------------------------------------------------------------------------------------------------------------


def streams(policy, read, n=6, output=400, places=4, gap=0.5, checks=()):
    """Serve n equal requests; return the loop after its run."""
    requests = [Request(i, 100, output, gap * i) for i in range(n)]
    engine = Scheduler(memory("declared", 10_000), budgets=Budgets(places), checks=checks)
    clock = PaperClock([output] * n, as_cost("paper", as_model("llama3-8b"), as_gpu("a100-80")))
    loop = StreamLoop(engine, requests, clock, read, policy)
    loop.run()
    return loop


FAST, SLOW = 1e6, 4 * KIB


def test_readers_that_keep_up_get_everything_and_nobody_is_paused():
    loop = streams(Backpressure("pause", 64 * KIB), [FAST] * 6)
    assert [stream.outcome for stream in loop.run_.streams] == ["complete"] * 6
    assert all(stream.acknowledged == stream.events == 400 for stream in loop.run_.streams)
    assert all(stream.paused == 0 for stream in loop.run_.streams)


def test_a_pause_bounds_the_buffer_and_loses_nothing():
    free = streams(Backpressure("buffer"), [SLOW] + [FAST] * 5)
    held = streams(Backpressure("pause", 8 * KIB), [SLOW] + [FAST] * 5)
    assert free.run_.streams[0].buffer.peak > 60 * KIB
    assert held.run_.streams[0].buffer.peak <= 8 * KIB + 1
    assert held.run_.streams[0].paused > 1
    for loop in (free, held):
        assert loop.run_.streams[0].outcome == "complete" and loop.run_.streams[0].acknowledged == 400
        # 400 events of 256 bytes at 4 KiB/s: the client's own pace decides when it has everything.
        assert loop.run_.streams[0].ended == pytest.approx(25.0, abs=0.3)


def test_patience_ends_a_stream_and_gives_back_what_it_held():
    loop = streams(Backpressure("pause", 8 * KIB, patience=3.0), [0.0] + [FAST] * 5)
    first = loop.run_.streams[0]
    assert first.outcome == "cancelled" and first.events == 32 and first.acknowledged == 0
    assert "does not keep up" in first.reason and first.paused == pytest.approx(3.0, abs=0.02)
    assert not loop.scheduler.running and loop.scheduler.memory.reserved == 0
    assert any("event 0 of 32 acknowledged" in word for _, number, word in loop.run_.log if number == 0)


def test_an_answer_that_is_not_fetched_is_never_called_complete():
    loop = streams(Backpressure("buffer", patience=2.0), [SLOW] + [FAST] * 5)
    first = loop.run_.streams[0]
    assert first.outcome == "cut" and first.events == 400 and 0 < first.acknowledged < 400
    assert first.ended == pytest.approx(first.generated_at + 2.0, abs=0.02)


def test_cancelling_at_once_ends_at_the_first_full_buffer():
    loop = streams(Backpressure("cancel", 8 * KIB), [0.0] + [FAST] * 5)
    assert loop.run_.streams[0].outcome == "cancelled" and loop.run_.streams[0].paused == 0


def test_paused_requests_hold_their_places_up_to_the_door():
    """Two places, two clients that do not read: the queue fills, and a bounded one refuses."""
    policy, read = Backpressure("pause", 8 * KIB, patience=20.0), [0.0, 0.0] + [FAST] * 6
    loop = streams(policy, read, n=8, places=2, checks=(bounded_queue(3),))
    outcomes = [stream.outcome for stream in loop.run_.streams]
    assert outcomes == ["cancelled"] * 2 + ["complete"] * 3 + ["refused"] * 3
    assert loop.run_.streams[2].ended > 20


def test_a_client_that_never_reads_does_not_hang_the_run():
    loop = streams(Backpressure("pause", 8 * KIB), [0.0] + [FAST] * 5)
    assert loop.run_.streams[0].outcome == "cut" and "stopped reading" in loop.run_.streams[0].reason
    assert not loop.scheduler.running


def test_pages_are_refused_since_they_preempt():
    engine = Scheduler(memory("paged:16", 10_000))
    clock = PaperClock([], as_cost("paper", as_model("llama3-8b"), as_gpu("h100")))
    with pytest.raises(ValueError, match="preempt"):
        StreamLoop(engine, [], clock, [], Backpressure())


# Retries -------------------------------------------------------------------------------------------------------------

SERVER = {"rate": 20.0, "slow_from": 20.0, "slow_for": 10.0, "slow_to": 0.2}
HORIZON = 120.0


def storm(seed=0, load=14.0, server=None, **policy):
    """Run clients who wait 2 s before a server of 20 requests/s that is slow for ten seconds."""
    chosen = RetryPolicy(**({"timeout": 2.0, "retries": 3, "backoff": 0.5} | policy))
    arrivals = poisson_arrivals(load, HORIZON, seed)
    return run_retries(arrivals, chosen, QueueServer(**(SERVER | (server or {}))), HORIZON, seed + 1)


def test_without_a_trigger_retries_are_rare_and_nearly_all_succeed():
    run = storm(server={"slow_for": 0.0})
    assert run.success(0, 110) > 0.99 and len(run.attempts) < 1.05 * len(run.new)


@pytest.mark.parametrize("seed", range(5))
def test_a_storm_outlives_its_cause_and_a_budget_ends_it(seed):
    assert storm(seed).recovers_after(30) == float("inf")
    assert storm(seed).success(80, 110) < 0.1
    assert storm(seed, retries=0).recovers_after(30) <= 20
    assert storm(seed, budget=0.1).recovers_after(30) <= 30
    assert storm(seed, server={"drops_abandoned": True}).recovers_after(30) <= 40
    assert storm(seed, server={"queue": 20}).recovers_after(30) <= 10


def test_backing_off_with_jitter_alone_does_not_end_it():
    """It moves the retries; it does not make them fewer."""
    assert storm(backoff=1.0, jitter=True).recovers_after(30) == float("inf")


def test_what_feeds_itself_is_load_times_attempts_above_one():
    assert lasts_for_ever(0.7, 3) and not lasts_for_ever(0.7, 0.1)
    for load, lasting in ((4.0, False), (8.0, True)):  # 4 · 4 = 16 < 20 < 8 · 4 = 32
        assert lasts_for_ever(load / 20, 3) is lasting
        runs = [storm(seed, load=load, server={"slow_to": 0.02, "slow_for": 20.0}) for seed in range(3)]
        assert all((run.recovers_after(40) == float("inf")) is lasting for run in runs)


def test_jitter_flattens_the_wave_after_a_common_failure():
    """Three hundred clients at once before a queue of 20: without jitter they come back together."""

    def most_at_once(jitter):
        policy = RetryPolicy(timeout=5.0, retries=8, backoff=0.5, longest=8.0, jitter=jitter)
        run = run_retries(np.full(300, 1.0), policy, QueueServer(20.0, queue=20), 60.0, 0)
        return run.per_second(run.attempts[300:], 0.1).max() / 10, run

    together, spread = most_at_once(False)[0], most_at_once(True)[0]
    assert together > 200 and spread < 120
    assert np.isnan(most_at_once(True)[1].answered).sum() < np.isnan(most_at_once(False)[1].answered).sum()


@given(st.integers(0, 3), st.sampled_from([None, 0.0, 0.1, 1.0]), st.sampled_from([None, 3]), st.booleans())
def test_counts_add_up(retries, budget, queue, drops):
    policy = RetryPolicy(1.0, retries, 0.2, 2.0, True, budget)
    run = run_retries(poisson_arrivals(9.0, 30.0, 3), policy, QueueServer(8.0, queue, drops, 5.0, 5.0, 0.3), 30.0, 4)
    assert len(run.good) == (~np.isnan(run.answered)).sum()
    assert len(run.good) + len(run.wasted) + run.refused <= len(run.attempts)
    assert len(run.new) <= len(run.attempts) <= (1 + retries) * len(run.new)
    if budget is not None:
        assert len(run.attempts) - len(run.new) <= 10 + budget * len(run.new)
    if drops:
        assert len(run.wasted) <= len(run.good) + len(run.attempts)
    answered = ~np.isnan(run.answered)
    assert (run.answered[answered] > run.new[answered]).all()
    assert all(a <= b for times in (run.attempts, run.good, run.wasted) for a, b in itertools.pairwise(times))


def test_work_through_a_slow_time_takes_as_long_as_its_pace_says():
    server = QueueServer(1.0, slow_from=10.0, slow_for=10.0, slow_to=0.5)
    assert server.ends(0.0, 5.0) == 5.0 and server.ends(30.0, 5.0) == 35.0
    assert server.ends(8.0, 4.0) == pytest.approx(14.0)  # two at full pace, two at half
    assert server.ends(18.0, 4.0) == pytest.approx(23.0)  # one at half pace in two seconds, three at full
    assert server.ends(12.0, 1.0) == pytest.approx(14.0)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: RetryPolicy(timeout=0), "timeout"),
        (lambda: RetryPolicy(retries=-1), "retries"),
        (lambda: RetryPolicy(budget=-0.1), "budget"),
        (lambda: QueueServer(0), "rate"),
        (lambda: QueueServer(1, queue=0), "queue"),
        (lambda: QueueServer(1, slow_to=0), "slow_to"),
        (lambda: run_retries([2.0, 1.0], RetryPolicy(), QueueServer(1), 10, 0), "arrivals"),
        (lambda: run_retries([1.0], RetryPolicy(), QueueServer(1), 0, 0), "horizon"),
        (lambda: Backpressure("drop"), "action"),
        (lambda: Backpressure(capacity=10), "capacity"),
        (lambda: Backpressure(resume=1.0), "resume"),
        (lambda: Backpressure(patience=0), "patience"),
    ],
)
def test_bad_settings_are_refused_by_name(make, word):
    with pytest.raises(ValueError, match=word):
        make()
