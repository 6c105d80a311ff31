"""Answers to the exercises of chapter 9, computed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from labcode.cost.hardware import SeqWork, step_cost
from labcode.course.code_tasks import Attempt, Violation, task
from labcode.course.exercises import exercise
from labcode.experiments.intervals import t_interval
from labcode.experiments.saturation import mean_context
from labcode.results.metrics import SLO
from labcode.scheduler import Request
from labcode.simulate import simulate
from labcode.workload import chat, from_arrays

GOAL = SLO(ttft=1.0, tpot=0.050)


@cache
def mean_of(key: str, rate: float, memory: str, order: str = "fcfs") -> float:
    """Return the mean of a summary's key over ten seeds of 600 chat requests."""
    runs = [simulate(chat(600, rate, seed), memory=memory, order=order) for seed in range(10)]
    return float(np.mean([run.summary(GOAL)[key] for run in runs]))


@exercise("9.1a", 0.1, share=True)
def reserved_share() -> float:
    """Share of the pool reserved at 12 req/s with a limit of 4096."""
    return mean_of("kv_reserved_of_pool", 12.0, "max:4096")


@exercise("9.1b", 0.1)
def tokens_per_second() -> float:
    """Output tokens/s at 28 req/s with a limit of 4096."""
    return mean_of("output_tokens_per_s", 28.0, "max:4096")


@exercise("9.1c", 0.03, share=True)
def attainment() -> float:
    """Share within the SLO at 28 req/s with a limit of 4096."""
    return mean_of("slo_of_submitted", 28.0, "max:4096")


@exercise("9.2a", 0)
def order_difference() -> float:
    """Difference of mean TTFT, SJF less FCFS, at 36 req/s with 256 places, s."""
    return mean_of("ttft_mean_s", 36.0, "oracle", "sjf") - mean_of("ttft_mean_s", 36.0, "oracle")


@exercise("9.2b", 0.1)
def most_running() -> float:
    """Most sequences that run together at 36 req/s with 256 places."""
    return mean_of("most_running", 36.0, "oracle")


@exercise("9.3", 0.03)
def largest_chunk() -> float:
    """Prompt tokens that fit into a 20 ms step with 200 decodes at 600 tokens of context."""
    decodes = [SeqWork(1, 600)] * 200
    low, high = 1, 8192
    while high - low > 1:
        middle = (low + high) // 2
        fits = step_cost("llama3-8b", "h100", [SeqWork(middle), *decodes]).time <= 0.020
        low, high = (middle, high) if fits else (low, middle)
    return low


@exercise("9.4a", 0.005, share=True)
def written_of_oracle() -> float:
    """Share written of an oracle's reservation, prompt and output 1000."""
    return mean_context(from_arrays([0.0], 1000, 1000)) / 2000


@exercise("9.4b", 0.01, share=True)
def written_of_max() -> float:
    """Share written of 8192 reserved, prompt and output 1000."""
    return mean_context(from_arrays([0.0], 1000, 1000)) / 8192


@exercise("9.5a", 0.01)
def let_through() -> float:
    """Requests/s through the places of a 3,000 reservation in 300,000 tokens, at a residence of 2.5 s."""
    return (300_000 // 3000) / 2.5


@exercise("9.5b", 0.01)
def let_through_doubled() -> float:
    """The same with twice the pool and steps 1.4 times as long."""
    return (2 * 300_000 // 3000) / (2.5 * 1.4)


def probe(placebo: Callable[[Request], float]) -> None:
    """Ask a placebo for keys.

    Raises
    ------
    Violation
        If it is no placebo: changes its mind, looks at the request, or is an order in disguise.
    """
    asked = [Request(i, 10 + i, 20 + i, float(i), predicted=5.0 + i) for i in range(40)]
    keys = [float(placebo(request)) for request in asked]
    if keys != [float(placebo(request)) for request in asked]:
        raise Violation("the placebo returns another key when it is asked about the same request again")
    others = [Request(i, 900 - i, 3000 - i, 90.0 - i, predicted=700.0 - i) for i in range(40)]
    if keys != [float(placebo(request)) for request in others]:
        raise Violation("the placebo's key depends on more than the request's id")
    rising = float(np.mean(np.diff(keys) > 0))
    if len(set(keys)) < 40 or not 0.2 < rising < 0.8:
        raise Violation("the placebo's keys are not random: they follow the ids, or several requests share one")


@task("9.build", limit=10.0)
def build_trial(attempt: Attempt) -> None:
    """trial(measure, order, seeds): mean and half width of the paired differences, candidate less placebo."""
    rng = np.random.default_rng(9)
    for count in (2, 3, 5, 10):
        seeds = [int(seed) for seed in rng.integers(0, 1000, count)]
        luck = {seed: float(rng.normal(5, 3)) for seed in seeds}
        gain = {seed: float(rng.normal(-1, 0.2)) for seed in seeds}
        arms: dict[str, list[int]] = {"candidate": [], "placebo": []}

        def candidate(request: Request) -> float:
            return request.expected

        def measure(
            order: Callable[[Request], float],
            seed: int,
            candidate: Callable[[Request], float] = candidate,
            arms: dict[str, list[int]] = arms,
            luck: dict[int, float] = luck,
            gain: dict[int, float] = gain,
        ) -> float:
            if seed not in luck:
                raise Violation(f"measure was asked for seed {seed!r}, which is not among the seeds")
            arms["candidate" if order is candidate else "placebo"].append(seed)
            if order is not candidate:
                probe(order)
            return luck[seed] + (gain[seed] if order is candidate else 0.0)

        wanted = t_interval([gain[seed] for seed in seeds])
        attempt.returns((wanted.mean, wanted.half), measure, candidate, seeds)
        paired = sorted(arms["candidate"]) == sorted(arms["placebo"]) == sorted(seeds)
        attempt.require(paired, "both arms have to be measured once with each of the seeds")
