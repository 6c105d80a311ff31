"""Chapter 14's evidence: the recorded split comes out again, and programs are served in the order that is said."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from labcode.course.answers import ch14
from labcode.course.evidence import split
from labcode.course.evidence.programs import ORDERS, Programs, serve
from labcode.course.exercises import check


@pytest.mark.parametrize(
    ("way", "cost", "share", "seed"), [("2 + 2, 50 GB/s", "paper", 0.5, 1), ("chunks of 256", "measured", 0.3, 0)]
)
def test_a_recorded_run_comes_out_again(way, cost, share, seed):
    rows = pd.read_csv(split.RECORD)
    row = rows[(rows.way == way) & (rows.cost == cost) & (rows.share == share) & (rows.seed == seed)].iloc[0]
    again = split.in_time(way, cost, share, seed)
    assert {name: pytest.approx(row[name], abs=1e-6) for name in split.LIMITS} == again


def test_the_record_is_complete():
    rows = pd.read_csv(split.RECORD)
    assert len(rows) == len(split.WAYS) * len(split.COSTS) * len(split.SHARES) * split.SEEDS
    assert not rows.duplicated(["way", "cost", "share", "seed"]).any()
    assert rows[list(split.LIMITS)].stack().between(0, 1).all()
    assert (rows.tight <= rows.loose).all()


def test_a_program_alone_takes_its_calls_one_after_the_other():
    one, three = Programs(np.zeros(1), [[50]]), Programs(np.zeros(1), [[50, 50, 50]])
    assert serve(three, "calls, first come")[0] == pytest.approx(3 * serve(one, "calls, first come")[0], rel=1e-9)


def test_orders_of_programs():
    """One place; a long program's calls and a short one's meet in the queue once the long one has been served."""
    work = Programs(np.array([0.0, 0.1, 0.2]), [[100, 100, 100], [100, 100], [100, 100]])
    ends = {order: work.arrival + serve(work, order, places=1) for order in ORDERS}
    assert ends["programs, first come"].argsort().tolist() == [0, 1, 2]
    assert ends["programs, least served"][0] == max(ends["programs, least served"])
    assert ends["programs, least served"][1] < ends["programs, first come"][2]
    for found in ends.values():
        assert max(found) == pytest.approx(max(ends["calls, first come"])), "no order creates or wastes work"


def choose(waiting, cached, slack):
    near = [i for i in range(len(waiting)) if waiting[i] <= min(waiting) + slack]
    return min(near, key=lambda i: (-cached[i], waiting[i], i))


def from_the_mean(waiting, cached, slack):
    near = [i for i in range(len(waiting)) if waiting[i] <= sum(waiting) / len(waiting) + slack]
    return min(near, key=lambda i: (-cached[i], waiting[i], i))


def first_longest(waiting, cached, slack):
    near = [i for i in range(len(waiting)) if waiting[i] <= min(waiting) + slack]
    return max(near, key=lambda i: cached[i])


def test_the_solution_passes_and_its_usual_slips_do_not():
    assert check.code("14.build", choose).startswith("right")
    for slip in (from_the_mean, first_longest, lambda waiting, cached, slack: 0):
        assert not check.code("14.build", slip).startswith("right")


def test_where_drafts_stop_to_pay():
    batch = int(ch14.first_batch_that_loses())
    assert ch14.gain(batch - 1, 3, 0.8) >= 1 > ch14.gain(batch, 3, 0.8)
    assert check("14.1b", batch) == "right"
