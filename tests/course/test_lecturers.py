"""The page for lecturers: each of its worked examples runs, and each exercise that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from labcode.course import exercises, labs
from tools.exercises import exercises as listed
from tools.toc import documents, table_of_contents

TEXT = (Path(__file__).resolve().parents[2] / "book" / "lecturers.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^## Add (.+?) ·.*?^```python\n(.*?)^```", TEXT, re.M | re.S))


@pytest.fixture
def registers():
    """Take what the examples register out again."""
    exercises.exercises()
    known, made = dict(exercises._REGISTER), dict(labs._extra)
    yield
    for register, before in ((exercises._REGISTER, known), (labs._extra, made)):
        register.clear()
        register.update(before)


@pytest.mark.parametrize("name", ["a chapter", "a lab", "an exercise", "a policy", "a GPU"])
def test_example(name, registers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(BLOCKS[name], f"lecturers.md: {name}", "exec"), {})
    if name == "a chapter":
        assert documents(tmp_path) == ["15-speculation"]
        assert "book/15-speculation" in table_of_contents(documents(tmp_path))


def test_there_are_no_other_examples():
    assert set(BLOCKS) == {"a chapter", "a lab", "an exercise", "a policy", "a GPU"}
    assert TEXT.count("```python") == len(BLOCKS)


def test_exercises_of_the_schedule_exist():
    schedule = TEXT.split("## Add")[0]
    named = {one for part in re.findall(r"exercises? ([\d., ]+)", schedule) for one in re.findall(r"\d+\.\d+", part)}
    assert len(named) > 15 and named <= {one.id for one in listed()}
