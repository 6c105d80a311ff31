"""Answers to the exercises of chapter 6, computed."""

from __future__ import annotations

from labcode.cost.hardware import SeqWork, model, step_cost
from labcode.course.evidence.model import MIXED_STEP
from labcode.course.exercises import exercise
from labcode.model.padding import Rectangle, padded_cost


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
def pairs_in_two_chunks() -> float:
    """Useful pairs of the 37-token prompt in chunks of 20 and 17, both together."""
    return SeqWork(20).pairs + SeqWork(17, 20).pairs
