"""Prompt and output lengths of the book's workloads, drawn one by one as `labcode.workload.synthetic` draws arrays.

The figures behind them are read from that module when the page is built (`FIGURES`), never typed again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from labcode.course.playground.draws import Generator
from labcode.course.playground.figures import FIGURES

KINDS = ("chat", "long_context", "orca_paper", "azure_conv", "azure_code", "fixed")


def _lognormal(count: int, mean: float, sigma: float, rng: Generator) -> list[int]:
    mu = math.log(mean) - sigma**2 / 2
    longest = FIGURES["longest"]
    return [min(longest, max(1, round(math.exp(mu + sigma * rng.normal())))) for _ in range(count)]


def _quantiles(count: int, tokens: Sequence[float], rng: Generator) -> list[int]:
    at, logs = FIGURES["probabilities"], [math.log(value) for value in tokens]
    found = []
    for _ in range(count):
        u = rng.uniform()
        j = max(k for k in range(len(at) - 1) if at[k] <= u)
        slope = (logs[j + 1] - logs[j]) / (at[j + 1] - at[j])
        found.append(max(1, round(math.exp(slope * (u - at[j]) + logs[j]))))
    return found


def drawn(
    kind: str, count: int, rng: Generator, equal: tuple[int, int] | None = None
) -> tuple[list[int], list[int], list[int] | None]:
    """Return prompts, outputs and declared limits (None if nobody declares any) of `count` requests, in tokens."""
    if kind == "fixed":
        assert equal is not None
        return [equal[0]] * count, [equal[1]] * count, None
    if kind == "orca_paper":
        prompt = [rng.integers(32, 512) for _ in range(count)]
        output = [rng.integers(1, 128) for _ in range(count)]
        return prompt, output, output
    if kind.startswith("azure"):
        return _quantiles(count, FIGURES[kind][0], rng), _quantiles(count, FIGURES[kind][1], rng), None
    (prompt_mean, prompt_sigma), (output_mean, output_sigma) = FIGURES[kind]
    prompt = _lognormal(count, prompt_mean, prompt_sigma, rng)
    output = _lognormal(count, output_mean, output_sigma, rng)
    short, long = FIGURES["round_limits"]
    return prompt, output, [short if tokens <= short else long for tokens in output]
