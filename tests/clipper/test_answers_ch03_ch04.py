"""Answers of chapters 3 and 4 against the figures that the seeds print, and against arithmetic on paper."""

import pytest

from labcode.course.exercises import check, exercises

STATED = {
    "3.1a": 6,
    "3.1b": 1.5,
    "3.1c": 0.75,
    "3.1d": 1,
    "3.2e": 1 / 6,
    "3.2f": 0.7675,
    "3.3a": 0.96,
    "3.3b": 0.99,
    "3.3c": 0.9975,
    "3.4a": 4 * 1.75 / 2 * 1.8,
    "3.4b": 4 / 2 * 1.8,
    "3.4c": 0.1 / 0.2,
    "3.4d": 10 / 0.2,
    "3.5a": 256 / (0.006 + 0.00003 * 256) / 290,
    "3.5c": 16 * 290 * 0.006 / (1 - 16 * 290 * 0.00003),
    "4.1a": 32,
    "4.1b": 32 / 0.0296,
    "4.1c": 16,
    "4.1d": 15,
    "4.2a": 61,
    "4.2b": 1.125,
    "4.2c": 140 / 200,
    "4.3a": 1 / 2,
    "4.3b": 1 / 4,
    "4.4a": 95,
    "4.5a": 22,
    "4.5b": 48,
    "4.5c": 10,
    "4.5d": 10 / 0.012,
}


@pytest.mark.parametrize("name", STATED)
def test_stated_answer_is_right_and_another_is_not(name):
    assert check(name, STATED[name]) == "right"
    assert check(name, STATED[name] * 1.3) != "right"


def test_the_fixed_point_is_close_to_the_exact_mean():
    answers = exercises()
    assert answers["3.5c"].answer() == pytest.approx(answers["3.5b"].answer(), rel=0.01)
