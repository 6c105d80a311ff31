"""Checks of arguments: each names the argument, the value and what is allowed, before any work is done."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real


def number(name: str, value: float) -> float:
    """Return `value` as a float if it is a finite real number.

    Raises
    ------
    ValueError
        If `value` is not a number, is a bool, NaN or infinite.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name} = {value!r}: a number is needed")
    try:
        result = float(value)
    except OverflowError:
        raise ValueError(f"{name}: a finite number is needed, this one is larger than any float") from None
    if not math.isfinite(result):
        raise ValueError(f"{name} = {value!r}: a finite number is needed")
    return result


def positive(name: str, value: float) -> float:
    """Return `value` as a float if it is finite and above zero; raise `ValueError` otherwise."""
    result = number(name, value)
    if result <= 0:
        raise ValueError(f"{name} = {value!r}: must be above 0")
    return result


def non_negative(name: str, value: float) -> float:
    """Return `value` as a float if it is finite and not below zero; raise `ValueError` otherwise."""
    result = number(name, value)
    if result < 0:
        raise ValueError(f"{name} = {value!r}: must be at least 0")
    return result


def fraction(name: str, value: float) -> float:
    """Return `value` as a float if it lies in (0, 1]; raise `ValueError` otherwise."""
    result = number(name, value)
    if not 0 < result <= 1:
        raise ValueError(f"{name} = {value!r}: must lie in (0, 1]")
    return result


def integer(name: str, value: int, at_least: int = 1, at_most: int | None = None) -> int:
    """Return `value` as an int if it is a whole number within the bounds; raise `ValueError` otherwise."""
    whole = isinstance(value, Integral) or (isinstance(value, Real) and float(value).is_integer())
    if isinstance(value, bool) or not whole:
        raise ValueError(f"{name} = {value!r}: a whole number is needed")
    result = int(value)
    if result < at_least or (at_most is not None and result > at_most):
        upper = "" if at_most is None else f" and at most {at_most}"
        raise ValueError(f"{name} = {value!r}: must be at least {at_least}{upper}")
    return result


def one_of(name: str, value: object, allowed: Iterable[object]) -> object:
    """Return `value` if it is among `allowed`; raise a `ValueError` that lists the known ones otherwise."""
    known = list(allowed)
    if value not in known:
        raise ValueError(f"{name} = {value!r}: known are {', '.join(map(str, known))}")
    return value
