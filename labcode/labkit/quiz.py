"""Questions with feedback: buttons in a kernel, a list and a fold in the page that a script makes into buttons.

A page leaves each answer in a closed fold, so that it reads right without a script; ``book/assets/quiz.js`` puts
buttons in the place of the options and shows what was said to the one that was chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from labcode.labkit.view import in_page


@dataclass(frozen=True)
class Option:
    """One thing to choose, whether it is right, and what is said to whoever chose it."""

    text: str
    feedback: str
    right: bool = False


@dataclass(frozen=True)
class Question:
    """A claim, what it is asked, and two to five options of which exactly one is right.

    Parameters
    ----------
    id : str
        Part of the page's anchors and of what the browser keeps.
    claim : str
        The sentence that is to be judged.
    options : tuple of Option
    more : str
        Where to read on: a page of the book, relative.
    """

    id: str
    claim: str
    options: tuple[Option, ...]
    more: str

    def __post_init__(self) -> None:
        if not 2 <= len(self.options) <= 5 or len({option.text for option in self.options}) != len(self.options):
            raise ValueError(f"question {self.id!r}: two to five options, each once")
        if sum(option.right for option in self.options) != 1:
            raise ValueError(f"question {self.id!r}: exactly one option is right")

    @property
    def answer(self) -> Option:
        """The right option."""
        return next(option for option in self.options if option.right)


def verdict(option: Option) -> str:
    """Return what is said to whoever chose an option."""
    return f"{'✓ Right.' if option.right else '✗ Not quite.'} {option.feedback}"


class QuizPage:
    """The questions as HTML: options in a list, the answer in a closed fold, all feedback in data attributes."""

    def __init__(self, questions: tuple[Question, ...]) -> None:
        self.questions = questions

    def _repr_html_(self) -> str:
        return f'<div class="quiz">{"".join(self._one(n, q) for n, q in enumerate(self.questions, start=1))}</div>'

    def __repr__(self) -> str:
        return f"Quiz: {len(self.questions)} questions"

    @staticmethod
    def _one(number: int, question: Question) -> str:
        items = "".join(
            f'<li data-right="{str(option.right).lower()}" data-said="{escape(verdict(option), quote=True)}">'
            f"{escape(option.text)}</li>"
            for option in question.options
        )
        label = f"quiz-{question.id}"
        return (
            f'<section class="quiz-question" id="{label}" data-ask="{question.id}" aria-labelledby="{label}-claim">'
            f'<p class="quiz-claim" id="{label}-claim"><b>{number}.</b> {escape(question.claim)}</p>'
            f'<ol type="a" class="quiz-options">{items}</ol><details><summary>Answer</summary>'
            f"<p><b>{escape(question.answer.text)}</b> {escape(question.answer.feedback)}</p></details>"
            f'<p class="quiz-said" role="status" aria-live="polite"></p>'
            f'<p class="quiz-more" hidden><a href="{escape(question.more, quote=True)}">Where it is computed</a></p>'
            "</section>"
        )


def quiz_widget(questions: tuple[Question, ...]) -> Any:
    """Return the questions as ipywidgets; `choices` of the box holds the buttons by question and option."""
    import ipywidgets as widgets

    box = widgets.VBox()
    box.choices = {}
    rows: list[Any] = []
    for number, question in enumerate(questions, start=1):
        said = widgets.HTML()

        def choose(_button: Any, option: Option, said: Any = said) -> None:
            said.value = f"<p style='margin:0.2em 0 1em'>{escape(verdict(option))}</p>"

        buttons = []
        for option in question.options:
            # A button cannot break lines, so the options stand beside small buttons.
            button = widgets.Button(
                description="Choose", tooltip=option.text, layout=widgets.Layout(width="6em", flex="0 0 auto")
            )
            button.on_click(lambda b, option=option, choose=choose: choose(b, option))
            box.choices[question.id, option.text] = button
            buttons.append(widgets.HBox([button, widgets.HTML(escape(option.text))]))
        claim = widgets.HTML(f"<b>{number}. {escape(question.claim)}</b>")
        rows.append(widgets.VBox([claim, *buttons, said]))
    box.children = tuple(rows)
    return box


def show_quiz(questions: tuple[Question, ...]) -> Any:
    """Return the questions for the view that is asked for: the book's page, or a kernel."""
    return QuizPage(questions) if in_page() else quiz_widget(questions)
