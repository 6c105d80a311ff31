"""Hidden tests of chapters 1, 2, 3 and 8: the solutions pass, and each planted mistake is found."""

from __future__ import annotations

import heapq
import math

import pytest

from labcode.course import check


def decode_step(batch, context, m, weights_each=False, itself=1, larger=max):
    weights = m["weights"] * (batch if weights_each else 1)
    memory = (weights + batch * m["kv"] * (context + itself)) / m["bandwidth"]
    compute = batch * (m["flops_token"] + m["flops_pair"] * (context + itself)) / m["flops"]
    return larger(memory, compute), "compute" if compute > memory else "memory"


def attained(requests, ttft, tpot, gaps=1, finished=True, denominator=None, one_token=True):
    kept = 0
    for request in requests:
        times = request["times"]
        if not times or (finished and request["outcome"] != "finished") or times[0] - request["arrival"] > ttft:
            continue
        kept += one_token if len(times) == 1 else (times[-1] - times[0]) / (len(times) - gaps) <= tpot
    among = [r for r in requests if denominator is None or r["outcome"] == denominator]
    return kept / len(among) if among else math.nan


def waits(arrivals, services, servers, floor=0.0, shared=True):
    free, waited = [0.0] * servers, []
    for i, (arrival, service) in enumerate(zip(arrivals, services, strict=True)):
        ready = heapq.heappop(free) if shared else free[i % servers]
        start = max(arrival, ready)
        waited.append(max(start - arrival, floor) if floor is not None else ready - arrival)
        if shared:
            heapq.heappush(free, start + service)
        else:
            free[i % servers] = start + service
    return waited


def largest_rate(attained, target, first, tolerance, strict=False, most=True, hopeless=True, linear=False):
    low, high, rate = 0.0, 0.0, first
    while not (low and high):
        if attained(rate) > target if strict else attained(rate) >= target:
            low, rate = rate, 2 * rate
        elif rate <= 0.001 and hopeless:
            return 0.0, rate
        else:
            high, rate = rate, max(rate / 2, 0.001) if hopeless else rate / 2
    while high > (1 + tolerance) * low if most else high - low > tolerance:
        middle = low * (1 + tolerance / 2) if linear else math.sqrt(low * high)
        low, high = (middle, high) if attained(middle) >= target else (low, middle)
    return low, high


@pytest.mark.parametrize(
    ("id", "function"),
    [("1.build", decode_step), ("2.build", attained), ("3.build", waits), ("8.build", largest_rate)],
)
def test_the_solutions_are_right(id, function):
    assert check.code(id, function).startswith("right")


@pytest.mark.parametrize(
    ("id", "function", "options"),
    [
        ("1.build", decode_step, {"weights_each": True}),
        ("1.build", decode_step, {"itself": 0}),
        ("1.build", decode_step, {"larger": lambda a, b: a + b}),
        ("2.build", attained, {"gaps": 0}),
        ("2.build", attained, {"finished": False}),
        ("2.build", attained, {"denominator": "finished"}),
        ("2.build", attained, {"one_token": False}),
        ("3.build", waits, {"floor": None}),
        ("3.build", waits, {"shared": False}),
        ("8.build", largest_rate, {"strict": True}),
        ("8.build", largest_rate, {"most": False}),
        ("8.build", largest_rate, {"linear": True}),
    ],
)
def test_what_is_wrong_is_found(id, function, options):
    assert check.code(id, lambda *args: function(*args, **options)).startswith("not yet")
