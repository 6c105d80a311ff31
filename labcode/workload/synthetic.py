"""Synthetic workloads: chat, long context, Orca's, fixed lengths, and models of the two Azure traces.

Lengths and arrivals come from two independent streams of the seed, and arrivals are drawn at unit rate. So
the lengths of a workload do not depend on its rate or its arrival process, and `chat(n, rate, seed)` is
`chat(n, 1, seed)` with every arrival time divided by `rate`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from labcode.checks import integer, positive
from labcode.workload.arrivals import unit_arrivals
from labcode.workload.request import FloatArray, IntArray, Workload, stretched

# The lecture does not publish its generator; these four were fitted to its figures (mean of the unclipped
# distribution in tokens, sigma of the logarithm).
PROMPT_MEAN = 425.0
PROMPT_SIGMA = 0.85
OUTPUT_MEAN = 285.0
OUTPUT_SIGMA = 0.75
LONGEST = 4096  # both lengths are clipped to [1, LONGEST]

# What senders of chat and long_context ask for at most: a round number, since nobody knows how long an answer will be.
ROUND_LIMITS = (1024, LONGEST)

LONG_PROMPT_MEAN = 2048.0
LONG_OUTPUT_MEAN = 512.0

# Quantiles of the first Azure traces (2023): probability -> tokens. The lowest point extends the 1 %
# quantile.
AZURE_PROBABILITIES = (0.0, 0.01, 0.05, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99, 1.0)
AZURE_CONV_PROMPT = (29, 29, 181, 396, 1020, 1189, 2735, 4083, 4142, 14050)
AZURE_CONV_OUTPUT = (16, 16, 41, 85, 129, 395, 424, 451, 601, 1000)
AZURE_CODE_PROMPT = (17, 17, 75, 578, 1469, 2745, 5188, 7303, 7436, 7437)
AZURE_CODE_OUTPUT = (6, 6, 6, 9, 13, 24, 55, 90, 252, 1899)
AZURE_CONV_RATE = 5.53  # requests/s, gap CV 1.09: close to Poisson
AZURE_CODE_RATE = 2.57  # requests/s, gap CV 13.2: a machine's bursts


def streams(seed: int) -> tuple[np.random.Generator, np.random.Generator]:
    """Return two independent generators of a seed: one for lengths, one for arrivals."""
    lengths, arrivals = np.random.SeedSequence(integer("seed", seed, at_least=0)).spawn(2)
    return np.random.default_rng(lengths), np.random.default_rng(arrivals)


def lognormal_tokens(n: int, mean: float, sigma: float, rng: np.random.Generator, longest: int = LONGEST) -> IntArray:
    """Return `n` log-normal lengths, rounded and clipped to [1, longest].

    Parameters
    ----------
    mean : float
        Mean of the unclipped distribution, tokens: mu = ln(mean) - sigma^2/2.
    sigma : float
        Standard deviation of the logarithm.
    """
    mu = math.log(positive("mean", mean)) - positive("sigma", sigma) ** 2 / 2
    return np.clip(np.rint(rng.lognormal(mu, sigma, n)), 1, longest).astype(np.int64)


def quantile_tokens(n: int, probabilities: ArrayLike, tokens: ArrayLike, rng: np.random.Generator) -> IntArray:
    """Return `n` lengths drawn by inverting a distribution function known only at a few quantiles.

    Between two quantiles ln(tokens) is linear in the probability. That is an interpolation and not the
    trace: the quantiles are right, what lies between them is a guess, and so are the correlation of prompt
    and output (none here) and the mean.
    """
    logarithm = np.interp(rng.random(n), np.asarray(probabilities, float), np.log(np.asarray(tokens, float)))
    return np.maximum(1, np.rint(np.exp(logarithm))).astype(np.int64)


def round_limits(output: ArrayLike) -> IntArray:
    """Return the limit on its output that each sender states: the smallest of `ROUND_LIMITS` that holds it, tokens."""
    output = np.asarray(output, dtype=np.int64)
    return np.where(output <= ROUND_LIMITS[0], *ROUND_LIMITS).astype(np.int64)


def assemble(
    name: str,
    rate: float,
    unit: FloatArray,
    prompt: ArrayLike,
    output: ArrayLike,
    max_tokens: ArrayLike | None = None,
) -> Workload:
    """Return the workload of unit-rate arrivals at `rate` requests/s."""
    limits = None if max_tokens is None else np.asarray(max_tokens)
    columns = (stretched(unit, rate), np.asarray(prompt), np.asarray(output), limits)
    return Workload(*columns, name=name, nominal_rate=rate, unit_arrival=unit)


def chat(n: int = 600, rate: float = 1.0, seed: int = 0, *, arrivals: str = "poisson") -> Workload:
    """Return a chat workload: log-normal lengths, fitted to the lecture's figures.

    Senders state a round limit on the output, 1024 or 4096 tokens, whichever holds it; only ``memory="declared"``
    goes by that.

    Parameters
    ----------
    n : int
        Number of requests, at least 1.
    rate : float
        Mean arrival rate, requests/s, above 0.
    seed : int
        Same seed, same requests.
    arrivals : str
        "poisson", "gamma:BURSTINESS", "on_off:SHARE:BURST" or "deterministic"; see `arrivals.unit_arrivals`.

    Raises
    ------
    ValueError
        If an argument is out of its range.
    """
    n, rate = integer("n", n), positive("rate", rate)
    lengths, gaps = streams(seed)
    unit = unit_arrivals(arrivals, n, gaps)
    prompt = lognormal_tokens(n, PROMPT_MEAN, PROMPT_SIGMA, lengths)
    output = lognormal_tokens(n, OUTPUT_MEAN, OUTPUT_SIGMA, lengths)
    return assemble("chat", rate, unit, prompt, output, round_limits(output))


def long_context(n: int = 600, rate: float = 1.0, seed: int = 0, *, arrivals: str = "poisson") -> Workload:
    """Return a workload of long prompts: the shape of `chat`, prompt mean 2048 and output mean 512 tokens.

    Clipping at 4096 takes something off the mean of the prompts. Arguments and limits as for `chat`.
    """
    n, rate = integer("n", n), positive("rate", rate)
    lengths, gaps = streams(seed)
    unit = unit_arrivals(arrivals, n, gaps)
    prompt = lognormal_tokens(n, LONG_PROMPT_MEAN, PROMPT_SIGMA, lengths)
    output = lognormal_tokens(n, LONG_OUTPUT_MEAN, OUTPUT_SIGMA, lengths)
    return assemble("long_context", rate, unit, prompt, output, round_limits(output))


def orca_paper(n: int = 600, rate: float = 1.0, seed: int = 0, *, arrivals: str = "poisson") -> Workload:
    """Return the workload of Orca's evaluation: prompt U(32, 512), output U(1, 128), ends included, Poisson.

    Yu et al., OSDI 2022, section 6.2: lengths are uniform, and no request ends before its length, which is the
    limit that its sender states. Arguments as for `chat`.
    """
    n, rate = integer("n", n), positive("rate", rate)
    lengths, gaps = streams(seed)
    unit = unit_arrivals(arrivals, n, gaps)
    prompt = lengths.integers(32, 512, n, endpoint=True)
    output = lengths.integers(1, 128, n, endpoint=True)
    return assemble("orca_paper", rate, unit, prompt, output, output)


def fixed(
    n: int = 600,
    rate: float = 1.0,
    prompt: int = 512,
    output: int = 128,
    seed: int = 0,
    *,
    arrivals: str = "deterministic",
) -> Workload:
    """Return `n` equal requests. With deterministic arrivals request i comes at i/rate seconds.

    Parameters
    ----------
    n, rate, seed, arrivals
        As for `chat`.
    prompt, output : int
        Tokens of every request, at least 1.
    """
    n, rate = integer("n", n), positive("rate", rate)
    prompt, output = integer("prompt", prompt), integer("output", output)
    unit = unit_arrivals(arrivals, n, streams(seed)[1])
    return assemble("fixed", rate, unit, np.full(n, prompt), np.full(n, output))


def azure_conv(n: int = 600, rate: float = AZURE_CONV_RATE, seed: int = 0, *, arrivals: str = "poisson") -> Workload:
    """Return a model of Azure's conversation trace of 2023: its quantiles, log-linear in between.

    Prompt and output are drawn independently, which the trace does not promise; use `from_file` on the trace
    itself where that matters. The trace's gaps have a CV of 1.09, so Poisson is the default. Arguments as
    for `chat`.
    """
    n, rate = integer("n", n), positive("rate", rate)
    lengths, gaps = streams(seed)
    unit = unit_arrivals(arrivals, n, gaps)
    prompt = quantile_tokens(n, AZURE_PROBABILITIES, AZURE_CONV_PROMPT, lengths)
    output = quantile_tokens(n, AZURE_PROBABILITIES, AZURE_CONV_OUTPUT, lengths)
    return assemble("azure_conv", rate, unit, prompt, output)


def azure_code(
    n: int = 600, rate: float = AZURE_CODE_RATE, seed: int = 0, *, arrivals: str = "on_off:0.27:20"
) -> Workload:
    """Return a model of Azure's code trace of 2023: its quantiles, log-linear in between, and bursts.

    In the trace 73 % of the seconds are empty, so the default source is on for 27 % of the time; that is
    milder than the trace, whose gaps have a CV of 13.2. Arguments as for `chat`.
    """
    n, rate = integer("n", n), positive("rate", rate)
    lengths, gaps = streams(seed)
    unit = unit_arrivals(arrivals, n, gaps)
    prompt = quantile_tokens(n, AZURE_PROBABILITIES, AZURE_CODE_PROMPT, lengths)
    output = quantile_tokens(n, AZURE_PROBABILITIES, AZURE_CODE_OUTPUT, lengths)
    return assemble("azure_code", rate, unit, prompt, output)


def from_arrays(
    arrival: ArrayLike,
    prompt: ArrayLike,
    output: ArrayLike,
    max_tokens: ArrayLike | None = None,
    tenant: ArrayLike | None = None,
    deadline: ArrayLike | None = None,
    name: str = "workload",
) -> Workload:
    """Return a workload of given requests.

    Parameters
    ----------
    arrival : array, shape (n,)
        Times of submission, s, at least 0 and never decreasing.
    prompt, output : array, shape (n,), or one int for all
        Tokens, at least 1.
    max_tokens, tenant, deadline : array, shape (n,), or one value for all, optional
        Declared output caps (tokens), names, absolute deadlines (s; NaN for none).
    name : str

    Raises
    ------
    ValueError
        Naming the column, the row (from 0) and what is allowed.
    """
    n = np.size(arrival)

    def column(values: ArrayLike | None) -> np.ndarray | None:
        return None if values is None else np.full(n, values) if np.ndim(values) == 0 else np.asarray(values)

    prompts, outputs = column(prompt), column(output)
    if prompts is None or outputs is None:
        raise ValueError(f"{'prompt' if prompts is None else 'output'} = None: one length a request is needed")
    return Workload(np.asarray(arrival), prompts, outputs, column(max_tokens), column(tenant), column(deadline), name)
