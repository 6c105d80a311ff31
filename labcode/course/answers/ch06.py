"""Answers to the exercises of chapter 6, computed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from labcode.cost.hardware import SeqWork, model, step_cost
from labcode.course.code_tasks import Attempt, task
from labcode.course.evidence.model import MIXED_STEP
from labcode.course.exercises import exercise
from labcode.model.padding import Rectangle, padded_cost

Floats = NDArray[np.float64]


def next_step() -> list[SeqWork]:
    """Return the step after the lecture's: everybody has got a token, and decodes."""
    return [SeqWork(1, work.kv_positions) for work in MIXED_STEP]


@exercise("6.1a", 0)
def useful_pairs_of_next() -> float:
    """Useful query-key pairs of the step after the lecture's."""
    return Rectangle.of(next_step()).useful_pairs


@exercise("6.1b", 0)
def padded_pairs_of_next() -> float:
    """Padded query-key pairs of the step after the lecture's."""
    return Rectangle.of(next_step()).pairs


@exercise("6.2", 0.01)
def flops_of_padding() -> float:
    """FLOPs of the lecture's step padded, for each FLOP ragged, Llama-3-8B."""
    return padded_cost("llama3-8b", "h100", MIXED_STEP).flops / step_cost("llama3-8b", "h100", MIXED_STEP).flops


@exercise("6.3", 0.01)
def context_of_equal_flops() -> float:
    """History at which a decode's attention takes as many FLOPs as its block matrices, Llama-3-8B, tokens."""
    spec = model("llama3-8b")
    return 2 * spec.matmul_params / (4 * spec.layers * spec.heads * spec.head_dim)


@exercise("6.4", 0)
def pairs_in_three_chunks() -> float:
    """Useful pairs of a 60-token prompt in chunks of 30, 20 and 10, all together."""
    return SeqWork(30).pairs + SeqWork(20, 30).pairs + SeqWork(10, 50).pairs


def attend(query: Floats, keys: Floats, values: Floats) -> Floats:
    """Return what one query, shape (D,), gets from keys and values of shape (C, D)."""
    scores = keys @ query / np.sqrt(len(query))
    weights = np.exp(scores - scores.max())
    return np.asarray(weights @ values / weights.sum())


@task("6.build", limit=10.0)
def build_ragged_attention(attempt: Attempt) -> None:
    """ragged_attention(query, key, value, pasts, lengths): each new row attends to its own request's rows, (T, D)."""
    rng = np.random.default_rng(6)
    cases = [([1], [0]), ([3], [0]), ([1], [5]), ([2, 1], [0, 4]), ([37, 9, 1, 1, 1], [0, 0, 120, 15, 64])]
    cases += [(rng.integers(1, 6, b).tolist(), rng.integers(0, 9, b).tolist()) for b in rng.integers(1, 6, 40)]
    for lengths, cached in cases:
        depth = int(rng.integers(2, 9))
        query, key, value = rng.normal(size=(3, sum(lengths), depth))
        pasts = [(rng.normal(size=(p, depth)), rng.normal(size=(p, depth))) for p in cached]
        wanted, row = np.empty_like(query), 0
        for (past_key, past_value), new in zip(pasts, lengths, strict=True):
            for i in range(new):
                seen = slice(row, row + i + 1)
                keys, values = np.concatenate([past_key, key[seen]]), np.concatenate([past_value, value[seen]])
                wanted[row + i] = attend(query[row + i], keys, values)
            row += new
        got = np.asarray(attempt(query, key, value, pasts, lengths))
        attempt.require(got.shape == wanted.shape, f"the result has shape {got.shape}, expected {wanted.shape}")
        worst = float(abs(got - wanted).max(axis=1).argmax())
        close = np.allclose(got, wanted, rtol=1e-7, atol=1e-9)
        attempt.require(close, f"row {worst:.0f} is wrong (requests have {lengths} new rows on {cached} cached ones)")
