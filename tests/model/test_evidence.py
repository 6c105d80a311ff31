"""The ledger's numbers about the mini model."""

import pytest

from labcode.course.evidence import model as evidence
from labcode.model import TINY, random_model


def test_L01_weights_are_read_nearly_five_times_less_often():
    assert evidence.weight_bytes_ratio() == pytest.approx(4.88, rel=0.03)


def test_L02_batched_logits_are_those_alone():
    assert 0 < evidence.logit_difference((0,))["absolute"] <= 2e-6  # as stated, for the book's own step
    found = evidence.logit_difference(range(20))
    assert found["relative"] <= 2e-6
    assert found["same_tokens"] == 1


def test_L03_everything_else_is_equal():
    found = evidence.counted_and_priced()
    assert found["batched"] == found["formula"]
    assert found["alone"]["flops"] == found["batched"]["flops"] == 9_531_392
    assert found["alone"]["kv_bytes"] == found["batched"]["kv_bytes"]


def test_L04_and_L05():
    tokens, pairs = evidence.padded_tokens(), evidence.padded_pairs()
    assert (tokens["padded"], tokens["useful"], round(tokens["waste"], 2)) == (185, 49, 0.74)
    assert (pairs["padded"], pairs["useful"], round(pairs["ratio"], 1)) == (22_385, 950, 23.6)


def test_times_are_those_of_three_forwards_and_a_part_of_one():
    model = random_model(TINY)
    times = evidence.forward_times(model, evidence.MIXED_STEP, repeat=2)
    assert list(times) == ["one by one", "padded", "ragged"] and all(0 < t < 10 for t in times.values())
    assert 0 < evidence.attention_share(model, 8, 32, repeat=3) < 1


@pytest.mark.slow
def test_L15_batching_pays_on_this_machine():
    times = evidence.decode_times(repeat=3)
    assert times.speedup > 2
    assert times.read < times.together
