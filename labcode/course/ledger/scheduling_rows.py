"""Rows about Orca's scheduler: lecture section 4."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from labcode.course.evidence import serving as evidence
from labcode.course.evidence.orca_evaluation import compare
from labcode.course.ledger.ledger import SEEDS, Row, exact, rows, shape


@rows("L06")
def timelines() -> Iterator[Row]:
    """The six requests of the diagrams."""
    got = evidence.six_request_diagrams()
    counts = [got["continuous_iterations"], got["static_iterations"]]
    yield exact("L06", "six requests, max_bs 3: iterations continuous, static", [10, 18], counts, "000 §4.1")
    for name, diagram in (("continuous", evidence.CONTINUOUS_DIAGRAM), ("static", evidence.STATIC_DIAGRAM)):
        drawn = got[f"{name}_rows"]
        same = [a.rstrip() == b.rstrip() for a, b in zip(drawn, diagram, strict=True)]  # type: ignore[call-overload]
        yield shape(
            "L06",
            f"{name}: every P, D, wait and idle cell",
            "the diagram",
            "the diagram, cell for cell",
            all(same),
            "000 §4.1",
        )


@rows("L33")
def orca_against_request_level() -> Iterator[Row]:
    """Orca's own workload on a paper machine of sixteen A100s."""
    ratios = [compare(n=250, seed=seed, ft_sizes=(1, 8), orca_sizes=(32,))["ratio"] for seed in SEEDS]
    yield shape(
        "L33",
        "GPT-3 175B, 16 A100s: Orca's rate over the request-level engine's at the target",
        "36.9 times (the paper)",
        f"{np.mean(ratios):.1f} times on average",
        [r > 5 for r in ratios],
        "000 §4.5",
    )
