"""What the loop, its record and the roofline use of numpy, for single numbers and lists."""

import math

nan, inf = math.nan, math.inf
float64 = float
int8 = int32 = int64 = intp = int
str_ = str
bool_ = bool


def full(count, value, dtype=None):
    """Return a list of `count` times `value`."""
    return [value] * count


def zeros(count, dtype=None):
    """Return a list of `count` zeros."""
    return [0] * count


def array(values, dtype=None):
    """Return `values` as a list."""
    return list(values)


def isnan(value):
    """Return whether `value` is no number."""
    return value != value


def isinf(value):
    """Return whether `value` is infinite."""
    return value in (inf, -inf)


def maximum(a, b):
    """Return the larger of two numbers."""
    return a if a >= b else b


def minimum(a, b):
    """Return the smaller of two numbers."""
    return a if a <= b else b
