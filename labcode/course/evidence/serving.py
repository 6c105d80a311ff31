"""The seed figures that the engines answer: rows L06, L32, L33, C02 and C03 of the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from labcode import workload
from labcode.cost import StepShape
from labcode.results.run import Run
from labcode.results.timeline import OneStep, timeline
from labcode.simulate import simulate
from labcode.simulation.batches import BatchRules
from labcode.workload import Workload

#: The lecture's two diagrams (section 4.1), a line a request, blanks at the end left out.
CONTINUOUS_DIAGRAM = ("PDDDDD", "PDD", " PDDDDDDDD", "  ·PD", "   ··PDDDD", "      PDD")
STATIC_DIAGRAM = (
    "PDDDDD",
    "PDD---",
    " ·····PDDDDDDDD",
    "  ····PD-------",
    "   ···PDDDD----",
    "      ·········PDD",
)


def six_requests() -> Workload:
    """Return the six requests of the diagrams: arrivals in iterations, outputs in tokens; prompts do not
    matter."""
    return workload.from_arrays([0, 0, 1, 2, 3, 6], [12, 7, 9, 5, 8, 6], [6, 3, 9, 2, 5, 3], name="six requests")


def six_request_run(engine: str, **options: object) -> Run:
    """Run them with three places, every iteration one second, on the ``"continuous"`` or ``"static"``
    engine."""
    settings: dict = {"max_bs": 3, "memory": "oracle", "capacity": 1000, "cost": OneStep()} | options
    return simulate(six_requests(), engine=engine, **settings)


def six_request_diagrams() -> dict[str, object]:
    """L06: the number of iterations and the rows of letters of both engines."""
    both = {name: timeline(six_request_run(name)) for name in ("continuous", "static")}
    counts = {f"{name}_iterations": len(seen) for name, seen in both.items()}
    return counts | {f"{name}_rows": tuple(seen.row(i) for i in range(6)) for name, seen in both.items()}


def one_seat_equals_sequential(n: int = 200, rate: float = 0.5, seed: int = 0) -> dict[str, bool]:
    """L32: whether one seat gives the sequential engine's time stamps, bit for bit: every token of every
    request."""
    load = workload.chat(n=n, rate=rate, seed=seed)
    one = simulate(load, max_bs=1, memory="max:8192")
    alone = simulate(load, engine="sequential", memory="max:8192")
    columns = ("admitted", "first_token", "finished")
    same = {name: bool(np.array_equal(one.requests[name], alone.requests[name])) for name in columns}
    same["tokens"] = all(np.array_equal(one.token_times(i), alone.token_times(i)) for i in range(n))
    return same


@dataclass(frozen=True)
class RoundCost:
    """Decode rounds whose time depends on the number of sequences only; prefill is taken as done and costs
    nothing.

    Attributes
    ----------
    rounds : tuple of float
        Seconds of a round of 1, 2, ... sequences.
    """

    rounds: tuple[float, ...]

    def step_time(self, shape: StepShape) -> float:
        """Return the time of a step in seconds: 0 without decodes."""
        return self.rounds[shape.n_decode - 1] if shape.n_decode else 0.0


def abc_completions(
    policy: str, rounds: Sequence[float] = (0.010, 0.010), outputs: Sequence[int] = (4, 1, 1)
) -> list[float]:
    """C02: completion times (s) of requests that need `outputs` more decode rounds, all there at time 0.

    Two places.  A request's output is its remaining tokens and the one that its prefill, which is free, gave.

    Parameters
    ----------
    policy : {"whole batch", "early return", "continuous"}
        Answers wait for the batch; or go out at once while the place stays empty; or it is filled again.
    rounds : sequence of float
        Seconds of a round of one sequence, and of two.
    """
    load = workload.from_arrays([0.0] * len(outputs), 1, [more + 1 for more in outputs])
    return abc_run(load, policy, RoundCost(tuple(rounds))).requests["finished"].tolist()


def abc_run(load: Workload, policy: str, cost: RoundCost) -> Run:
    """Run a small workload with two places under one of the three policies of :func:`abc_completions`."""
    if policy == "continuous":
        # Whoever comes in decodes in the very next round: its prefill took no time.
        return simulate(load, max_bs=2, memory="unlimited", cost=cost, prefill="prefill_first")
    rules = {
        "whole batch": BatchRules(keep_places=False, early_return=False),
        "early return": BatchRules(keep_places=False, early_return=True),
    }
    if policy not in rules:
        raise ValueError(f"policy = {policy!r}: known are {', '.join([*rules, 'continuous'])}")
    return simulate(load, engine="static", max_bs=2, memory="unlimited", cost=cost, batch=rules[policy])


def utilisation(prompts: Sequence[int]) -> dict[str, float]:
    """C03: useful share of a padded batch: linear layers (tokens), and full square attention (pairs)."""
    if not len(prompts) or min(prompts) < 1:
        raise ValueError(f"prompts = {list(prompts)!r}: at least one prompt, each of at least 1 token")
    lengths = np.asarray(prompts, dtype=float)
    n, longest = len(lengths), lengths.max()
    return {
        "linear": float(lengths.sum() / (n * longest)),
        "attention": float((lengths**2).sum() / (n * longest**2)),
    }
