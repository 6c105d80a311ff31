"""For how many tokens a paged pool lasts, against counting one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from labcode.scheduler.kv_cache import Paged
from labcode.scheduler.request import Request


@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), st.integers(1, 20), st.integers(0, 30))
def test_horizon_is_the_last_growth_that_fits(positions, page, spare):
    pages = sum(-(-p // page) for p in positions)
    memory = Paged((pages + spare) * page, page)
    holders = [(Request(i, p, 1), p) for i, p in enumerate(positions)]
    assert all(memory.try_admit(request, p) for request, p in holders)
    k = memory.horizon(holders)

    def needed(growth):
        return sum(-(-(p + growth) // page) for p in positions)

    assert needed(k) <= pages + spare < needed(k + 1)
