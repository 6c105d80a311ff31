"""A closed loop on paper."""

from __future__ import annotations

import numpy as np
import pytest

from labcode import hardware
from labcode.cost import as_cost
from labcode.scheduler import Budgets, Scheduler, memory
from labcode.simulation.clock import PaperClock
from labcode.simulation.closed_loop import closed_loop

COST = as_cost("paper", hardware.model("llama3-8b"), hardware.gpu("h100"))


def served(n: int, users: int, think: float, max_bs: int = 64, output: int = 20):
    """Run `n` equal requests."""
    scheduler = Scheduler(memory("unlimited", 1 << 40), budgets=Budgets(max_bs))
    return closed_loop(scheduler, PaperClock([output] * n, COST), [100] * n, users, think, seed=1)


def test_no_more_requests_than_users_and_every_user_waits_for_its_answer() -> None:
    frame = served(200, 7, 0.5)
    assert frame.notna().all().all() and (frame["ttft"] > 0).all() and (frame["finished"] > frame["first_token"]).all()
    for _, own in frame.groupby("user"):
        assert (own["arrival"].to_numpy()[1:] >= own["finished"].to_numpy()[:-1]).all()
    changes = sorted([(t, 1) for t in frame["arrival"]] + [(t, -1) for t in frame["finished"]])
    assert np.cumsum([step for _, step in changes]).max() <= 7


def test_the_response_time_law() -> None:
    """Users = throughput x (response time + think time), as Little's law has it for a closed system."""
    frame = served(6000, 30, 2.0)
    span = frame["finished"].max()
    assert len(frame) / span * (frame["e2e"].mean() + 2.0) == pytest.approx(30, rel=0.03)


def test_one_user_without_thinking_is_served_as_if_alone() -> None:
    frame = served(5, 1, 0.0)
    assert np.ptp(frame["e2e"]) < 1e-9 and (frame["arrival"].to_numpy()[1:] == frame["finished"].to_numpy()[:-1]).all()


def test_what_can_never_be_served_is_named() -> None:
    scheduler = Scheduler(memory("paged:16", 64), budgets=Budgets(4))
    with pytest.raises(ValueError, match="request 0 can never be served"):
        closed_loop(scheduler, PaperClock([20], COST), [100], 1)
