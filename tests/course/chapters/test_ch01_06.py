"""What chapters 1 and 6 claim in their text, and their labs over the whole grid."""

from __future__ import annotations

import numpy as np
import pytest

from labcode.cost import hardware
from labcode.cost.hardware import SeqWork, step_cost
from labcode.course.exercises import check, exercises
from labcode.course.labs import find
from labcode.course.labs.ch01_decode import intensity, step_times
from labcode.course.labs.ch06_step import works
from labcode.model import TINY, Counter
from labcode.model.padding import padded_cost

H100, LLAMA = hardware.gpu("h100"), hardware.model("llama3-8b")


def test_ledger_L12_decode_steps_of_chapter_1():
    alone, many = (step_cost(LLAMA, H100, [SeqWork(1, 1024)] * n) for n in (1, 256))
    assert 1e3 * alone.time == pytest.approx(6, rel=0.03)
    assert 1e3 * many.time == pytest.approx(19, rel=0.03)
    assert many.bound == "memory"
    assert many.kv_bytes / (many.kv_bytes + many.weight_bytes) == pytest.approx(2 / 3, rel=0.05)  # "two thirds"


@pytest.mark.parametrize("context", [0, 64, 1024, 4096])
@pytest.mark.parametrize("batch", [1, 64, 512])
def test_lab_1_prices_steps_as_the_cost_model_does(batch, context):
    roofs, cost = hardware.roofline(LLAMA, H100), step_cost(LLAMA, H100, [SeqWork(1, context)] * batch)
    assert max(step_times(roofs, batch, context)) == pytest.approx(cost.time, rel=1e-12)
    assert intensity(roofs, H100, batch, context) == pytest.approx(
        cost.flops / (cost.weight_bytes + cost.kv_bytes), rel=1e-9
    )


def test_lab_1_can_be_driven_out_of_memory_and_into_a_model_that_does_not_fit():
    lab = find("ch01-decode")
    assert lab.run(batch=1024).headline.startswith("Out of memory: only 416")
    assert lab.run(name="llama3-70b").headline.startswith("Does not fit: 141 GB of weights")
    assert "bound" in lab.run(name="llama3-70b", card="8xh100").headline


def test_long_contexts_never_become_compute_bound():
    for batch in (1, 256, 100_000):
        assert step_cost(LLAMA, H100, [SeqWork(1, 1024)] * batch).bound == "memory"
    assert step_cost(LLAMA, H100, [SeqWork(1, 128)] * 512).bound == "compute"
    assert step_cost(LLAMA, H100, [SeqWork(500)]).bound == "compute"  # a prompt of 500 is beyond the ridge alone


def test_a_full_memory_takes_27_ms_to_read_and_3_to_compute():
    roofs = hardware.roofline(LLAMA, H100)
    memory, compute = step_times(roofs, 104, 4096)
    assert (round(1e3 * memory), round(1e3 * compute)) == (27, 3)


def test_lab_6_has_a_step_where_padding_is_worse_than_no_batch_and_one_where_it_is_free():
    lab = find("ch06-step")
    assert "worse than no batch at all" in lab.run(prompts=2, prompt=4096, decodes=16).headline
    assert "padding costs nothing" in lab.run(prompts=0, decodes=4, history=64).headline


def test_lab_6_steps():
    step = works(2, 256, 4, 512)
    assert [(w.new, w.past) for w in step] == [(128, 0), (256, 0), (1, 128), (1, 256), (1, 384), (1, 512)]


def test_padded_is_never_cheaper():
    for params in find("ch06-step").states():
        step = works(**params)
        assert padded_cost(LLAMA, H100, step).time >= step_cost(LLAMA, H100, step).time * (1 - 1e-12)


def test_answers():
    assert exercises()["1.1"].answer() == pytest.approx(31.3, abs=0.3)
    assert exercises()["1.2"].answer() == pytest.approx(237.4, abs=0.1)
    assert exercises()["1.3"].answer() == pytest.approx(1914.5, abs=0.1)
    assert [exercises()[key].answer() for key in ("1.5", "6.1a", "6.1b", "6.4")] == [104, 253, 610, 1830]
    assert exercises()["6.3"].answer() == 26_624
    assert check("6.2", 185 / 49) == "right"
    assert check("1.4", 1500).startswith("not yet: a thousand times too large")


def test_waiting_to_fill_by_simulation():
    gaps = np.random.default_rng(0).exponential(1 / 5, (20_000, 16))
    arrivals = gaps.cumsum(axis=1)
    waits = arrivals[:, -1:] - arrivals
    assert waits.mean() == pytest.approx(exercises()["1.4"].answer(), rel=0.02)


def test_what_chapter_6_says_of_padding_the_tiny_model():
    from labcode.course.evidence.model import three_ways

    ways = three_ways()
    padded, ragged = ways.count_padded, ways.count_ragged
    assert round(padded.flops / ragged.flops, 1) == 4.7
    assert 1 - ragged.flops / padded.flops == pytest.approx(4 / 5, abs=0.02)  # "four fifths"
    attention = Counter()
    for _ in range(TINY.layers):
        attention.attention(padded.pairs, TINY.heads, TINY.head_dim)
    assert attention.flops / padded.flops == pytest.approx(1 / 4, abs=0.01)  # "a quarter"
