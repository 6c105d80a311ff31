"""Continuous generation gives every request the tokens it would get alone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcode.model import TINY, generate, generate_continuously, random_model

# float64: rounding must not decide between two tokens whose scores are close.
MODEL = random_model(replace(TINY, dtype="float64"), seed=0)
FLOAT32 = random_model(TINY, seed=0)

request = st.tuples(st.integers(1, 30), st.integers(1, 12), st.integers(0, 15))  # prompt, output, arrival


@given(st.lists(request, min_size=1, max_size=7), st.integers(1, 4), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_together_equals_alone(requests, max_bs, seed):
    requests.sort(key=lambda r: r[2])
    rng = np.random.default_rng(seed)
    prompts = [rng.integers(0, TINY.vocab, n).tolist() for n, _, _ in requests]
    outputs = [output for _, output, _ in requests]
    seen = []
    together = generate_continuously(MODEL, prompts, outputs, max_bs, [a for _, _, a in requests], watch=seen.append)
    assert together == [generate(MODEL, prompt, output) for prompt, output in zip(prompts, outputs, strict=True)]
    assert all(len(step.prefill) + len(step.decode) <= max_bs for step in seen)
    for i, (_, output, arrival) in enumerate(requests):
        mine = [step for step in seen if i in step.tokens]
        assert len(mine) == output and mine[0].prefill.count(i) == 1 and mine[0].number >= arrival
        assert [step.number for step in mine] == list(range(mine[0].number, mine[0].number + output))


def test_the_lectures_six_requests_take_ten_iterations():
    rng = np.random.default_rng(0)
    prompts = [rng.integers(0, TINY.vocab, n).tolist() for n in (5, 9, 3, 12, 7, 4)]
    outputs, arrivals, seen = [6, 3, 9, 2, 5, 3], [0, 0, 1, 2, 3, 6], []
    together = generate_continuously(FLOAT32, prompts, outputs, 3, arrivals, watch=seen.append)
    assert together == [generate(FLOAT32, prompt, output) for prompt, output in zip(prompts, outputs, strict=True)]
    rows = [
        "".join(
            "P" if i in s.prefill else "D" if i in s.decode else "." if i in s.waiting else " " for s in seen
        ).rstrip()
        for i in range(6)
    ]
    assert rows == ["PDDDDD", "PDD", " PDDDDDDDD", "  .PD", "   ..PDDDD", "      PDD"]


def test_a_stop_token_frees_the_seat():
    rng = np.random.default_rng(1)
    prompts = [rng.integers(0, TINY.vocab, n).tolist() for n in (5, 9, 3)]
    free = [generate(FLOAT32, prompt, 10) for prompt in prompts]
    stop = free[0][2]
    cut = [tokens[: tokens.index(stop)] if stop in tokens else tokens for tokens in free]
    assert generate(FLOAT32, prompts[0], 10, stop=stop) == cut[0] and len(cut[0]) <= 2
    assert generate_continuously(FLOAT32, prompts, 10, 2, stop=stop) == cut


def test_the_gap_before_a_late_arrival_is_skipped():
    seen = []
    generate_continuously(FLOAT32, [[1], [2]], 2, 1, [0, 50], watch=seen.append)
    assert [step.number for step in seen] == [0, 1, 50, 51]


def test_nothing_to_do():
    assert generate_continuously(FLOAT32, [], 5, 3) == []


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: generate(FLOAT32, [], 5), "at least one token"),
        (lambda: generate(FLOAT32, [256], 5), "below vocab = 256"),
        (lambda: generate(FLOAT32, [1], 0), r"max_new\[0\] = 0"),
        (lambda: generate(FLOAT32, [1] * 1000, 26), "more than max_context = 1024"),
        (lambda: generate_continuously(FLOAT32, [[1]], 5, 0), "max_bs = 0"),
        (lambda: generate_continuously(FLOAT32, [[1], [2]], [5], 2), "one for each of 2 prompts"),
        (lambda: generate_continuously(FLOAT32, [[1], [2]], 5, 2, [3, 1]), "not descending"),
        (lambda: generate_continuously(FLOAT32, [[1], [2]], 5, 2, [3]), "one for each of 2"),
    ],
)
def test_bad_requests(call, message):
    with pytest.raises(ValueError, match=message):
        call()
