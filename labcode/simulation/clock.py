"""Executors: what carries a plan out and says how long it took.  Only they know how long an answer really gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from labcode.cost import CostModel, SeqWork, StepShape
from labcode.scheduler.preemption import Link
from labcode.scheduler.request import Plan, Results

FOREVER = float("inf")


class Executor(Protocol):
    """Carries plans out."""

    def execute(self, plan: Plan, start: float, limit: int, until: float) -> tuple[Results, float]:
        """Carry `plan` out and return what came of it, and when it ended (s).

        Up to `limit` times in a row, but not beyond the step in which the first request finishes, and no step that
        begins at or after `until`.
        """


def step_shape(plan: Plan) -> StepShape:
    """Return the shape of a plan's (first) step, as a cost model sees it."""
    works = [SeqWork(work.new, work.past) for work in plan.prefill]
    return StepShape.of(works, len(plan.decode), sum(state.computed + 1 for state in plan.decode))


class PaperClock:
    """An executor that computes nothing but the time.

    Parameters
    ----------
    output : sequence of int
        True lengths of the answers by the number of the request, in tokens.
    cost : CostModel
        How long a step takes.
    link : Link, optional
        The way to the host, for preemption by swapping; without one transfers take no time.
    """

    def __init__(self, output: Sequence[int], cost: CostModel, link: Link | None = None) -> None:
        self.output, self.cost, self.link = output, cost, link

    def execute(self, plan: Plan, start: float, limit: int, until: float) -> tuple[Results, float]:
        """Return what came of the plan, and when its last step ended, in seconds."""
        output, shape = self.output, step_shape(plan)
        left = [(output[state.id] - state.generated, state.id) for state in plan.decode]
        if plan.prefill or limit == 1:
            steps, end = 1, start + self._transfers(plan) + self.cost.step_time(shape)
        else:
            steps, end = self.cost.advance(shape, start, min(limit, min(left)[0]), until)
        finished = [number for tokens, number in left if tokens == steps]
        for work in plan.prefill:
            if work.yields and work.request.generated + 1 == output[work.request.id]:
                finished.append(work.request.id)
        return Results(finished, steps=steps), end

    def _transfers(self, plan: Plan) -> float:
        """Return the seconds in which caches move between host and device before the step."""
        if self.link is None:
            return 0.0
        return sum(self.link.seconds(work.past) for work in (*plan.swapped_in, *plan.swapped_out))
