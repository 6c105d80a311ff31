"""Building tasks: a reader's own function, run against hidden tests within a time limit.

A task is a function in `labcode.course.answers` that takes an `Attempt` (the reader's function, which remembers its
last call) and asks it things.  What does not hold is raised as a `Violation`; the reader sees the call that failed.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import numbers
import reprlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from labcode.checks import positive

_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxlist, _REPR.maxtuple, _REPR.maxdict, _REPR.maxother, _REPR.maxstring = 4, 16, 16, 16, 160, 80


class Violation(Exception):
    """What a hidden test found, in words."""


class _TimeUp(BaseException):
    """Raised inside a reader's function that runs on; not an Exception, so that `except Exception` lets it pass."""


@dataclass
class Attempt:
    """The reader's function, with its calls counted and the last one kept in words."""

    function: Callable[..., Any]
    calls: int = 0
    case: str = field(default="", init=False)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Call the function and return what it returns; the case is described before the arguments can change."""
        shown = [_REPR.repr(value) for value in args] + [f"{name}={_REPR.repr(named[name])}" for name in named]
        self.case = f"{getattr(self.function, '__name__', 'your function')}({', '.join(shown)})"
        self.calls += 1
        return self.function(*args, **named)

    def returns(self, wanted: Any, *args: Any, **named: Any) -> None:
        """Call the function; it has to return `wanted` (numbers within 1e-9, sequences item by item).

        Raises
        ------
        Violation
            If it returned something else.
        """
        got = self(*args, **named)
        if not same(got, wanted):
            raise Violation(f"returned {_REPR.repr(got)}, expected {_REPR.repr(wanted)}")

    def require(self, holds: bool, otherwise: str) -> None:
        """Hold a property of the last call.

        Raises
        ------
        Violation
            With the words `otherwise`, if it does not hold.
        """
        if not holds:
            raise Violation(otherwise)


Test = Callable[[Attempt], None]


@dataclass(frozen=True)
class Task:
    """A building task: hidden tests, and how many seconds they may take together."""

    id: str
    test: Test
    limit: float

    @property
    def question(self) -> str:
        """What is to be built: the first line of the test's docstring."""
        return (self.test.__doc__ or "").strip().split("\n")[0]


_TASKS: dict[str, Task] = {}


def task(id: str, limit: float = 10.0) -> Callable[[Test], Test]:
    """Register hidden tests under `id`; together they may take `limit` seconds.

    Raises
    ------
    ValueError
        If another module has registered the id, or the limit is not positive.
    """
    limit = positive("limit", limit)

    def register(test: Test) -> Test:
        if id in _TASKS and _TASKS[id].test.__module__ != test.__module__:
            raise ValueError(f"task {id!r} has tests already, in {_TASKS[id].test.__module__}")
        _TASKS[id] = Task(id, test, limit)
        return test

    return register


def tasks() -> dict[str, Task]:
    """Return the tasks registered so far, by id."""
    return dict(sorted(_TASKS.items()))


def same(got: Any, wanted: Any) -> bool:
    """Whether two values agree: numbers within 1e-9, sequences, arrays and mappings part by part, the rest by `==`."""
    if isinstance(wanted, bool) or isinstance(got, bool | np.bool_):  # True is a number to Python, and none to us
        return isinstance(wanted, bool) and isinstance(got, bool | np.bool_) and bool(got) == wanted
    if isinstance(wanted, numbers.Real):
        return isinstance(got, numbers.Real) and math.isclose(got, wanted, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(wanted, Mapping):
        return isinstance(got, Mapping) and got.keys() == wanted.keys() and all(same(got[k], wanted[k]) for k in wanted)
    if isinstance(wanted, Sequence | np.ndarray) and not isinstance(wanted, str):
        if not isinstance(got, Sequence | np.ndarray) or isinstance(got, str) or len(got) != len(wanted):
            return False
        return all(same(a, b) for a, b in zip(got, wanted, strict=True))
    return bool(got == wanted)


def finishes(work: Callable[[], None], limit: float) -> bool:
    """Run `work` in a thread of its own, which is ended when `limit` seconds are over; return whether it was done."""

    def run() -> None:
        with contextlib.suppress(_TimeUp):
            work()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit)
    if not thread.is_alive():
        return True
    for _ in range(20):  # a bare `except` in the reader's function may swallow some of them
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(_TimeUp))
        thread.join(0.05)
        if not thread.is_alive():
            break
    return False


def judge(known: Task, function: Callable[..., Any]) -> str:
    """Run a task's tests on `function`: "right" with the number of cases, or the first case that fails and why.

    The tests run in a thread of their own, which ends when the time is up: a loop without end is a finding and no hang.

    Raises
    ------
    ValueError
        If `function` cannot be called.
    """
    if not callable(function):
        raise ValueError(f"function = {function!r}: a function is needed (its name, without brackets)")
    attempt, found = Attempt(function), []

    def work() -> None:
        try:
            known.test(attempt)
        except Violation as violation:
            found.append(str(violation))
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")

    if not finishes(work, known.limit):
        return f"not yet: {attempt.case}: not done after {known.limit:g} s"
    if found:
        return f"not yet: {attempt.case or 'before the first call'}: {found[0]}"
    return f"right: all {attempt.calls} cases"
