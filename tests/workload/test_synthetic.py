"""Synthetic workloads: lengths, seeds, rates."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcode import simulate, workload
from labcode.workload import synthetic

MODELS = {
    "chat": workload.chat,
    "long_context": workload.long_context,
    "orca_paper": workload.orca_paper,
    "azure_conv": workload.azure_conv,
    "azure_code": workload.azure_code,
}
PROCESSES = ["poisson", "gamma:0.3", "on_off", "deterministic"]


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("process", PROCESSES)
def test_rate_divides_the_arrival_times_and_changes_nothing_else(make, process):
    slow, fast = make(200, 1.0, 5, arrivals=process), make(200, 7.3, 5, arrivals=process)
    np.testing.assert_array_equal(fast.arrival, slow.arrival / 7.3)
    np.testing.assert_array_equal(fast.arrival, slow.at_rate(7.3).arrival)
    np.testing.assert_array_equal(fast.prompt, slow.prompt)
    np.testing.assert_array_equal(fast.output, slow.output)
    assert fast.rate == slow.at_rate(7.3).rate == 7.3


@given(
    rates=st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=6),
    n=st.integers(1, 50),
    seed=st.integers(0, 2**32),
)
@settings(deadline=None)
def test_a_chain_of_rates_ends_where_the_last_rate_alone_would(rates, n, seed):
    start = workload.chat(n, 3.0, seed)
    chained = start
    for rate in rates:
        chained = chained.at_rate(rate)
    np.testing.assert_array_equal(chained.arrival, start.at_rate(rates[-1]).arrival)


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_same_seed_same_requests_and_another_seed_others(make):
    a, b, c = make(300, 4.0, 1), make(300, 4.0, 1), make(300, 4.0, 2)
    np.testing.assert_array_equal(a.prompt, b.prompt)
    np.testing.assert_array_equal(a.arrival, b.arrival)
    assert not np.array_equal(a.prompt, c.prompt)
    assert not np.array_equal(a.arrival, c.arrival)


@pytest.mark.parametrize("process", PROCESSES)
def test_lengths_do_not_depend_on_the_arrival_process(process):
    np.testing.assert_array_equal(
        workload.chat(100, 2.0, 9, arrivals=process).output, workload.chat(100, 2.0, 9).output
    )


def test_chat_has_the_mean_and_spread_of_its_constants():
    load = workload.chat(200_000, 1.0, 0)
    assert load.prompt.min() >= 1 and load.prompt.max() == synthetic.LONGEST == 4096
    # Clipping takes under 1 % off the means, so 2 % is both tight and fair (standard error 0.2 %).
    assert load.prompt.mean() == pytest.approx(synthetic.PROMPT_MEAN, rel=0.02)
    assert load.output.mean() == pytest.approx(synthetic.OUTPUT_MEAN, rel=0.02)
    assert np.log(load.prompt).std() == pytest.approx(synthetic.PROMPT_SIGMA, rel=0.02)
    assert np.log(load.output).std() == pytest.approx(synthetic.OUTPUT_SIGMA, rel=0.02)


@pytest.mark.parametrize("make", [workload.chat, workload.long_context])
def test_senders_state_the_smallest_round_limit_that_holds_their_output(make):
    load = make(20_000, 1.0, 3)
    assert load.max_tokens is not None and set(load.max_tokens.tolist()) == {1024, 4096}
    assert (load.output <= load.max_tokens).all()
    assert (load.output[load.max_tokens == 4096] > 1024).all()


def test_orcas_senders_state_exactly_their_output():
    load = workload.orca_paper(500, 1.0, 3)
    np.testing.assert_array_equal(load.max_tokens, load.output)


@pytest.mark.parametrize("memory", ["max:8192", "oracle", "pow2", "paged:16"])
def test_a_stated_limit_matters_only_where_the_policy_goes_by_it(memory):
    stated = workload.chat(120, 40.0, 2)
    silent = workload.from_arrays(stated.arrival, stated.prompt, stated.output)
    ends = [simulate(load, memory=memory, capacity=60_000).record.finished for load in (stated, silent)]
    np.testing.assert_array_equal(*ends)


def test_declared_limits_admit_fewer_than_true_lengths_do():
    load = workload.chat(300, 1e6, 2)
    declared, oracle = (simulate(load, memory=memory, capacity=60_000).summary() for memory in ("declared", "oracle"))
    assert declared["most_running"] < 0.7 * oracle["most_running"]


def test_chat_constants_lie_in_the_range_that_was_fitted():
    assert 400 <= synthetic.PROMPT_MEAN <= 430 and 0.8 <= synthetic.PROMPT_SIGMA <= 0.9
    assert 280 <= synthetic.OUTPUT_MEAN <= 290 and 0.70 <= synthetic.OUTPUT_SIGMA <= 0.75


def test_orca_lengths_are_uniform_with_both_ends():
    load = workload.orca_paper(50_000, 1.0, 0)
    assert (load.prompt.min(), load.prompt.max()) == (32, 512)
    assert (load.output.min(), load.output.max()) == (1, 128)
    assert load.prompt.mean() == pytest.approx(272, rel=0.01)
    assert load.output.mean() == pytest.approx(64.5, rel=0.01)


@pytest.mark.parametrize(
    ("make", "column", "published"),
    [
        (workload.azure_conv, "prompt", synthetic.AZURE_CONV_PROMPT),
        (workload.azure_conv, "output", synthetic.AZURE_CONV_OUTPUT),
        (workload.azure_code, "prompt", synthetic.AZURE_CODE_PROMPT),
        (workload.azure_code, "output", synthetic.AZURE_CODE_OUTPUT),
    ],
)
def test_azure_models_have_the_published_quantiles(make, column, published):
    drawn = getattr(make(400_000, seed=3), column)
    # Steep pieces of the curve amplify sampling noise, hence the probability and not the token count is
    # compared.
    for probability, tokens in list(zip(synthetic.AZURE_PROBABILITIES, published, strict=True))[2:-1]:
        assert np.mean(drawn < tokens) - 0.005 <= probability <= np.mean(drawn <= tokens) + 0.005
    assert drawn.min() >= published[0] and drawn.max() <= published[-1]


def test_fixed_is_a_request_every_second_at_rate_one():
    load = workload.fixed(4, 1.0, prompt=7, output=3)
    assert load.arrival.tolist() == [0, 1, 2, 3]
    assert load.prompt.tolist() == [7] * 4 and load.output.tolist() == [3] * 4
    assert load.at_rate(4.0).arrival.tolist() == [0, 0.25, 0.5, 0.75]


def test_a_million_requests_take_under_a_second():
    start = time.process_time()
    assert len(workload.chat(1_000_000, 16.0, 0)) == 1_000_000
    assert time.process_time() - start < 1.0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"n": 0}, "n = 0"),
        ({"n": -5}, "n = -5"),
        ({"n": 2.5}, "n = 2.5"),
        ({"rate": 0.0}, "rate = 0.0"),
        ({"rate": -1.0}, "rate = -1.0"),
        ({"rate": float("nan")}, "rate = nan"),
        ({"rate": float("inf")}, "rate = inf"),
        ({"rate": 1e-308}, "too small"),
        ({"rate": "fast"}, "rate = 'fast'"),
        ({"seed": -1}, "seed = -1"),
        ({"seed": None}, "seed = None"),
        ({"arrivals": "uniform"}, "known are poisson"),
        ({"arrivals": None}, "known are poisson"),
    ],
)
@pytest.mark.parametrize("make", [*MODELS.values(), workload.fixed], ids=[*MODELS, "fixed"])
def test_bad_arguments_are_named(make, arguments, said):
    with pytest.raises(ValueError, match=said):
        make(**({"n": 10_000, "rate": 1.0, "seed": 0} | arguments))


@pytest.mark.parametrize("name", ["prompt", "output"])
@pytest.mark.parametrize("value", [0, -3, 1.5, float("nan"), "many"])
def test_fixed_refuses_lengths_that_no_request_has(name, value):
    with pytest.raises(ValueError, match=f"{name} = "):
        workload.fixed(3, 1.0, **{name: value})


def test_absurdly_large_values_are_fine():
    load = workload.fixed(2, 1e300, prompt=10**12, output=10**12)
    assert load.prompt[0] == 10**12 and np.isfinite(load.arrival).all()
