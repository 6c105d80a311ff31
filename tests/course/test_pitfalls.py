"""The quiz: eight questions, answers that the engine bears out, hidden until asked for, in both views."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from labcode.course import pitfalls
from labcode.labkit.quiz import Option, Question, QuizPage, quiz_widget


class Visible(HTMLParser):
    """Text outside folds."""

    def __init__(self):
        super().__init__()
        self.text, self.folds = "", 0

    def handle_starttag(self, tag, attributes):
        self.folds += tag == "details"

    def handle_endtag(self, tag):
        self.folds -= tag == "details"

    def handle_data(self, data):
        self.text += data if not self.folds else ""


def test_eight_questions_each_with_its_numbers():
    asked = pitfalls.questions()
    assert [question.id for question in asked] == list(pitfalls.EVIDENCE) and len(asked) == 8
    assert len({option.text for question in asked for option in question.options}) >= 20


def test_what_is_called_right_is_what_was_computed():
    w, s, t, p, m, o, a, e = (find() for find in pitfalls.EVIDENCE.values())
    assert w["flops"] == pytest.approx(1) and w["kv"] == pytest.approx(1) and w["weights"] > 60 and w["time"] > 30
    assert w["prompts"] < 1.05
    assert s["difference"] == 0 and s["many_ms"] > 2 * s["one_ms"]
    assert t["different"] == 0
    assert (p["useful"], p["padded"]) == (950, 22_385) and p["ratio"] > 20  # the lecture's own figures
    assert 0.22 < m["used"] / m["reserved"] < 0.38
    assert o["sjf 50"] < o["fcfs 50"] and o["sjf 99"] > o["fcfs 99"] and o["apart"] == 0
    assert a["at"] > 0.1 > 0.05 > a["below"]
    assert e["steady"] > 1.1 * e["overall"]


def test_no_answer_is_visible_before_a_choice():
    page = QuizPage(pitfalls.questions())._repr_html_()
    reader = Visible()
    reader.feed(page)
    for question in pitfalls.questions():
        assert question.claim in reader.text
        for option in question.options:
            assert option.text in reader.text and option.feedback not in reader.text
    assert "<details open" not in page and page.count("<details>") == 8


def test_buttons_in_a_kernel_say_what_belongs_to_them():
    box = quiz_widget(pitfalls.questions())
    for row, question in zip(box.children, pitfalls.questions(), strict=True):
        said = row.children[-1]
        assert said.value == ""
        for option in question.options:
            box.choices[question.id, option.text].click()
            assert said.value.startswith("<p") and ("✓ Right" in said.value) == option.right


def test_a_question_has_one_right_option():
    with pytest.raises(ValueError, match="exactly one"):
        Question("x", "claim", (Option("a", "b", True), Option("c", "d", True)), "x.html")
    with pytest.raises(ValueError, match="two to five"):
        Question("x", "claim", (Option("a", "b", True),), "x.html")
