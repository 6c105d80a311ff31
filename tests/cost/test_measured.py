"""Measured step times: the lookup by hand, the bundled kernels against their samples, and a peer's whole runs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from labcode import simulate, workload
from labcode.cost import StepShape
from labcode.cost.hardware import SeqWork
from labcode.cost.measured import Grid, MeasuredCost, a100_llama3_8b, knots, samples

PLANE = Grid(np.array([1.0, 2, 4]), np.array([0.0, 10]), np.array([[1.0, 11], [2, 12], [4, 14]]))  # row + column


def small_tables(folder):
    """Three tables of a model of two layers, small enough to look up by hand."""
    pd.DataFrame({"num_tokens": [8, 16, 24], "mlp_ms": [1.0, 1.5, 3.0], "norm_ms": [0.5, 0.5, 0.5]}).to_csv(
        folder / "compute.csv", index=False
    )
    decode = [(b, kv, 0.1 * b + kv / 640) for b in (1, 2, 4) for kv in (64, 128, 192)]
    pd.DataFrame(decode, columns=["batch_size", "kv_len_tokens", "attn_decode_ms"]).to_csv(
        folder / "decode.csv", index=False
    )
    prefill = [(q, s, q / 10 + s / 64) for q in (16, 32) for s in (0, 64)]
    pd.DataFrame(prefill, columns=["prefill_chunk_tokens", "kv_len_before_tokens", "attn_prefill_ms"]).to_csv(
        folder / "prefill.csv", index=False
    )
    return folder / "compute.csv", folder / "decode.csv", folder / "prefill.csv"


@pytest.mark.parametrize(
    ("row", "column", "value"),
    [(1, 0, 1), (2, 10, 12), (3, 5, 8), (4, 10, 14), (6, 20, 26), (0.5, -3, 1)],
    ids=["corner", "on a line", "between", "last", "beyond: the last slope", "below: the floor"],
)
def test_a_grid_interpolates(row, column, value):
    assert PLANE(row, column) == pytest.approx(value)


def test_a_step_looked_up_by_hand(tmp_path):
    cost = MeasuredCost.from_csv(*small_tables(tmp_path), layers=2)
    # 3 decodes of 70 positions on average: 3 tokens -> 8, mean 70 -> 128, attention 1.1 * (0.3 + 0.2).
    assert cost.step_time(StepShape.of((), 3, 210)) == pytest.approx(2e-3 * (1.5 + 1.1 * 0.5))
    # One decode alone has no batching overhead.
    assert cost.step_time(StepShape.of((), 1, 64)) == pytest.approx(2e-3 * (1.5 + 0.2))
    # A chunk of 16 on 40 cached positions (-> 64) beside a decode: 17 tokens -> 24.
    shape = StepShape.of([SeqWork(16, 40)], 1, 64)
    assert cost.step_time(shape) == pytest.approx(2e-3 * (3.5 + 2.6 + 0.2))
    # Two prompts of 12 and 16 tokens count as one of 20 = sqrt(144 + 256), plus a tenth.
    assert cost.prefill_attention([SeqWork(12), SeqWork(16)]) == pytest.approx(2e-3 * 2.0 * 1.1)


def test_many_decode_steps_at_once_are_the_single_ones():
    cost = a100_llama3_8b()
    batch, kv = np.array([1, 7, 64, 300]), np.array([50, 7000, 64_000, 90_000])
    singly = [cost.step_time(StepShape.of((), int(b), int(k))) for b, k in zip(batch, kv, strict=True)]
    assert cost.decode_times(batch, kv) == pytest.approx(singly)


def test_the_mean_length_is_cut_to_whole_positions_before_it_is_rounded_up(tmp_path):
    cost = MeasuredCost.from_csv(*small_tables(tmp_path), layers=2)
    assert cost.decode_attention(2, 129) == cost.decode_attention(2, 128)
    assert cost.decode_attention(2, 130) > cost.decode_attention(2, 128)


@pytest.mark.parametrize("engine", ["continuous", "static", "sequential"])
@pytest.mark.parametrize("tables", ["bundled", "rounded"])
def test_leaping_equals_stepping(engine, tables, tmp_path):
    cost = "measured" if tables == "bundled" else MeasuredCost.from_csv(*small_tables(tmp_path), layers=2)
    load = workload.chat(60, 6.0, 3)
    runs = [
        simulate(load, gpu="a100-80", engine=engine, max_bs=16, cost=cost, step_by_step=slowly)
        for slowly in (False, True)
    ]
    for column in ("first_token", "finished", "itl_max"):
        np.testing.assert_allclose(runs[0].requests[column], runs[1].requests[column], rtol=1e-9)
    if engine == "continuous":
        assert len(runs[0].steps) == len(runs[1].steps)


@pytest.mark.parametrize("memory", ["paged:16", "oracle"])
def test_token_times_agree_with_the_records(memory):
    run = simulate(workload.chat(40, 4.0, 1), gpu="a100-80", cost="measured", memory=memory)
    for i in (0, 7, 39):
        times = run.token_times(i)
        assert len(times) == run.load.output[i]
        assert times[0] == run.record.first_token[i]
        assert times[-1] == pytest.approx(run.record.finished[i], rel=1e-12)
        assert (np.diff(times) > 0).all()


def test_the_bundled_cost_is_close_to_the_samples_it_is_made_of():
    cost = a100_llama3_8b()
    decode = samples("a100_llama3_8b_attn_decode")
    error = (
        cost.decode(decode["batch_size"], decode["kv_len_tokens"]) / (32e-3 * decode["attn_decode_ms_per_layer"]) - 1
    )
    assert abs(error).max() < 0.17 and abs(error).mean() < 0.05
    steps = samples("a100_llama3_8b_full_step")
    decodes = steps[steps["kind"] == "decode"]
    batch, kv = decodes["batch_or_chunk_tokens"], decodes["kv_len_tokens"]
    error = cost.decode_times(batch, batch * kv) / (1e-3 * decodes["sum_ms_32layers"]) - 1
    assert abs(error).max() < 0.06


def test_prompts_cost_what_prompts_with_as_many_pairs_cost():
    cost, prefill = a100_llama3_8b(), samples("a100_llama3_8b_attn_prefill")
    error = (
        cost.prefill(prefill["prefill_chunk_tokens"], prefill["kv_len_before_tokens"])
        / (32e-3 * prefill["attn_prefill_ms_per_layer"])
        - 1
    )
    alone = prefill["kv_len_before_tokens"] == 0
    assert abs(error[alone]).max() < 1e-9, "measured themselves"
    large = (prefill["prefill_chunk_tokens"] >= 4864) & ~alone
    assert large.sum() > 5 and abs(error[large]).max() < 0.06
    assert error.max() < 0.07, "far into a long prompt the model is too quick, never much too slow"


def test_knots_recover_a_broken_line():
    x = np.linspace(1, 10, 50)
    at = np.array([1.0, 4, 10])
    assert knots(x, np.interp(x, at, [2, 5, 6]), at) == pytest.approx([2, 5, 6])


@pytest.mark.parametrize("pair", [("llama3-8b", "h100"), ("llama2-7b", "a100-80")])
def test_measured_by_name_is_refused_where_nothing_was_measured(pair):
    with pytest.raises(
        ValueError, match=r"no measured kernels for model = .* on gpu = .*, only for llama3-8b on a100-80"
    ):
        simulate(workload.chat(5, 1.0, 0), model=pair[0], gpu=pair[1], cost="measured")


def test_bad_tables_are_named(tmp_path):
    compute, decode, prefill = small_tables(tmp_path)
    with pytest.raises(ValueError, match="layers = 0"):
        MeasuredCost.from_csv(compute, decode, prefill, layers=0)
    with pytest.raises(ValueError, match="no column 'batch_size'"):
        MeasuredCost.from_csv(compute, prefill, prefill, layers=2)
    with pytest.raises(ValueError, match="num_tokens"):
        MeasuredCost.from_csv(decode, decode, prefill, layers=2)
    table = pd.read_csv(decode)
    table.drop(index=1).to_csv(decode, index=False)
    with pytest.raises(ValueError, match="no value for batch_size = 1, kv_len_tokens = 128"):
        MeasuredCost.from_csv(compute, decode, prefill, layers=2)
    pd.concat([table, table.iloc[:1]]).to_csv(decode, index=False)
    with pytest.raises(ValueError, match="batch_size = 1, kv_len_tokens = 64 is there twice"):
        MeasuredCost.from_csv(compute, decode, prefill, layers=2)
    table.assign(attn_decode_ms=-1.0).to_csv(decode, index=False)
    with pytest.raises(ValueError, match="not below 0"):
        MeasuredCost.from_csv(compute, decode, prefill, layers=2)


@pytest.mark.parametrize(("row", "column"), [(1, 0), (2, 10), (3, 5), (4, 10), (6, 20), (0.5, -3), (2.5, 30)])
def test_one_place_is_looked_up_as_many_are(row, column):
    assert PLANE.at(row, column) == PLANE(row, column)
