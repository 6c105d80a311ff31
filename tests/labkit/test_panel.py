"""What panels, controls and labs accept, and that a refusal names the culprit."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labcode.course.labs import all_labs, find
from labcode.labkit.challenge import Challenge
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.words import counted, percent
from tests.labkit.demo import LAB

X, Y = Axis("Time", "s"), Axis("Size")
LINE = Series("a", "line", (1, 2), (3, math.nan))


def panel(*series: Series, marks: tuple[Mark, ...] = (), x: Axis = X, y: Axis = Y) -> Panel:
    return Panel("k", "Title", x, y, series or (LINE,), marks)


def asks(**fields: object) -> Lab:
    return dataclasses.replace(LAB, **fields)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Series("a", "line", (1, 2), (3,)), r"'a': len\(y\) = 1: must be len\(x\) = 2"),
        (lambda: Series("a", "line", (1, math.nan), (3, 4)), r"'a': x\[1\] = nan"),
        (lambda: Series("a", "line", (1, 2), (3, math.inf)), r"y\[1\] = inf"),
        (lambda: Series("a", "line", (1, 2), (3, "4")), r"y\[1\] = '4': a number"),
        (lambda: Series("a", "pie", (1,), (3,)), "kind = 'pie': known are line, step"),
        (lambda: Series("a", "line", (1,), (3,), role="red"), "role = 'red': known are ours, baseline"),
        (lambda: Series("", "line", (1,), (3,)), "Series name = ''"),
        (lambda: Series("a", "line", ("p", "q"), (3, 4)), "x of strings is for bars only"),
        (lambda: Series("a", "bar", ("p", "p"), (3, 4)), "each category once"),
        (lambda: Series("a", "band", (1,), (3,)), "y2 is needed for a band"),
        (lambda: Series("a", "line", (1,), (3,), y2=(4,)), "y2 is needed for a band"),
        (lambda: Axis(""), "Axis title = ''"),
        (lambda: Axis("t", scale="cubic"), "scale = 'cubic': known are linear, log"),
        (lambda: Axis("t", limits=(2, 1)), "low < high"),
        (lambda: Axis("t", scale="log", limits=(0, 1)), "above 0"),
        (lambda: Mark("arrow", 1, "m"), "kind = 'arrow'"),
        (lambda: Mark("hline", 1, " "), "label"),
        (lambda: Mark("hline", math.nan, "m"), "finite"),
        (lambda: Mark("point", 1, "m"), r"a point needs \(x, y\)"),
        (lambda: panel(LINE, Series("a", "step", (1,), (2,), role="alt1")), "two series are named 'a'"),
        (lambda: panel(LINE, Series("b", "step", (1,), (2,))), "would look alike"),
        (lambda: panel(y=Axis("s", scale="log"), marks=(Mark("hline", 0, "m"),)), "log axis: must be above 0"),
        (lambda: panel(Series("a", "line", (1,), (0,)), y=Axis("s", scale="log")), r"y = 0.0 on a log axis"),
        (lambda: panel(marks=(Mark("vline", "p", "m"),)), "does not fit the x"),
        (lambda: Panel("k", "T", X, Y, ()), "at least one series"),
        (lambda: Control("1a", "A", (1, 2), 1), "keyword argument"),
        (lambda: Control("a", "A", (1,), 1), "at least two"),
        (lambda: Control("a", "A", (2, 1), 1), "must ascend"),
        (lambda: Control("a", "A", (1, 2), 3), "default = 3: known are 1, 2"),
        (lambda: Control("a", "A", ("p", "p"), "p"), "each once"),
        (lambda: Result((), "h"), "at least one panel"),
        (lambda: Result((panel(), panel()), "h"), "each key once"),
        (lambda: Result((panel(),), " "), "headline"),
        (lambda: Lab("Bad Id", "t", LAB.controls, LAB.compute), "lower-case words"),
        (lambda: Lab("a", "t", (), LAB.compute), "1 to 4"),
        (lambda: Lab("a", "t", LAB.controls[:1] * 2, LAB.compute), "each name once"),
        (lambda: LAB.run(rate=3), "rate = 3: known are 2, 4"),
        (lambda: LAB.run(speed=3), "control = 'speed': known are rate, servers, order"),
        (lambda: Prediction("Why", ("a", "b"), str, str), "ends with a question mark"),
        (lambda: Prediction("Why?", ("a",), str, str), "two to 5, each once"),
        (lambda: Prediction("Why?", ("a", "a"), str, str), "two to 5, each once"),
        (lambda: Prediction("Why?", ("a", "b"), "a", str), "must be functions"),
        (lambda: Prediction("Why?", ("a", "b"), lambda r: "c", str).verdict(LAB.run()), "right = 'c': known are a, b"),
        (lambda: asks(predict="Why?"), "a Prediction is needed"),
        (lambda: asks(predict=Prediction("Why?", ("a", "b"), str, str, {"rate": 3})), "rate = 3: known are 2"),
        (lambda: asks(numbers=("guessed",)), "numbers = 'guessed': known are paper"),
        (lambda: asks(presets={"p": {"rate": 3}}), "rate = 3: known are 2"),
        (lambda: asks(presets={" ": {}}), "preset = ' '"),
        (lambda: asks(challenge="win"), "a Challenge is needed"),
        (lambda: Challenge("", lambda params, result: True), "Challenge goal = ''"),
        (lambda: Challenge("Win.", "yes"), "met must be a function"),
        (lambda: asks(scaled_by=("speed",)), "scaled_by = 'speed': known are rate"),
        (lambda: LAB.run().panel("x"), "panel = 'x': known are load"),
        (lambda: LAB.run().panels[0].curve("x"), "series = 'x': known are this setting"),
        (lambda: LINE.at(7), "x = 7: known are 1.0, 2.0"),
        (lambda: find("nothing"), "lab id = 'nothing': known are"),
    ],
)
def test_bad_input_is_refused_by_name(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_numpy_values_become_plain_ones():
    s = Series("a", "bar", np.array(["p", "q"]), np.array([1, 2]))
    assert [type(v) for v in s.x + s.y] == [str, str, float, float]
    control = Control("n", "N", np.array([1, 2]), np.int64(2))
    assert control.values == (1, 2) and type(control.default) is int


@given(st.lists(st.floats(allow_infinity=False), max_size=5))
def test_a_series_is_empty_when_it_has_gaps_only(y):
    assert Series("a", "line", range(len(y)), y).empty == all(math.isnan(v) for v in y)


def test_states_are_every_setting_once_and_the_last_control_is_fastest():
    states = list(LAB.states())
    assert len(states) == LAB.size == 20 * 3 * 2
    assert len({tuple(s.values()) for s in states}) == LAB.size
    assert [s["order"] for s in states[:3]] == ["fcfs", "sjf", "fcfs"]


def test_every_lab_is_found_by_its_id():
    labs = all_labs()
    assert len(labs) == len({lab.id for lab in labs}) > 0
    assert all(find(lab.id) is lab for lab in labs)


def test_numbers_in_words():
    assert [counted(n, "tokens") for n in (0, 1, 2)] == ["0 tokens", "1 token", "2 tokens"]
    assert counted(1, "requests/s") == "1 request/s" and counted(1, "s") == "1 s" and counted(8, "") == "8"
    assert percent(0.8241) == "82 %" and percent(0.8241, 1) == "82.4 %"
    assert Control("n", "N", (1, 2), 1, "tokens").text(1) == "1 token"


def test_a_measured_value_falls_into_one_option():
    assert [graded(v, (1, "low"), (2, "mid"), beyond="high") for v in (0.5, 1, 1.5, 2, 9)] == [
        "low", "mid", "mid", "high", "high",
    ]  # fmt: skip


def test_the_verdict_comes_from_the_deciding_state():
    assert LAB.deciding == LAB.default | {"rate": 18}
    verdict = LAB.verdict()
    assert verdict.right == "near 16 req/s" and verdict.why.endswith(LAB.run(rate=18).panel("load").text)
    assert dataclasses.replace(LAB, predict=None).verdict() is None
    moved = dataclasses.replace(LAB.predict, right=lambda result: "near 10 req/s")
    assert dataclasses.replace(LAB, predict=moved).verdict().right == "near 10 req/s"
