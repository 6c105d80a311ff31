"""Hidden tests of chapters 6, 7 and 9: the solutions pass, and each planted mistake is found."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from labcode.course import check


def trial(measure, order, seeds, placebo=None, paired=True, ddof=1):
    placebo = placebo or (lambda request: np.random.default_rng(request.id).random())
    other = list(seeds) if paired else list(seeds)[::-1]
    gaps = [measure(order, a) - measure(placebo, b) for a, b in zip(seeds, other, strict=True)]
    half = stats.t.ppf(0.975, len(gaps) - 1) * np.std(gaps, ddof=ddof) / np.sqrt(len(gaps))
    return float(np.mean(gaps)), float(half)


def test_a_placebo_controlled_trial():
    assert check.code("9.build", trial).startswith("right")


RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"placebo": lambda request: RNG.random()}, "same request again"),
        ({"placebo": lambda request: np.random.default_rng(request.prompt).random()}, "more than the request's id"),
        ({"placebo": lambda request: float(request.id)}, "not random"),
        ({"paired": False}, "returned"),
        ({"ddof": 0}, "returned"),
    ],
)
def test_what_is_no_trial_is_found(options, why):
    said = check.code("9.build", lambda *args: trial(*args, **options))
    assert said.startswith("not yet") and why in said


def select(pool, n_rsrv, max_bs, n_slots, ask=("INITIATION",), stop=True, key=("arrival", "id"), strict=False):
    batch = []
    waiting = [request for request in pool if request["state"] != "RUNNING"]
    for request in sorted(waiting, key=lambda request: [request[k] for k in key]):
        if len(batch) == max_bs:
            break
        if request["state"] in ask:
            need = n_rsrv + request["max_tokens"]
            if need > n_slots or (strict and need == n_slots):
                if stop:
                    break
                continue
            n_rsrv = need
        batch.append(request["id"])
    return batch, n_rsrv


def test_select_of_algorithm_1():
    assert check.code("7.build", select).startswith("right")


@pytest.mark.parametrize(
    "options",
    [{"ask": ("INITIATION", "INCREMENT")}, {"stop": False}, {"key": ("id",)}, {"strict": True}],
    ids=["asks again", "skips", "not by arrival", "a slot too few"],
)
def test_what_is_no_select_is_found(options):
    assert "not yet" in check.code("7.build", lambda *args: select(*args, **options))


def test_a_select_that_changes_the_pool_is_found():
    def sorts(pool, *rest):
        result = select(pool, *rest)
        pool.sort(key=lambda request: request["arrival"])
        return result

    assert "pool was changed" in check.code("7.build", sorts)


def ragged_attention(query, key, value, pasts, lengths, shift=0, scale=True, own=True):
    parts, end = [], 0
    for (past_key, past_value), new in zip(pasts, lengths, strict=True):
        rows, end = slice(end if own else 0, end + new), end + new
        keys, values = np.concatenate([past_key, key[rows]]), np.concatenate([past_value, value[rows]])
        mine = query[end - new : end]
        scores = mine @ keys.T / (np.sqrt(query.shape[1]) if scale else 1.0)
        later = np.arange(len(keys)) > len(keys) - new + np.arange(new)[:, None] + shift
        weights = np.exp(np.where(later, -np.inf, scores))
        parts.append(weights / weights.sum(axis=1, keepdims=True) @ values)
    return np.concatenate(parts)


def test_a_ragged_step():
    assert check.code("6.build", ragged_attention).startswith("right")


@pytest.mark.parametrize("options", [{"shift": 1}, {"scale": False}, {"own": False}], ids=["peeks", "scale", "others"])
def test_what_is_no_ragged_step_is_found(options):
    said = check.code("6.build", lambda *args: ragged_attention(*args, **options))
    assert said.startswith("not yet") and "row" in said
