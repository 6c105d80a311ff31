"""A paper clock that writes down what a record leaves out: every stay in a seat, and a prompt's way into the cache."""

from __future__ import annotations

from collections.abc import Sequence

from labcode.cost import CostModel
from labcode.results.record import Record
from labcode.scheduler.preemption import Link
from labcode.scheduler.request import Plan, Results
from labcode.simulation.clock import PaperClock


class Watched(PaperClock):
    """An executor like its parent, that watches the plans.

    Attributes
    ----------
    stays : dict of int to list of [start, end]
        When each request sat in the running batch (s); the end is None where it is not known.
    chunks : dict of int to list of (time, tokens)
        After each prefill step: when it ended (s), and how many positions the request then had in the cache.
    """

    def __init__(self, output: Sequence[int], cost: CostModel, link: Link | None = None) -> None:
        super().__init__(output, cost, link)
        self.stays: dict[int, list[list[float | None]]] = {}
        self.chunks: dict[int, list[tuple[float, int]]] = {}

    def execute(self, plan: Plan, start: float, limit: int, until: float) -> tuple[Results, float]:
        """Carry `plan` out as the paper clock does."""
        for state in plan.preempted:
            self.stays[state.id][-1][1] = start
        for state in plan.admitted:
            self.stays.setdefault(state.id, []).append([start, None])
        results, end = super().execute(plan, start, limit, until)
        for work in plan.prefill:
            self.chunks.setdefault(work.request.id, []).append((end, work.past + work.new))
        for number in results.finished:
            self.stays[number][-1][1] = end
        return results, end

    def closed(self, record: Record) -> dict[int, list[tuple[float, float]]]:
        """Return the stays of everybody who finished, with both ends (s)."""
        ends = record.finished
        return {
            number: [(float(start), float(ends[number] if end is None else end)) for start, end in stays]  # type: ignore[arg-type]
            for number, stays in self.stays.items()
            if ends[number] == ends[number]
        }


def seats_of(stays: list[tuple[float, float, int]], seats: int) -> list[int]:
    """Return a seat for each stay (start in s, end in s, number of the request), no two in one at a time.

    Raises
    ------
    ValueError
        If there are more stays at a time than seats.
    """
    free = [float("-inf")] * seats  # When each seat was given back.
    place = [0] * len(stays)
    for i in sorted(range(len(stays)), key=lambda i: (stays[i][0], stays[i][2])):
        start, end, number = stays[i]
        seat = next((k for k, since in enumerate(free) if since <= start + 1e-9), None)
        if seat is None:
            raise ValueError(f"seats = {seats!r}: request {number} is admitted when all are taken")
        free[seat], place[i] = end, seat
    return place
