"""Building tasks: the right function passes, each planted mistake is named with its case, and nothing hangs."""

from __future__ import annotations

import contextlib
import math
import re
import time

import pytest

from labcode.course import check
from labcode.course.answers.ch05 import next_batch
from labcode.course.code_tasks import Attempt, Task, judge, same
from labcode.course.exercises import building_tasks


def aimd(limit, batch, took, target):
    if took > target:
        return max(1, math.floor(0.9 * limit))
    return limit + 1 if batch >= limit else limit


def grows_when_not_full(limit, batch, took, target):
    return limit + 1 if took <= target else max(1, math.floor(0.9 * limit))


def halves(limit, batch, took, target):
    return aimd(limit, batch, took, target) if took <= target else max(1, limit // 2)


def oldest_bucket_only(waiting, edges, max_bs, max_wait, now):
    first = next_batch(waiting[:1], edges, max_bs, max_wait, now)
    return first and next_batch(waiting, edges, max_bs, max_wait, now)


def test_right_functions_pass():
    assert check.code("4.build", aimd).startswith("right: all ")
    assert check.code("5.build", next_batch).startswith("right: all ")


@pytest.mark.parametrize(
    ("id", "function", "found"),
    [
        ("4.build", grows_when_not_full, r"not yet: grows_when_not_full\(9, 4, 0.01, 0.02\): returned 10, expected 9"),
        ("4.build", halves, r"halves\(8, 8, 0.021, 0.02\): returned 4, expected 7"),
        ("4.build", lambda limit, batch, took, target: None, "returned None"),
        ("4.build", lambda limit: limit, "TypeError"),
        ("5.build", oldest_bucket_only, r"returned \[\], expected \[0, 2\]"),
    ],
)
def test_a_mistake_is_named_with_its_case(id, function, found):
    assert re.search(found, check.code(id, function))


def test_every_task_fails_for_a_function_that_does_nothing():
    for id, known in building_tasks().items():
        assert known.question
        assert check.code(id, lambda *args, **named: None).startswith("not yet"), id


def test_a_loop_without_end_is_a_finding():
    def never(limit, batch, took, target):
        while True:
            with contextlib.suppress(Exception):
                math.sqrt(2)

    quick = Task("x", building_tasks()["4.build"].test, 0.2)
    began = time.monotonic()
    assert "not done after 0.2 s" in judge(quick, never)
    assert time.monotonic() - began < 3


def test_what_is_no_function_and_no_task():
    with pytest.raises(ValueError, match="function"):
        check.code("4.build", 3)
    with pytest.raises(ValueError, match=r"4\.build"):
        check.code("99.build", aimd)


def test_what_counts_as_the_same():
    assert same(0.1 + 0.2, 0.3) and same([1, 2.0], (1, 2)) and same({"a": [1]}, {"a": [1.0]}) and same(None, None)
    assert not same(True, 1) and not same([1], [1, 2]) and not same("1", 1) and not same(None, 0)


def test_an_attempt_shows_the_arguments_as_they_were():
    attempt = Attempt(lambda queue: queue.clear())
    attempt([1, 2])
    assert attempt.case.endswith("([1, 2])") and attempt.calls == 1
