"""Checks of exercise answers: right, or what is off.

The answers are computed, never typed: each is a function in `labcode.course.answers`, registered under the exercise's
number, and runs the first time somebody asks.  Functions that readers build are judged by `labcode.course.code_tasks`.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from labcode.checks import non_negative, number
from labcode.course.code_tasks import Task, judge, tasks

Answer = Callable[[], float]


@dataclass(frozen=True)
class Exercise:
    """A question with a computed answer, right within a relative tolerance; a share may be given in per cent, too."""

    id: str
    answer: Answer
    tolerance: float
    share: bool = False

    @property
    def question(self) -> str:
        """What is asked for: the first line of the answer function's docstring."""
        return (self.answer.__doc__ or "").strip().split("\n")[0]


_REGISTER: dict[str, Exercise] = {}

#: Slips that are common enough to be recognised: factor between the given and the right value, and what it means.
SLIPS = {
    1e3: "a thousand times too large: milliseconds where seconds are asked for?",
    1e-3: "a thousand times too small: seconds where milliseconds are asked for?",
    1e2: "a hundred times too large: a percentage where a share is asked for?",
    1e-2: "a hundred times too small: a share where a percentage is asked for?",
    -1.0: "right but for the sign",
    2.0: "twice the right value",
    0.5: "half the right value",
}


def exercise(id: str, tolerance: float, share: bool = False) -> Callable[[Answer], Answer]:
    """Register a function as the answer to exercise `id`, right within the relative `tolerance` (0: exactly).

    Parameters
    ----------
    share : bool
        The answer is a share: 0.15 and 15 (per cent) are both right.

    Raises
    ------
    ValueError
        If the id is taken or the tolerance is negative.
    """
    tolerance = non_negative("tolerance", tolerance)

    def register(answer: Answer) -> Answer:
        if id in _REGISTER and _REGISTER[id].answer.__module__ != answer.__module__:
            raise ValueError(f"exercise {id!r} has an answer already, in {_REGISTER[id].answer.__module__}")
        _REGISTER[id] = Exercise(id, cache(answer), tolerance, share)
        return answer

    return register


@cache
def _load() -> None:
    """Import every module of answers once, so that it registers."""
    import labcode.course.answers

    for module in pkgutil.iter_modules(labcode.course.answers.__path__):
        importlib.import_module(f"labcode.course.answers.{module.name}")


def exercises() -> dict[str, Exercise]:
    """Return all registered exercises by id."""
    _load()
    return dict(sorted(_REGISTER.items()))


def building_tasks() -> dict[str, Task]:
    """Return all building tasks by id."""
    _load()
    return tasks()


def verdict(asked: Exercise, given: float) -> str:
    """Return "right", or what is off about a number that was given as the answer to `asked`.

    `book/assets/labs-exercises.js` judges by the same rules.
    """
    right = float(asked.answer())
    # Whole numbers that went through floating-point sums still have to compare equal.
    accepted = (right, 100 * right) if asked.share else (right,)
    if any(math.isclose(given, one, rel_tol=max(asked.tolerance, 1e-9), abs_tol=1e-12) for one in accepted):
        return "right"
    if right and given:
        for factor, meaning in SLIPS.items():
            if math.isclose(given, factor * right, rel_tol=max(asked.tolerance, 1e-6)):
                return f"not yet: {meaning}"
    direction = "too large" if given > right else "too small"
    return f"not yet: {direction} ({asked.question})"


class Check:
    """`check("8.3a", value)` for a number, `check.code("7.build", function)` for a function that a reader has built."""

    def __call__(self, id: str, value: float) -> str:
        """Compare an answer with the computed one and say "right", or what is off.

        Raises
        ------
        ValueError
            If there is no such exercise, or `value` is not a finite number.
        """
        known = exercises()
        if id not in known:
            raise ValueError(f"id = {id!r}: known are {', '.join(known)}")
        return verdict(known[id], number("value", value))

    def code(self, id: str, function: Callable[..., Any]) -> str:
        """Run the hidden tests of a building task on `function`: "right", or the first case that fails and why.

        Raises
        ------
        ValueError
            If there is no such task, or `function` cannot be called.
        """
        known = building_tasks()
        if id not in known:
            raise ValueError(f"id = {id!r}: known are {', '.join(known)}")
        return judge(known[id], function)


check = Check()
