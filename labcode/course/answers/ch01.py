"""Answers to the exercises of chapter 1, computed."""

from __future__ import annotations

from labcode.cost.hardware import SeqWork, gpu, kv_capacity, model, roofline, step_cost
from labcode.course.exercises import exercise

MODEL, GPU = "llama3-8b", "h100"


@exercise("1.1", 0.01)
def gain_of_64() -> float:
    """Tokens per second at batch 64 for each at batch 1, Llama-3-8B on an H100, context 2048."""
    alone, many = (step_cost(MODEL, GPU, [SeqWork(1, 2048)] * batch).time for batch in (1, 64))
    return 64 * alone / many


@exercise("1.2", 0.01)
def ridge_batch() -> float:
    """Batch at which computing takes as long as moving bytes, if there were no history."""
    roofs = roofline(model(MODEL), gpu(GPU))
    per_sequence = roofs.linear + roofs.logits + roofs.attention - roofs.gather - roofs.move_kv
    return roofs.read_weights / per_sequence


@exercise("1.3", 0.01)
def context_of_equal_bytes() -> float:
    """Context at which 64 sequences read as many bytes of KV as of weights, tokens."""
    spec = model(MODEL)
    return spec.weight_bytes / (64 * spec.kv_bytes_per_token)


@exercise("1.4", 1e-6)
def filling_wait() -> float:
    """Mean wait until a batch of 8 has filled at 10 requests/s, s."""
    return (8 - 1) / (2 * 10)


@exercise("1.5", 0)
def largest_at_4096() -> float:
    """Sequences with 4096 cached positions that fit beside the weights, with room for the next token."""
    return float(kv_capacity(MODEL, GPU) // 4097)
