"""The model under the engine's plans holds the keys and values that the memory manager counts, and no others."""

from dataclasses import replace

import numpy as np
import pytest

from labcode import simulate, workload
from labcode.cost import roofline as costs
from labcode.model import TINY, generate, random_model
from labcode.model.executor import ModelExecutor, random_prompts

MODEL = random_model(replace(TINY, dtype="float64"), seed=0)
SPEC = MODEL.config.spec()
PAPER = costs.paper(SPEC, "h100")


class Weighed(ModelExecutor):
    """Notes after every step how many positions the caches hold."""

    def __init__(self, *args):
        super().__init__(*args)
        self.held = []

    def execute(self, plan, start, limit, until):
        made = super().execute(plan, start, limit, until)
        self.held.append(self.cached)
        return made


@pytest.mark.parametrize("options", [{}, {"prefill": "prefill_first"}, {"prefill": "chunked", "token_budget": 7}])
def test_whoever_is_preempted_or_done_gives_the_cache_back(options):
    load = workload.from_arrays([0.0] * 4, [10, 30, 10, 10], [40, 20, 40, 40])
    prompts = random_prompts(load, TINY.vocab)
    executor = Weighed(MODEL, prompts, PAPER, load.output.tolist())
    run = simulate(load, SPEC, max_bs=4, memory="paged:4", capacity=104, cost=PAPER, executor=executor, **options)
    assert run.requests["preemptions"].sum() > 0
    ends = run.steps["end"].isin(run.requests["finished"]).to_numpy()  # the record counts them to the step's end
    held, used = np.array(executor.held), run.steps["kv_used"].to_numpy()
    np.testing.assert_array_equal(held[~ends], used[~ends])
    assert (held <= used).all() and held.max() <= 104
    assert executor.cached == 0
    assert executor.outputs == [generate(MODEL, prompt, int(n)) for prompt, n in zip(prompts, load.output)]
