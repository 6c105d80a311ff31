"""A question that the reader answers before a lab shows anything, and that the lab itself decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from labcode import checks
from labcode.labkit.panel import said

if TYPE_CHECKING:  # A lab holds a prediction, and a prediction reads a lab's result.
    from labcode.labkit.lab import Result

MOST_OPTIONS = 5


@dataclass(frozen=True)
class Verdict:
    """What a lab says of its own question: which option is right, and the sentence that shows it."""

    right: str
    why: str


@dataclass(frozen=True)
class Prediction:
    """A question with options; the answer is computed, never written down.

    Parameters
    ----------
    question : str
        Ends with a question mark.
    options : tuple of str
        Two to five answers, each once.
    right : callable
        ``right(result) -> option``: the option that the lab's own `Result` in the deciding setting bears out.
    why : callable
        ``why(result) -> str``: one sentence with the numbers that decide.
    reveal : mapping of str to value
        Controls that the lab moves when it is answered, control name -> value; the others go to their defaults.
    """

    question: str
    options: tuple[str, ...]
    right: Callable[[Result], str]
    why: Callable[[Result], str]
    reveal: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "question", said("Prediction question", self.question))
        here = f"Prediction {self.question!r}"
        if not self.question.endswith("?"):
            raise ValueError(f"{here}: a question ends with a question mark")
        options = tuple(said(f"{here}: option", option) for option in self.options)
        if not 2 <= len(options) <= MOST_OPTIONS or len(set(options)) != len(options):
            raise ValueError(f"{here}: options = {options!r}: two to {MOST_OPTIONS}, each once")
        object.__setattr__(self, "options", options)
        if not callable(self.right) or not callable(self.why):
            raise ValueError(f"{here}: right and why must be functions of a Result")
        object.__setattr__(self, "reveal", dict(self.reveal))

    def verdict(self, result: Result) -> Verdict:
        """Return the verdict on the lab's `result` in the deciding setting.

        Raises
        ------
        ValueError
            If `right` returns something that is no option; the message names the question.
        """
        right = self.right(result)
        checks.one_of(f"Prediction {self.question!r}: right", right, self.options)
        return Verdict(right, said(f"Prediction {self.question!r}: why", self.why(result)))


def graded(value: float, *steps: tuple[float, str], beyond: str) -> str:
    """Return the option of the first step whose bound lies above `value`, else `beyond`: a measured value in words."""
    return next((option for bound, option in steps if value < bound), beyond)
