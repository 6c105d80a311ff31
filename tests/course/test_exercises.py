"""Every exercise has a computed answer that `check` accepts, and wrong ones are told apart."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from labcode.course.exercise_page import chapter_of, scripts, veiled
from labcode.course.exercises import building_tasks, check, exercises

BOOK = Path(__file__).resolve().parents[2] / "book"


@pytest.mark.parametrize("id", exercises())
def test_the_computed_answer_is_right_and_others_are_not(id):
    answer = float(exercises()[id].answer())
    assert math.isfinite(answer)
    assert exercises()[id].question
    assert check(id, answer) == "right"
    assert check(id, answer * 1.37 + 0.77).startswith("not yet")
    if exercises()[id].share:
        assert check(id, 100 * answer) == "right"
    if answer:
        assert "thousand times too large" in check(id, answer * 1000)


def test_known_answers():
    assert check("2.1a", 0.45) == "right"
    assert check("2.1b", 0.03) == "right"
    assert check("2.1b", 30) == "not yet: a thousand times too large: milliseconds where seconds are asked for?"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "0.3", None])
def test_a_value_that_is_no_number(value):
    with pytest.raises(ValueError, match="value"):
        check("2.1a", value)


def test_an_unknown_exercise_lists_the_known():
    with pytest.raises(ValueError, match=r"2\.1a"):
        check("99", 1.0)


def test_every_check_in_the_book_names_an_exercise():
    asked = {id for page in BOOK.glob("*.ipynb") for id in re.findall(r'check\(\\"([^"\\]+)\\"', page.read_text())}
    assert asked and asked <= set(exercises())
    built = {
        id for page in BOOK.glob("*.ipynb") for id in re.findall(r'check\.code\(\\"([^"\\]+)\\"', page.read_text())
    }
    assert built <= set(building_tasks())


def test_the_pages_file_has_every_exercise_and_no_answer_to_read():
    files = scripts(exercises().values())
    assert set(files) == {chapter_of(id) for id in exercises()}
    for id, asked in exercises().items():
        text, answer = files[chapter_of(id)], float(asked.answer())
        assert f'"{id}": [' in text
        if len(str(answer)) > 5:
            assert str(answer) not in text.replace(asked.question, "")
    assert veiled("[1.0, 0.1, false]", "1.1") != veiled("[1.0, 0.1, false]", "1.2")
