"""What the loop, its record and the roofline use of numpy, for single numbers and lists."""

import math

nan, inf = math.nan, math.inf
float64 = float
int8 = int32 = int64 = intp = int
str_ = str
bool_ = bool


def full(count, value, dtype=None):
    return [value] * count


def zeros(count, dtype=None):
    return [0] * count


def array(values, dtype=None):
    return list(values)


def isnan(value):
    return value != value


def isinf(value):
    return value in (inf, -inf)


def maximum(a, b):
    return a if a >= b else b


def minimum(a, b):
    return a if a <= b else b
