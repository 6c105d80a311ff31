"""Answers to the exercises of chapter 5, computed."""

from __future__ import annotations

from labcode.cost.hardware import SeqWork
from labcode.course.evidence.serving import abc_completions, utilisation
from labcode.course.exercises import exercise
from labcode.model.padding import Rectangle

ROUNDS = (0.006, 0.010)
MIXED_STEP = (SeqWork(37), SeqWork(9), SeqWork(1, 120), SeqWork(1, 15), SeqWork(1, 64))


@exercise("31.2a", 1e-3)
def static_mean() -> float:
    """Mean completion of A, B, C under static batching with early return, ms."""
    return 1000 * sum(abc_completions("early return", ROUNDS)) / 3


@exercise("31.2b", 1e-3)
def continuous_mean() -> float:
    """Mean completion of A, B, C under continuous batching, ms."""
    return 1000 * sum(abc_completions("continuous", ROUNDS)) / 3


@exercise("31.3a", 1e-3)
def linear_share() -> float:
    """Useful share of the linear layers, prompts 64, 64, 256."""
    return utilisation((64, 64, 256))["linear"]


@exercise("31.3b", 1e-3)
def attention_share() -> float:
    """Useful share of square attention, the same prompts."""
    return utilisation((64, 64, 256))["attention"]


@exercise("L4a", 0)
def useful_pairs() -> float:
    """Useful query-key pairs of the mixed step."""
    return Rectangle.of(MIXED_STEP).useful_pairs


@exercise("L4b", 0)
def padded_pairs() -> float:
    """Pairs of the padded mixed step."""
    return Rectangle.of(MIXED_STEP).pairs


@exercise("5.1", 1e-3)
def empty_seats() -> float:
    """Empty share of the seat-rounds of a static batch with outputs 10, 20, 30, 100."""
    return 1 - utilisation((10, 20, 30, 100))["linear"]
