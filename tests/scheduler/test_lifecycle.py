"""Cancellation without resurrection: all interleavings, and each rule switched off is caught."""

from __future__ import annotations

import itertools
from dataclasses import fields

import pytest

from labcode.scheduler.lifecycle import (
    CANCELLED,
    ENDS,
    FINISHED,
    Rules,
    explore,
    follow,
    leaks,
    moves,
    two_requests,
    wrong,
)


def test_no_interleaving_goes_wrong():
    found = explore()
    assert found.failure == "" and found.trace == ()
    assert found.worlds > 10_000 and found.interleavings > 10**10


def test_the_count_of_interleavings_is_that_of_walking_each_of_them():
    """With one page the tree is small enough below some prefix to be walked one by one."""
    start, parties = two_requests(Rules(), 1)
    world = start
    for _ in range(10):  # let the first in line go, so that a small tree is left
        world = next(after for _, after in moves(world, parties, Rules()))

    def walk(world):
        after = [other for _, other in moves(world, parties, Rules())]
        return sum(map(walk, after)) if after else 1

    def count(world, memo):
        if world not in memo:
            after = [other for _, other in moves(world, parties, Rules())]
            memo[world] = sum(count(other, memo) for other in after) if after else 1
        return memo[world]

    assert walk(world) == count(world, {}) > 1
    assert count(start, {}) == explore(pages=1).interleavings


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("compare", "came back"),
        ("keyed", "the counter says"),
        ("stays", "a leak"),
        ("fences", "while the device works on it (step 1)"),
        ("generations", "while the device works on it (load 2)"),
    ],
)
def test_each_rule_is_needed(rule, words):
    broken = Rules(**{rule: False})
    found = explore(broken)
    assert words in found.failure and found.interleavings == 0
    # The trace is one: following it step by step ends in the same failure, and not before.
    names = tuple(name for name, _ in found.trace)
    log = follow(names, broken)[: len(names)]
    assert [name for name, _, _ in log] == list(names)
    assert [world for _, world, _ in log] == [world for _, world in found.trace]
    assert not any(fault for _, _, fault in log[:-1])
    assert (log[-1][2] or leaks(log[-1][1])) == found.failure
    # The same order of events under all rules does no harm.
    safe = follow(names)
    assert not any(fault for _, _, fault in safe) and leaks(safe[-1][1]) == ""


def test_every_rule_has_a_case():
    assert {f.name for f in fields(Rules)} == {"compare", "keyed", "stays", "fences", "generations"}


def test_double_cancel_late_completion_and_cancel_during_swap_in():
    both = follow(("cancel r0",) * 3 + ("cancel r0 again",) * 3)
    assert [w.note for _, w, _ in both[3:6]] == [
        "r0 is cancelled: read the record, change nothing",
        "nothing to do: the record says who gives back",
        "nothing to do: the record says who gives back",
    ]
    late = follow(("cancel r0", "late completion", "late completion"))
    assert late[2][1].note == "r0 is cancelled (stay 1): rejected" and late[2][1].state("r0") == CANCELLED
    swap = ("preempt r0",) * 4 + ("swap in r0",) + ("cancel r0",) * 3 + ("swap in r0",)
    log = follow(swap)
    assert log[8][1].note.endswith("r0 is cancelled: it does not run")
    assert all(not fault for _, _, fault in log) and all(page.free for page in log[-1][1].pages)
    # The report of a stay that is over does not end the next one: it must not be compared by name alone.
    back = follow(("preempt r0",) * 4 + ("swap in r0",) * 2 + ("late completion",) * 2)
    assert back[7][1].note == "r0 is running (stay 2): rejected" and back[7][1].state("r0") == "running"


def test_the_invariants_see_what_they_should():
    start, _ = two_requests()
    ended = start.to("r0", CANCELLED)
    assert "came back" in wrong(ended, ended.to("r0", "running")) and "came back" in wrong(
        ended, ended.to("r0", FINISHED)
    )
    assert wrong(start, ended) == "" and set(ENDS) == {CANCELLED, FINISHED}
    assert "has not ended" in leaks(start)
    for number, change in itertools.product(
        (0, 1), ({"references": 1}, {"free": True}, {"free": True, "holders": frozenset()})
    ):
        assert f"page {number}" in wrong(start, start.with_page(number, **change))
