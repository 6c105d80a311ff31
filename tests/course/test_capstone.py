"""The capstone: scored by first come, first served, by the example, and by schedulers that cheat and are caught."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace as changed

import numpy as np
import pytest

from labcode import simulate, workload
from labcode.course import capstone
from labcode.course.capstone import CAPACITY, PLACES, Card, Score, example, fcfs, judge, serve, workloads
from labcode.course.score_cards import collect, main
from labcode.scheduler import Budgets, Scheduler
from labcode.scheduler.kv_cache import Paged
from labcode.scheduler.states import State
from tests.simulation.test_leap_equals_step import TIMES


@pytest.fixture(scope="module")
def card() -> Card:
    return judge(example, "example")


def small(n: int = 40):
    return changed(workload.chat(n=n, rate=20.0, seed=1), tenant=np.resize(["a", "b"], n))


def test_the_audit_changes_nothing():
    load = workloads()["bursts"]
    audited = serve(fcfs, load)
    plain = simulate(
        load,
        "llama3-8b",
        "a100-40",
        capacity=CAPACITY,
        memory="paged:16",
        watermark=0.01,
        max_bs=PLACES,
        step_by_step=True,
    )
    for name in TIMES:
        np.testing.assert_allclose(getattr(audited.record, name), getattr(plain.record, name), rtol=1e-9)
    assert audited.record.preemptions.sum() > 0, "the memory runs out, or there is nothing to decide"


@pytest.mark.slow
def test_the_example_beats_first_come_first_served_on_all_three(card, tmp_path):
    assert card.violation == ""
    assert card.beats_fcfs
    assert len(card.scores) == 3
    assert "hidden" in card.scores
    saved = json.loads(card.save(tmp_path / "card.json").read_text(encoding="utf-8"))
    assert saved["beats_fcfs"] is True
    assert set(saved["scores"]["chat"]) == {"example", "fcfs", "declared", "shortest"}
    assert "Gave up" in saved["traded"]
    figure = card.plot()
    assert len(figure.axes) == 4
    assert "won" in figure.get_suptitle()
    assert card.table().shape == (12, 4)


@pytest.mark.slow
def test_first_come_first_served_beats_itself_nowhere(card):
    mine = judge(fcfs, "mine")
    assert mine.violation == ""
    assert not mine.beats_fcfs
    for each in mine.scores.values():
        assert each["mine"] == each["fcfs"]


class FreesBlocks(Scheduler):
    """Gives back what running requests hold, to let more in."""

    def schedule(self, now):
        plan = super().schedule(now)
        for number in list(self.running)[4:]:
            self.memory.pool.give_back(number)
            self.memory.pool.held[number] = 0
        return plan


class MarksWork(Scheduler):
    """Writes down tokens that no step gave."""

    def schedule(self, now):
        for state in self.running.values():
            if state.state is State.DECODING:
                state.generated += 1
                state.computed += 1
        return super().schedule(now)


class SkipsPrefill(Scheduler):
    """Says that prompts are computed that are not."""

    def schedule(self, now):
        for state in self.running.values():
            if state.state is State.PREFILLING:
                state.computed = state.known - 1
        return super().schedule(now)


class Overfull(Scheduler):
    """Has a pool twice as large as it may."""

    def __init__(self, capacity):
        super().__init__(Paged(2 * capacity, 16), budgets=Budgets(PLACES))


class Revives(Scheduler):
    """Lets who has finished run again."""

    def schedule(self, now):
        for state in self.requests.values():
            if state.state is State.FINISHED:
                state.state = State.REFUSED
        return super().schedule(now)


class Forgets(Scheduler):
    """Drops everybody whose turn is late."""

    def schedule(self, now):
        plan = super().schedule(now)
        for number, state in list(self.requests.items()):
            if state.state is State.FINISHED:
                del self.requests[number]
        return plan


class Twice(Scheduler):
    """Decodes everybody twice a step."""

    def schedule(self, now):
        plan = super().schedule(now)
        return changed(plan, decode=plan.decode + plan.decode)


def paged(kind, **budgets):
    return lambda capacity: kind(Paged(capacity, 16), budgets=Budgets(PLACES, **budgets))


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (paged(FreesBlocks), "blocks"),
        (paged(MarksWork), "the plans that were carried out gave it"),
        (paged(SkipsPrefill, prefill="chunked", token_budget=256), "the plans that were carried out gave it"),
        (Overfull, "positions would be written, the pool has"),
        (paged(Revives), "had ended as finished and is refused now"),
        (paged(Forgets), "KeyError|forgotten"),
        (paged(Twice), "has a request twice"),
        (lambda capacity: "none", "a fresh Scheduler"),
    ],
)
def test_a_cheat_is_caught(build, said, monkeypatch):
    crowded = changed(workload.chat(n=600, rate=1000.0, seed=2), tenant=np.resize(["a", "b"], 600))
    monkeypatch.setattr(capstone, "workloads", lambda: {"crowd": crowded})
    found = judge(build, "cheat")
    assert found.violation.startswith("crowd: ")
    assert any(word in found.violation for word in said.split("|")), found.violation
    assert not found.beats_fcfs
    assert "Not scored" in found.traded()


def test_more_places_than_there_are(monkeypatch):
    short = changed(workload.fixed(n=400, rate=1e5, prompt=16, output=16), tenant=np.resize(["a", "b"], 400))
    short = changed(short, max_tokens=short.output)
    monkeypatch.setattr(capstone, "workloads", lambda: {"short": short})
    found = judge(lambda capacity: Scheduler(Paged(capacity, 16), budgets=Budgets(2 * PLACES)), "many")
    assert "there are 256 places" in found.violation
    assert judge(paged(Scheduler), "few").violation == ""


def test_a_violation_comes_with_its_trace(monkeypatch):
    monkeypatch.setattr(capstone, "workloads", lambda: {"small": small()})
    assert "The last steps:\n  0." in judge(paged(MarksWork), "cheat").violation


class Stuck(Scheduler):
    def schedule(self, now):
        while True:
            now += 1


def test_a_scheduler_without_end_is_ended(monkeypatch):
    monkeypatch.setattr(capstone, "workloads", lambda: {"small": small()})
    began = time.monotonic()
    found = judge(paged(Stuck), "stuck", limit=0.5)
    assert "not done after 0.5 s" in found.violation
    assert time.monotonic() - began < 10


def test_requests_carry_no_future():
    seen = []

    def spy(request):
        seen.append(request)
        return request.arrival

    load = workloads()["chat"]
    serve(lambda capacity: Scheduler(Paged(capacity, 16), spy, Budgets(PLACES)), load)
    lengths = {request.id: request for request in seen}
    limits = np.array([lengths[i].max_tokens for i in range(len(load))])
    predicted = np.array([lengths[i].predicted for i in range(len(load))])
    assert (limits != load.output).mean() > 0.9
    assert (np.abs(predicted / load.output - 1) > 0.05).mean() > 0.8


def test_the_words_name_what_was_traded():
    base, mine = Score(2.0, 1.0, 0.5, 100), Score(3.0, 2.0, 0.5, 100)
    said = Card("mine", {"chat": {"mine": mine, "fcfs": base}}).traded()
    assert said == "chat: won goodput (requests/s) 2 -> 3. Gave up P99 TTFT (s) 1 -> 2."


@pytest.mark.parametrize("arguments", [("no function",), (fcfs, "fcfs")])
def test_bad_input_is_refused(arguments):
    with pytest.raises(ValueError, match=r"build|name"):
        judge(*arguments)


class Drops(Scheduler):
    """Lets every third request vanish: no refusal, no place, no end."""

    def add(self, request, now):
        return None if request.id % 3 == 2 else super().add(request, now)


def of_the_future(request):
    """Finds the executor, which alone knows, among those who called."""
    frame = sys._getframe()
    while frame is not None:
        executor = getattr(frame.f_locals.get("self"), "executor", None)
        if executor is not None:
            return executor.output[request.id]
        frame = frame.f_back
    raise AssertionError("nobody to ask")


def clairvoyant(capacity):
    return Scheduler(Paged(capacity, 16, 0.01), of_the_future, Budgets(8))


def test_who_drops_requests_is_caught(monkeypatch):
    monkeypatch.setattr(capstone, "workloads", lambda: {"small": small()})
    assert "has forgotten 13 requests" in judge(paged(Drops), "drops").violation


def test_who_reads_the_future_is_caught(monkeypatch):
    monkeypatch.setattr(capstone, "workloads", lambda: {"small": small(80)})
    found = judge(clairvoyant, "oracle")
    assert "decides by what has not happened yet" in found.violation
    assert not found.beats_fcfs
    honest = judge(lambda capacity: Scheduler(Paged(capacity, 16, 0.01), lambda r: r.expected, Budgets(8)), "honest")
    assert honest.violation == "", "a prediction is not the future"


def test_cards_are_collected(card, tmp_path, capsys):
    (tmp_path / "late").mkdir()
    card.save(tmp_path / "late" / "ada.json")
    Card("mine", {}, "chat: standstill.  The last steps:\n  none yet").save(tmp_path / "ben.json")
    (tmp_path / "cleo.json").write_text("{", encoding="utf-8")
    (tmp_path / "dan.json").write_text('{"name": "dan"}', encoding="utf-8")
    table = collect(tmp_path)
    assert table.index[0] == "late/ada.json"
    assert table["beats FCFS"].tolist() == [True, False, False, False]
    assert table.loc["late/ada.json", "goodput, hidden (FCFS = 1)"] > 1
    assert table.loc["ben.json", "what was wrong"] == "chat: standstill.  The last steps:"
    assert "cannot be read" in table.loc["cleo.json", "what was wrong"]
    assert "'beats_fcfs' is missing" in table.loc["dan.json", "what was wrong"]
    assert main([str(tmp_path)]) == 0
    assert "late/ada.json" in capsys.readouterr().out
    assert main([str(tmp_path / "nowhere")]) == 2
    assert "nowhere" in capsys.readouterr().out


def test_a_card_holds_the_code_it_judged(card):
    assert "def example" in card.source
