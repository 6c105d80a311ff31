"""One scheduler, two clocks: every request's tokens are those it gets alone, whoever schedules it, and however."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcode import simulate, workload
from labcode.cost import roofline as costs
from labcode.cost.hardware import gpu
from labcode.model import TINY, generate, random_model
from labcode.model.executor import ModelExecutor, random_prompts, replay
from labcode.scheduler import Preemption
from labcode.simulation.batches import BatchRules

# float64: rounding must not decide between two tokens whose scores are close.
MODEL = random_model(replace(TINY, dtype="float64"), seed=0)
SPEC = MODEL.config.spec()
PAPER = costs.paper(SPEC, "h100")
STEP = PAPER.roofs.read_weights  # about what a step takes, s

requests = st.lists(
    st.tuples(st.integers(1, 30), st.integers(1, 12), st.floats(0, 20)), min_size=1, max_size=8
)  # prompt, output, arrival in steps


def make(rows):
    rows = sorted(rows, key=lambda row: row[2])
    return workload.from_arrays(
        [at * STEP for _, _, at in rows], [prompt for prompt, _, _ in rows], [output for _, output, _ in rows]
    )


def alone(load, prompts):
    return [generate(MODEL, prompt, int(output)) for prompt, output in zip(prompts, load.output, strict=True)]


anything = dict(
    rows=requests,
    max_bs=st.integers(1, 5),
    memory=st.sampled_from(["unlimited", "oracle", "max:64", "pow2", "paged:4"]),
    capacity=st.integers(64, 150),
    order=st.sampled_from(["fcfs", "sjf", "sjf:0.7"]),
    prefill=st.sampled_from(["mixed", "prefill_first", "chunked"]),
    budget=st.integers(5, 40),
    seed=st.integers(0, 2**32 - 1),
)


@given(**anything)
@settings(max_examples=25, deadline=None)
def test_tokens_are_those_generated_alone(**case):
    serve_and_compare(**case)


@pytest.mark.slow
@given(**anything)
@settings(max_examples=300, deadline=None)
def test_tokens_are_those_generated_alone_in_many_more_cases(**case):
    serve_and_compare(**case)


def serve_and_compare(rows, max_bs, memory, capacity, order, prefill, budget, seed):
    load = make(rows)
    prompts = random_prompts(load, TINY.vocab, seed)
    executor = ModelExecutor(MODEL, prompts, PAPER, load.output.tolist())
    options = {"token_budget": budget} if prefill == "chunked" else {}
    run = simulate(load, SPEC, "h100", max_bs=max_bs, memory=memory, capacity=capacity, order=order,
                   prefill=prefill, cost=PAPER, executor=executor, **options)  # fmt: skip
    assert (run.requests["outcome"] == "finished").all()
    assert executor.outputs == alone(load, prompts)
    assert not executor._caches  # every cache given back
    # The other clock: the same engine on paper only makes the same decisions at the same times.
    paper = simulate(load, SPEC, "h100", max_bs=max_bs, memory=memory, capacity=capacity, order=order,
                     prefill=prefill, cost=PAPER, step_by_step=True, **options)  # fmt: skip
    np.testing.assert_allclose(run.requests["finished"], paper.requests["finished"], rtol=1e-9)
    # What was really computed: all new positions that the record speaks of, and no others.
    assert executor.count.tokens == run.steps["new_tokens"].sum()


@pytest.mark.parametrize("action", ["recompute", "swap"])
def test_preempted_requests_go_on_and_lose_no_token(action):
    load = workload.from_arrays([0.0] * 4, [10, 10, 10, 10], [40, 40, 40, 40])
    prompts = random_prompts(load, TINY.vocab)
    executor = ModelExecutor(MODEL, prompts, PAPER, load.output.tolist())
    run = simulate(load, SPEC, "h100", memory="paged:4", capacity=104, cost=PAPER, executor=executor,
                   preemption=Preemption(action=action))  # fmt: skip
    assert run.requests["preemptions"].sum() > 0
    assert (run.requests["recomputed_tokens"].sum() > 0) == (action == "recompute")
    assert executor.outputs == alone(load, prompts)
    assert not executor._caches and not executor._host


@given(rows=requests, max_bs=st.integers(1, 4), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_request_level_engines_replayed(rows, max_bs, seed):
    load = make(rows)
    prompts = random_prompts(load, TINY.vocab, seed)
    expected = alone(load, prompts)
    for options in (
        {"engine": "sequential"},
        {"engine": "static"},
        {
            "engine": "static",
            "batch": BatchRules(padded=True, keep_places=False, early_return=False),
        },
        {"engine": "bucketed", "batch": BatchRules(padded=True, edges=(8, 16), max_wait=3 * STEP)},
        {"engine": "continuous"},
        {"engine": "continuous", "prefill": "prefill_first", "order": "sjf"},
    ):
        run = simulate(load, SPEC, "h100", max_bs=max_bs, memory="oracle", cost=PAPER, **options)
        assert replay(run, MODEL, prompts) == expected


def test_replay_refuses_what_it_cannot_do():
    load = workload.from_arrays([0.0] * 4, [10] * 4, [40] * 4)
    prompts = random_prompts(load, TINY.vocab)
    with pytest.raises(ValueError, match="preempted"):
        replay(simulate(load, SPEC, memory="paged:4", capacity=104), MODEL, prompts)
    with pytest.raises(ValueError, match="chunks"):
        replay(simulate(load, SPEC, max_bs=4, prefill="chunked", token_budget=7), MODEL, prompts)
    with pytest.raises(ValueError, match=r"prompts\[0\]: 3 tokens given"):
        replay(simulate(load, SPEC), MODEL, [[1, 2, 3], *prompts[1:]])


def test_the_measured_clock_runs_in_real_time():
    load = workload.from_arrays([0.0, 0.0, 0.01], [10, 20, 5], [5, 8, 4])
    prompts = random_prompts(load, TINY.vocab)
    executor = ModelExecutor(MODEL, prompts, lengths=load.output.tolist())
    run = simulate(load, SPEC, gpu("h100"), executor=executor)
    assert executor.outputs == alone(load, prompts)
    assert run.requests["finished"].between(0, 60).all()
    assert (np.diff(run.steps["start"]) > 0).all()


def test_prompts_must_fit_the_workload():
    load = workload.from_arrays([0.0], [10], [5])
    with pytest.raises(ValueError, match=r"prompts\[0\]: 2 tokens given, the workload says 10"):
        simulate(load, SPEC, executor=ModelExecutor(MODEL, [[1, 2]], PAPER))
    with pytest.raises(ValueError, match=r"prompts\[0\]: nothing given"):
        simulate(load, SPEC, executor=ModelExecutor(MODEL, [], PAPER))
    with pytest.raises(ValueError, match="clock = 'sundial': known are measured"):
        ModelExecutor(MODEL, [], "sundial")
    with pytest.raises(ValueError, match="step_time"):
        ModelExecutor(MODEL, [], 3.0)  # type: ignore[arg-type]
