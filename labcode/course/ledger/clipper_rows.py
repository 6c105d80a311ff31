"""Rows about Clipper: lecture section 2 and exercise 2."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from labcode.course.evidence import clipper as evidence
from labcode.course.ledger.ledger import SEEDS, Row, exact, rows, shape, within


@rows("L07", "L08")
def profiles() -> Iterator[Row]:
    """Latency profiles."""
    got = evidence.exercise_2()
    yield exact(
        "L07",
        "3 + 0.5 B ms within 20 ms: largest batch, inputs/s",
        [34, 1700],
        [got["max_batch"], got["qps"]],
        "000 ex. 2",
    )
    yield exact(
        "L07",
        "doubled slope: time of the old batch (ms), new largest batch",
        [37, 17],
        [got["slow_latency"] * 1e3, got["slow_max_batch"]],
        "000 ex. 2",
    )
    yield exact(
        "L07",
        "AIMD from the new limit: batches in time, late at, backs off to",
        [1, 18, 16],
        [got["batches_until_late"], got["times_out_at"], got["backs_off_to"]],
        "000 ex. 2",
    )
    toys = evidence.toy_profiles()
    ratio = max(float(t["max_batch"]) for t in toys) / min(float(t["max_batch"]) for t in toys)
    yield shape(
        "L08",
        "three toy models: largest batches differ widely (the paper: 241 times)",
        "hundreds of times",
        f"{ratio:.0f} times",
        ratio > 100,
        "000 §2.2",
    )


@rows("L09", "L10")
def controllers() -> Iterator[Row]:
    """AIMD and a fixed batch through a slow phase; means over the seeds."""
    got = evidence.controllers(SEEDS)
    source = "000 §2.3"
    yield within(
        "L09", "AIMD, 5 % noise: late share, steady state", "≈ 0.20", got["aimd steady"].mean, 0.14, 0.26, source
    )
    yield within("L09", "AIMD: late share in the slow phase", "≈ 0.35", got["aimd slow"].mean, 0.29, 0.41, source)
    yield within("L09", "AIMD with head-room: late share", "≈ 0", got["headroom steady"].mean, 0, 0.02, source)
    yield within("L09", "AIMD with head-room: throughput lost", "≈ 2 %", got["headroom cost"].mean, 0, 0.04, source)
    late = [evidence.strategy_run("fixed", seed).late_share(evidence.SLO, *evidence.SLOW) for seed in SEEDS]
    yield exact("L10", "fixed batch in the slow phase: late share (every seed)", [1.0] * len(SEEDS), late, source)


@rows("L11")
def delayed() -> Iterator[Row]:
    """Waiting for a larger batch."""
    got = evidence.delayed_batching(SEEDS)
    for wait, stated in ((0, 0.64), (2, 0.40)):
        yield within(
            "L11",
            f"high fixed cost, load 80 %, +{wait} ms: busy share",
            f"{stated:.2f}",
            got[f"high {wait} busy"].mean,
            stated - 0.05,
            stated + 0.05,
            "000 §2.4",
        )
    saved = got["low 0 busy"].mean - got["low 2 busy"].mean
    yield shape(
        "L11",
        "low fixed cost: waiting saves a few points only",
        "a few points",
        f"{100 * saved:.1f} points",
        bool(np.abs(saved) < 0.1),
        "000 §2.4",
    )
