"""Answers to the exercises of appendix A1, computed."""

from __future__ import annotations

from labcode.cost.hardware import gpu, model
from labcode.course.exercises import exercise


@exercise("A1.1a", 0.02)
def ridge() -> float:
    """New tokens at which both roofs of a matrix product are equally high, on the paper A100 with 2-byte weights."""
    a100 = gpu("a100-80")
    return 2 * a100.achieved_flops / (2 * a100.achieved_bandwidth)


@exercise("A1.1b", 0.01)
def at_the_ridge() -> float:
    """How many times as long as the hard roofline says a step takes there, with exponent 2."""
    return 2 ** (1 / 2)


@exercise("A1.2", 0.02)
def cache_write() -> float:
    """Time to write the keys and values of 2,048 tokens, one layer of Llama-3-8B, at an A100's peak bandwidth, µs."""
    llama = model("llama3-8b")
    return 1e6 * 2048 * llama.kv_bytes_per_token / llama.layers / gpu("a100-80").bandwidth


@exercise("A1.3", 0.01)
def error_of_a_sum() -> float:
    """Relative error of a model that is 30 % too fast for a tenth of the time and 2 % too slow for the rest."""
    return 0.1 * -0.3 + 0.9 * 0.02
