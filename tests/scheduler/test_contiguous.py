"""Contiguous allocation: nothing overlaps, holes are exact, and nothing is lost when everybody has left."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labcode import simulate, workload
from labcode.scheduler.contiguous import Buddy, FirstFit
from labcode.scheduler.kv_cache import positions_needed
from labcode.scheduler.request import Request


def whole(request: Request) -> int:
    return positions_needed(request, request.expected)


KINDS = pytest.mark.parametrize("kind", [FirstFit, Buddy], ids=["first fit", "buddy"])


@KINDS
@given(
    capacity=st.integers(16, 700),
    moves=st.lists(st.tuples(st.integers(1, 200), st.integers(0, 5)), max_size=40),
)
def test_pieces_never_overlap_and_free_space_is_exact(kind, capacity, moves):
    memory = kind(capacity, whole)
    there = []
    for i, (prompt, leaves) in enumerate(moves):
        request = Request(i, prompt, 1)
        size = memory.size(prompt)
        before = memory.largest_hole()
        admitted = memory.try_admit(request, prompt)
        # It is placed exactly if one piece is long enough, whatever is free elsewhere.
        assert admitted == (size <= before)
        there += [request] if admitted else []
        if there and leaves == 0:
            memory.free(there.pop(len(there) // 2))
        cells = sorted(memory.placed.values())
        assert all(a + n <= b for (a, n), (b, _) in zip(cells, cells[1:], strict=False))
        assert all(a >= 0 and a + n <= capacity for a, n in cells)
        assert memory.largest_hole() <= memory.free_tokens
    for request in there:
        memory.free(request)
    assert memory.largest_hole() == memory.longest() and memory.reserved == 0


def test_first_fit_leaves_a_hole_that_two_pieces_could_have_filled():
    """The example of chapter 10: 30 are free, 20 do not fit."""
    memory = FirstFit(100, whole)
    people = [Request(i, size, 1) for i, size in enumerate((10, 40, 10, 30))]
    assert all(memory.try_admit(request, request.prompt) for request in people)
    memory.free(people[0])
    memory.free(people[2])
    assert memory.free_tokens == 30 and memory.largest_hole() == 10
    assert not memory.try_admit(Request(9, 20, 1), 20)
    assert memory.fragmented == 1
    memory.free(people[1])
    assert memory.largest_hole() == 60 and memory.try_admit(Request(9, 20, 1), 20)


def test_a_buddy_rounds_up_and_joins_only_with_its_own_half():
    memory = Buddy(64, whole, block=16)
    people = [Request(i, 16, 1) for i in range(4)]
    assert all(memory.try_admit(request, 16) for request in people)
    memory.free(people[1])
    memory.free(people[2])  # neighbours, but not buddies
    assert memory.free_tokens == 32 and memory.largest_hole() == 16
    memory.free(people[0])
    assert memory.largest_hole() == 32
    assert memory.size(33) == 64


@KINDS
def test_a_run_ends_and_leaping_equals_stepping(kind):
    load = workload.long_context(60, 20.0, 3)
    runs = [simulate(load, memory=kind(30_000, whole), step_by_step=one) for one in (False, True)]
    assert (runs[0].requests.outcome == "finished").all()
    np.testing.assert_allclose(runs[0].requests.finished, runs[1].requests.finished, rtol=1e-12)
    np.testing.assert_array_equal(runs[0].steps.n_decode, runs[1].steps.n_decode)
    assert runs[0].steps.kv_reserved.max() <= 30_000


def test_what_can_never_be_placed_is_refused():
    load = workload.from_arrays([0.0, 0.0], [70, 20], [2, 2])
    run = simulate(load, memory=Buddy(96, whole), capacity=96)  # the longest piece of 96 has 64
    assert run.requests.outcome.tolist() == ["refused", "finished"]
    assert "in one piece" in run.requests.reason[0]
