"""Random workloads and policies for property tests: small, with ties, bursts and tight limits on purpose."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from labcode import workload
from labcode.cost import StepShape, linear, paper, smooth
from labcode.cost.hardware import GPUSpec, ModelSpec
from labcode.cost.measured import a100_llama3_8b

#: A model so small that a pool of a few hundred tokens is natural, on a GPU whose two roofs both bind in reach.
MODEL = ModelSpec("toy", 1e6, 4, 64, 4, 2, 16, 256, 1000, dtype_bytes=2, max_context=512)
GPU = GPUSpec("toy", flops=2e12, bandwidth=1e11, memory=1e9)


class Quadratic:
    """A cost model of a reader's own: only the one method, nothing the engine could look into."""

    def step_time(self, shape: StepShape) -> float:
        return 1e-3 + 1e-6 * shape.new**1.5 + 1e-8 * shape.kv


COSTS = {
    "paper": paper(MODEL, GPU),
    "smooth": smooth(MODEL, GPU, 1.7),
    "linear": linear(1e-3, 1e-4),
    "measured": a100_llama3_8b(),
    "own": Quadratic(),
}


@st.composite
def loads(draw, most: int = 40):
    """Draw a workload: arrivals on a coarse grid (ties and simultaneous events) or at random."""
    n = draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    if draw(st.booleans()):
        arrival = np.sort(rng.integers(0, draw(st.sampled_from([1, 10, 100])), n)) * 1e-3
    else:
        arrival = np.cumsum(rng.exponential(draw(st.sampled_from([1e-4, 2e-3, 5e-2])), n))
    longest = draw(st.sampled_from([1, 3, 40, 200]))
    return workload.from_arrays(arrival, rng.integers(1, longest + 1, n), rng.integers(1, longest + 1, n))


def options(memories=("max:256", "pow2", "oracle", "unlimited", "paged", "paged:3"), costs=tuple(COSTS)):
    """Draw options of `simulate` for the continuous engine."""

    def build(memory, max_bs, order, prefill, cost, capacity, extra):
        built = dict(
            model=MODEL,
            gpu=GPU,
            memory=memory,
            max_bs=max_bs,
            order=order,
            prefill=prefill,
            cost=COSTS[cost],
            capacity=capacity,
        )
        if prefill == "chunked":
            built["token_budget"] = max_bs + extra
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
    )
