"""Reservations in one piece: no overlap, gaps that join, and what fragments cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labcode import workload
from labcode.experiments.saturation import drain_rate, saturated
from labcode.scheduler import Request
from labcode.scheduler.contiguous import FirstFit
from labcode.scheduler.kv_cache import positions_needed


def need(request):
    return positions_needed(request, request.expected)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 40)), max_size=60))
def test_pieces_never_overlap_and_gaps_join(moves):
    memory, inside = FirstFit(100, lambda request: request.prompt), []
    for i, (comes, size) in enumerate(moves):
        if comes:
            request = Request(i, size, 1, 0.0)
            fits = any(length >= size for _, length in memory.holes)
            assert memory.try_admit(request, size) == fits
            inside += [request] if fits else []
        elif inside:
            memory.free(inside.pop(size % len(inside)))
        pieces = sorted([*memory.placed.values(), *memory.holes])
        assert [start for start, _ in pieces] == [0, *(start + length for start, length in pieces)][:-1]
        assert sum(length for _, length in pieces) == 100
        between = list(zip(memory.holes, memory.holes[1:], strict=False))
        assert all(start + length < later for (start, length), (later, _) in between)


def test_an_oracle_in_one_piece_writes_less_of_the_pool_and_drains_slower():
    load = workload.long_context(500, 1.0, 0)
    free = saturated(load, memory="oracle", capacity=200_000)
    whole = saturated(load, memory=FirstFit(200_000, need), capacity=200_000)
    assert free.reserved > 0.98 and whole.reserved < 0.93
    assert whole.rate < 0.97 * free.rate
    assert free.rate == drain_rate(load, memory="oracle", capacity=200_000)
    assert free.preemptions == free.recomputed == 0.0


def test_pages_without_a_watermark_recompute_and_with_one_hardly():
    load = workload.long_context(500, 1.0, 0)
    bare, kept = (saturated(load, memory="paged:16", watermark=w, capacity=200_000) for w in (0.0, 0.02))
    assert bare.preemptions > 5 * kept.preemptions and bare.recomputed > 100
    assert kept.rate > bare.rate and kept.written > 0.9
    with pytest.raises(ValueError, match="more requests than places"):
        saturated(workload.chat(20, 1.0, 0), memory="unlimited")
