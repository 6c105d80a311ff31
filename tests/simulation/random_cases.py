"""Random workloads and policies for property tests: small, with ties, bursts and tight limits on purpose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from labcode import workload
from labcode.cost import MeasuredCost, StepShape, linear, paper, smooth
from labcode.cost.hardware import GPUSpec, ModelSpec
from labcode.cost.measured import Grid

#: A model so small that a pool of a few hundred tokens is natural, on a GPU whose two roofs both bind in reach.
MODEL = ModelSpec("toy", 1e6, 4, 64, 4, 2, 16, 256, 1000, dtype_bytes=2, max_context=512)
GPU = GPUSpec("toy", flops=2e12, bandwidth=1e11, memory=1e9)


class Quadratic:
    """A cost model of a reader's own: only the one method, nothing the engine could look into."""

    def step_time(self, shape: StepShape) -> float:
        return 1e-3 + 1e-6 * shape.new**1.5 + 1e-8 * shape.kv


def tables() -> MeasuredCost:
    """Return measured tables of a toy: uneven steps, so that a mistake in what is looked up shows."""
    tokens, context = np.array([1.0, 8, 64, 512]), np.array([0.0, 64, 512])
    return MeasuredCost(
        tokens,
        1e-3 + 2e-6 * tokens**1.2,
        Grid(tokens, context, 1e-4 + 1e-8 * np.outer(tokens, context + 10)),
        Grid(tokens, context, 2e-4 + 3e-8 * np.outer(tokens**1.5, context**0.5 + 5)),
    )


COSTS = {
    "paper": paper(MODEL, GPU),
    "smooth": smooth(MODEL, GPU, 1.7),
    "linear": linear(1e-3, 1e-4),
    "own": Quadratic(),
    "tables": tables(),
}
COMPILED_COSTS = ("paper", "smooth", "linear", "tables")
MEMORIES = ("max:256", "pow2", "oracle", "unlimited", "paged", "paged:3", "paged:1")
COMPILED_MEMORIES = (*MEMORIES, "declared")
ALL_MEMORIES = (*COMPILED_MEMORIES, "predicted", "pow2 wrong")


@st.composite
def loads(draw, most: int = 40, people: bool = False, declared: bool = False):
    """Draw a workload: arrivals on a coarse grid (ties and simultaneous events) or at random.

    With `people`, some have deadlines and some go away; with `declared`, senders state limits.
    """
    n = draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    if draw(st.booleans()):
        arrival = np.sort(rng.integers(0, draw(st.sampled_from([1, 10, 100])), n)) * 1e-3
    else:
        arrival = np.cumsum(rng.exponential(draw(st.sampled_from([1e-4, 2e-3, 5e-2])), n))
    longest = draw(st.sampled_from([1, 3, 40, 200]))
    output = rng.integers(1, longest + 1, n)
    load = workload.from_arrays(arrival, rng.integers(1, longest + 1, n), output)
    if declared:
        load = replace(load, max_tokens=output + rng.integers(0, longest + 1, n))
    if not people:
        return load
    patience = draw(st.sampled_from([1e-3, 2e-2, 0.5]))
    deadline = np.where(rng.random(n) < 0.5, arrival + rng.integers(0, 6, n) * patience, np.nan)
    away = np.where(rng.random(n) < 0.3, arrival + rng.exponential(patience, n), np.nan)
    return replace(load, deadline=deadline, cancel_at=away)


def options(memories=MEMORIES, costs=tuple(COSTS), expire=("never",)):
    """Draw options of `simulate` for the continuous engine."""

    def build(memory, max_bs, order, prefill, cost, capacity, extra, watermark, padded, expire):
        built = dict(
            model=MODEL,
            gpu=GPU,
            memory=memory.removesuffix(" wrong"),
            max_bs=max_bs,
            order=order,
            prefill=prefill,
            cost=COSTS[cost],
            capacity=capacity,
            expire=expire,
        )
        if memory in ("predicted", "pow2 wrong"):
            built["predictor"] = "lognormal:0.7"
        if memory.startswith("paged"):
            built["watermark"] = watermark
        if prefill == "chunked" or extra:
            built["token_budget"] = max_bs + extra
        if padded and prefill != "chunked" and extra:
            built["token_budget"] = f"padded:{max_bs + extra}"
        return built

    return st.builds(
        build,
        st.sampled_from(memories),
        st.sampled_from([1, 2, 3, 8, 64]),
        st.sampled_from(["fcfs", "sjf", "sjf:0.7"]),
        st.sampled_from(["mixed", "prefill_first", "chunked"]),
        st.sampled_from(costs),
        st.sampled_from([64, 300, 900, 5000]),
        st.sampled_from([0, 1, 16, 300]),
        st.sampled_from([0.0, 0.01, 0.3]),
        st.booleans(),
        st.sampled_from(expire),
    )
