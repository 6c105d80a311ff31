"""What chapter 11 claims in its text."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from labcode.course import check
from labcode.course.answers.ch11 import admit
from labcode.course.evidence.admission import (
    BOUND,
    COSTS,
    DEADLINE,
    ORDERS,
    burst_backlog,
    estimate_errors,
    goodput_by_bound,
    judged,
    no_after,
    overload,
    pace,
    rush,
    scale_out,
    serve,
)
from labcode.course.evidence.clients import retry_storm, slow_clients
from labcode.course.ledger import chapter_rows
from labcode.queueing.bounds import union_bound
from labcode.results.metrics import percentile
from labcode.simulation.buffers import OutputBuffer
from labcode.simulation.streams import Backpressure

BOOK = Path(__file__).resolve().parents[3] / "book"


def test_the_sources_eight_seconds_come_out_of_a_simulation(monkeypatch):
    """A client that never reads fills the buffer sooner: the row restates nothing."""

    def ours():
        return next(iter(chapter_rows.streams_and_shares()))

    assert (ours().id, ours().ours, ours().ok) == ("C09", "8", True)
    monkeypatch.setattr(OutputBuffer, "advance", lambda self, now: None)
    assert not ours().ok and float(ours().ours) == pytest.approx(16 / 3, abs=0.05)


# The estimate --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def errors():
    """Errors of ten rushes, paper clock: five to set margins by, five to try them on."""
    found = [estimate_errors("paper", rush("paper", seed, n=600)) for seed in (*range(5), *range(20, 25))]
    return found[:5], found[5:]


def test_the_estimate_is_nearly_unbiased_where_the_queue_is_long(errors):
    for each in (*errors[0], *errors[1]):
        waited = each.predicted_wait > 2
        assert waited.any()
        assert abs(each.wait[waited].mean()) < 0.25 * each.predicted_wait[waited].mean()


def test_margins_of_the_parts_cover_the_sum_at_least_as_the_union_bound_says(errors):
    fit, trial = errors
    parts = [percentile(np.concatenate([getattr(e, name) for e in fit]), 95) for name in ("wait", "service")]
    whole = percentile(np.concatenate([e.total for e in fit]), 95)
    assert whole < sum(parts)
    covered = np.mean(np.concatenate([e.total for e in trial]) <= sum(parts))
    assert covered > union_bound([0.05, 0.05])


# Early and late ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("cost", COSTS)
def test_refusing_early_wins_under_overload_whatever_a_step_costs(cost):
    for seed in range(3):
        load = overload(cost, 1.5, seed, n=1000)
        found = {p: judged(serve(p, cost, load), load) for p in ("no limit", "fail late", "bounded queue")}
        early, drop = (judged(serve(p, cost, load), load) for p in ("refuse early", "drop in the queue"))
        assert early.goodput > 1.15 * max(run.goodput for run in found.values())
        assert early.kept > 0.97 and early.wasted < 0.05 < 0.2 < found["fail late"].wasted
        # Dropping in the queue is as good in goodput; it only tells the client later.
        assert drop.goodput == pytest.approx(early.goodput, rel=0.06)
        assert 2 * early.told_after < drop.told_after < 0.6 * found["fail late"].told_after


@pytest.mark.slow
@pytest.mark.parametrize("cost", COSTS)
def test_the_bounded_queue_is_at_its_best_or_nearly(cost):
    found = goodput_by_bound(cost, seeds=(50, 51))
    assert found[BOUND] >= 0.97 * max(found.values())


@pytest.mark.slow
def test_in_longer_runs_the_gap_is_wider():
    gains = []
    for n in (1000, 3000):
        load = overload("paper", 1.5, 0, n)
        early, late = (judged(serve(p, "paper", load), load).goodput for p in ("refuse early", "fail late"))
        gains.append(early / late)
    assert gains[1] > 1.1 * gains[0]


@pytest.mark.slow
@pytest.mark.parametrize("cost", COSTS)
def test_below_the_pace_the_check_costs_a_little(cost):
    gaps = []
    for seed in range(3):
        load = overload(cost, 0.9, seed, n=1000)
        early, late = (judged(serve(p, cost, load), load) for p in ("refuse early", "fail late"))
        gaps.append(late.in_time - early.in_time)
    assert 0 < np.mean(gaps) < 0.05


def test_a_no_comes_when_the_request_is_refused_or_dropped_and_else_at_the_deadline():
    load = overload("paper", 1.5, 0, n=400)
    queue, door, late = (serve(p, "paper", load) for p in ("drop in the queue", "refuse early", "no limit"))
    told = no_after(queue, load)
    dropped = (queue.requests["outcome"] == "timed_out").to_numpy()
    assert dropped.sum() > 20 and (told[dropped] < DEADLINE).all() and (told[~dropped] == DEADLINE).all()
    assert queue.requests["admitted"][dropped].isna().all()
    refused = (door.requests["outcome"] == "refused").to_numpy()
    assert refused.any() and not no_after(door, load)[refused].any()
    assert (no_after(late, load) == DEADLINE).all()
    # Who runs when the deadline comes is ended there, as when failing late.
    assert np.nanmax(queue.requests["finished"] - load.arrival) <= DEADLINE + 1e-9


def test_another_order_takes_back_most_of_what_failing_late_loses():
    load = overload("measured", 1.5, 0, n=1000)
    late = judged(serve("fail late", "measured", load), load)
    shuffled, short = (judged(serve("fail late", "measured", load, order=order), load) for order in ORDERS.values())
    assert shuffled.goodput > 1.05 * late.goodput and shuffled.wasted < 0.5 * late.wasted
    assert short.goodput > 1.2 * late.goodput and short.told_after == pytest.approx(DEADLINE)


def test_deadlines_prefer_short_answers():
    load = overload("paper", 1.5, 0, n=600)
    run = serve("refuse early", "paper", load)
    refused = (run.requests["outcome"] == "refused").to_numpy()
    assert load.output[refused].mean() > 1.5 * load.output[~refused].mean()


# Bursts and a second GPU ---------------------------------------------------------------------------------------------


def test_a_burst_leaves_the_fluids_backlog_less_the_places_that_were_free():
    found = [burst_backlog("paper", 1.5, 30.0, seed) for seed in range(6)]
    fluid, simulated = found[0][0], np.mean([s for _, s in found])
    assert fluid == pytest.approx(0.5 * pace("paper") * 30)
    assert 0.8 * fluid < simulated < fluid
    # At the pace itself the fluid sees nothing, and the queue grows all the same.
    level = [burst_backlog("paper", 1.0, 60.0, seed)[1] for seed in range(6)]
    assert np.mean(level) > 4 and burst_backlog("paper", 1.0, 60.0, 0)[0] == 0


def test_a_loading_gpu_that_counts_makes_the_longest_wait_the_loading_time():
    for seed in range(2):
        honest, counted = (scale_out("paper", 1.5, 60.0, seed, counts, n=900) for counts in (False, True))
        assert honest.ttft.max() < 0.7 * counted.ttft.max()
        assert counted.ttft.max() > 59


# Clients -------------------------------------------------------------------------------------------------------------


def test_paused_clients_keep_their_places_and_patience_gives_them_back():
    def others(policy):
        return float(np.mean([stream.ended for stream in slow_clients(policy, 2048.0, slow=3).run_.streams[3:]]))

    free, paused = others(Backpressure("buffer")), others(Backpressure("pause"))
    patient = others(Backpressure("pause", patience=5.0))
    assert paused > free + 10 and patient < free + 2


@pytest.mark.parametrize("seed", range(3))
def test_the_storm_of_the_chapter(seed):
    assert retry_storm(0.7, 3, 10, seed=seed).recovers_after(30) == float("inf")
    assert retry_storm(0.7, 3, 10, "back-off with jitter", seed).recovers_after(30) == float("inf")
    for remedy in ("retry budget of 10 %", "server drops the abandoned", "queue of 20"):
        assert retry_storm(0.7, 3, 10, remedy, seed).recovers_after(30) <= 40, remedy
    assert retry_storm(0.2, 3, 10, seed=seed).recovers_after(30) <= 10  # 0.2 · 4 < 1


# The building task ---------------------------------------------------------------------------------------------------


def test_the_solution_in_the_chapter_passes():
    cells = json.loads((BOOK / "11-admission.ipynb").read_text(encoding="utf-8"))["cells"]
    text = "".join("".join(cell["source"]) for cell in cells if "11.build" in "".join(cell["source"]))
    names: dict = {}
    exec(re.search(r"```python\n(def admit.*?)```", text, re.S)[1], names)
    assert check.code("11.build", names["admit"]).startswith("right")


def broken(**changes):
    def own(request, engine, limits):
        parts = {"request": request, "engine": engine, "limits": limits}
        return admit(*(part | changes.get(name, {}) for name, part in parts.items()))

    return own


@pytest.mark.parametrize(
    "function",
    [
        broken(limits={"margin": 0.0}),
        broken(limits={"quota": 3}),
        broken(engine={"free": 0}),
        broken(engine={"waiting": 0}),
        broken(request={"left": None}),
        broken(limits={"prefill": 0.0}),
        lambda request, engine, limits: engine.update(promised=0) or admit(request, engine, limits),
    ],
)
def test_planted_mistakes_are_found(function):
    assert check.code("11.build", function).startswith("not yet")
