"""Answers to the exercises of chapter 1, computed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from labcode.cost.hardware import SeqWork, gpu, kv_capacity, model, roofline, step_cost
from labcode.course.code_tasks import Attempt, task
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
    """Mean wait until a batch of 16 has filled at 5 requests/s, s."""
    return (16 - 1) / (2 * 5)


@exercise("1.5", 0)
def largest_at_4096() -> float:
    """Sequences with 4096 cached positions that fit beside the weights, with room for the next token."""
    return float(kv_capacity(MODEL, GPU) // 4097)


def decode_step(batch: int, context: int, m: Mapping[str, float]) -> tuple[float, str]:
    """Return the seconds of a decode step by equation (1.1), and the roof that decides, "memory" or "compute"."""
    memory = (m["weights"] + batch * m["kv"] * (context + 1)) / m["bandwidth"]
    compute = batch * (m["flops_token"] + m["flops_pair"] * (context + 1)) / m["flops"]
    return max(memory, compute), "compute" if compute > memory else "memory"


@task("1.build", limit=5.0)
def build_decode_step(attempt: Attempt) -> None:
    """decode_step(batch, context, m): seconds of a decode step, and the roof that decides."""
    even = {"weights": 90.0, "kv": 1.0, "bandwidth": 10.0, "flops_token": 4.0, "flops_pair": 1.0, "flops": 5.0}
    attempt.returns((10.0, "memory"), 1, 9, even)  # 90 + 10 bytes against 14 FLOPs
    attempt.returns((15.0, "memory"), 3, 19, even)  # 90 + 60 bytes; 72 FLOPs take 14.4 s
    attempt.returns((28.0, "compute"), 10, 9, even)  # the weights are read once, not ten times
    attempt.returns((10.0, "memory"), 10, 0, even | {"flops_token": 4.0})  # both take 10 s: the memory decides
    rng = np.random.default_rng(1)
    for _ in range(60):
        m = {name: float(10 ** rng.uniform(0, 3)) for name in even}
        batch, context = int(rng.integers(1, 300)), int(rng.integers(0, 5000))
        attempt.returns(decode_step(batch, context, m), batch, context, dict(m))
    llama, card = model(MODEL), gpu(GPU)
    roofs = roofline(llama, card)
    m = {"weights": llama.weight_bytes, "kv": llama.kv_bytes_per_token, "bandwidth": card.achieved_bandwidth,
         "flops_token": (roofs.linear + roofs.logits) * card.achieved_flops,
         "flops_pair": roofs.attention * card.achieved_flops, "flops": card.achieved_flops}  # fmt: skip
    seconds, roof = attempt(64, 2048, m)
    real = step_cost(MODEL, GPU, [SeqWork(1, 2048)] * 64)
    attempt.require(roof == real.bound and abs(seconds / real.time - 1) < 1e-3, f"{seconds} s, not {real.time}")
