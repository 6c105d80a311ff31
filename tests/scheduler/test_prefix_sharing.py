"""Shared prefixes: from hashes in a workload to blocks that are counted once and tokens that are not computed again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from labcode import simulate, workload
from labcode.scheduler.kv_cache import Paged
from labcode.scheduler.request import Request


def conversation(turns: int = 4, block: int = 16) -> workload.Workload:
    """Each turn's prompt is the last one and two more blocks."""
    prompts = [block * 2 * (turn + 1) + 5 for turn in range(turns)]
    prefixes = [tuple(range(prompt // block)) for prompt in prompts]
    load = workload.from_arrays(np.arange(turns) * 10.0, prompts, 5)
    return replace(load, prefix=prefixes)


def test_what_is_there_already_is_not_computed_again():
    load = conversation()
    alone, shared = (simulate(load, memory=memory, capacity=4096) for memory in ("paged:16", "shared:16"))
    assert alone.steps.prefill_tokens.sum() == load.prompt.sum()
    # Every turn computes its two new blocks and the 5 tokens of its incomplete one.
    assert shared.steps.prefill_tokens.sum() == load.prompt.sum() - 16 * (2 + 4 + 6)
    assert shared.requests.ttft.iloc[-1] < alone.requests.ttft.iloc[-1]
    assert (shared.requests.outcome == "finished").all()


def test_a_block_that_two_hold_counts_once_and_stays_until_both_have_left():
    memory = Paged(1024, 16, share=True)
    first, second = (Request(i, 100, 1, prefix=(1, 2, 3, 4, 5, 6)) for i in range(2))
    assert memory.try_admit(first, 100) and memory.reserved == 7 * 16
    memory.publish(first)
    assert memory.cached(second) == 96
    assert memory.try_admit(second, 100)
    assert memory.reserved == 8 * 16 and memory.saved == 6 * 16
    memory.free(first)
    assert memory.reserved == 7 * 16 and memory.saved == 0
    memory.free(second)
    assert memory.reserved == 0 and memory.free_blocks == 64
    # Nobody holds them, but until room is needed the next one finds them.
    assert memory.cached(Request(2, 100, 1, prefix=(1, 2, 3, 4, 5, 6))) == 96


def test_the_last_token_of_a_prompt_is_always_computed():
    """A first token comes out of a step, so a prompt that is cached whole computes at least one position."""
    load = replace(workload.from_arrays([0.0, 5.0], [64, 64], [3, 3]), prefix=[(1, 2, 3, 4)] * 2)
    run = simulate(load, memory="shared:16", capacity=1024)
    assert run.steps.prefill_tokens.sum() == 64 + 16
    assert (run.requests.outcome == "finished").all()


def test_workload_keeps_prefixes_where_it_keeps_requests():
    load = conversation(5)
    assert load.at_rate(3.0).prefix.tolist() == load.prefix.tolist()
    assert load.head(2).prefix.tolist() == load.prefix.tolist()[:2]
    same = replace(load, prefix=[(1, 2)] * 5)  # equal lengths must not become a matrix
    assert same.prefix.shape == (5,) and same.prefix[3] == (1, 2)


@pytest.mark.parametrize(
    ("prefix", "said"),
    [([(1,)], "prefix: 1 values"), ([(1,), (2.5,)], "prefix in row 1"), ([(1,), 3], "prefix in row 1")],
)
def test_wrong_prefixes_are_named(prefix, said):
    load = workload.from_arrays([0.0, 1.0], [20, 20], [3, 3])
    with pytest.raises(ValueError, match=said):
        replace(load, prefix=prefix)
