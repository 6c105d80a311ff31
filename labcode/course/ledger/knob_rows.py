"""Rows about the knobs of continuous batching: lecture section 6 and exercise 5."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from labcode.course.ledger.ledger import SEEDS, Row, approx, rows, shape, within
from labcode.course.ledger.serving_rows import ORACLE, of, run, summaries
from labcode.results.metrics import SLO, Summary
from labcode.results.run import Run
from labcode.simulate import simulate
from labcode.workload import long_context

LONG_SLO = SLO(ttft=2.0, tpot=0.050)


def long_run(seed: int, rate: float, memory: str) -> Run:
    """Run the long-context load at a rate under a memory policy."""
    return simulate(long_context(n=600, rate=1.0, seed=seed).at_rate(rate), memory=memory)


def waiting_for_memory(run: Run, seats: int = 256) -> float:
    """Return the share of the time in which requests wait although seats are free."""
    segments = run.record.segments
    running = segments["n_prefill"] + segments["n_decode"]
    length = segments["end"] - segments["start"]
    return float(length[(segments["waiting"] > 0) & (running < seats)].sum() / length.sum())


@rows("L26", "L27")
def reservation() -> Iterator[Row]:
    """What is taken and what is written."""
    held = [long_run(seed, 8, "max:8192").summary(LONG_SLO) for seed in SEEDS]
    yield within(
        "L26",
        "long context, rate 8, reserve-max: reserved share",
        "≈ 0.9",
        of("kv_reserved_of_pool", held),
        0.80,
        1.0,
        "000 §6.1",
    )
    yield within(
        "L26",
        "long context, rate 8, reserve-max: written share",
        "≈ 0.25",
        of("kv_used_of_pool", held),
        0.18,
        0.40,
        "000 §6.1",
    )
    yield within(
        "L26", "long context, rate 8, reserve-max: mean batch", "forty-odd", of("mean_batch", held), 40, 50, "000 §6.1"
    )
    attained = of("slo_of_submitted", held)
    yield shape(
        "L26",
        "long context, rate 8, reserve-max: misses its SLO (90 %)",
        "overloaded",
        f"{max(attained):.2f} at the most",
        [share < 0.9 for share in attained],
        "000 §6.1",
    )

    at = {
        (memory, rate): [long_run(seed, rate, memory) for seed in SEEDS]
        for memory in ("pow2", "oracle", "unlimited")
        for rate in (8, 12)
    }
    share = {key: np.array([one.attainment(LONG_SLO) for one in each]) for key, each in at.items()}
    near = np.abs(share["pow2", 8] - share["oracle", 8]) <= 0.05
    apart = np.abs(share["pow2", 8] - share["oracle", 8]).max()
    yield shape(
        "L27",
        "rate 8: SLO attainment, pow2 against oracle (within 0.05)",
        "nearly equal",
        f"{apart:.3f} apart at the most",
        near,
        "000 §6.1",
    )
    waits = [waiting_for_memory(one) for one in at["oracle", 12]]
    yield shape(
        "L27",
        "rate 12, oracle: requests wait although seats are free",
        "memory-bound",
        f"in {np.mean(waits):.0%} of the time on average",
        [share > 0 for share in waits],
        "000 §6.1",
    )
    yield shape(
        "L27",
        "rate 12: unlimited memory meets the SLO (90 %)",
        "all",
        f"{share['unlimited', 12].min():.3f} at the least",
        share["unlimited", 12] >= 0.9,
        "000 §6.1",
    )


def same_times(a: Run, b: Run) -> bool:
    """Whether two runs agree in every time stamp."""
    return all(
        np.array_equal(getattr(a.record, f), getattr(b.record, f)) for f in ("admitted", "first_token", "finished")
    )


@rows("L28")
def seats() -> Iterator[Row]:
    """Too few seats, and more than are used."""
    waits = of("ttft_p50_s", summaries(48, max_bs=8, **ORACLE))
    yield shape(
        "L28",
        "rate 48, max_bs 8: median TTFT in tens of seconds",
        "tens of seconds",
        f"{np.mean(waits):.0f} s on average",
        [10 <= wait < 100 for wait in waits],
        "000 §6.2",
    )
    same = [same_times(run(s, 48, max_bs=256, **ORACLE), run(s, 48, max_bs=512, **ORACLE)) for s in SEEDS]
    yield shape("L28", "rate 48: max_bs 256 and 512", "identical", "every time stamp identical", same, "000 §6.2")


def factors(clock: str, before: list[Summary], after: list[Summary]) -> str:
    """Return by what the P99 and the maximum of a clock grow, on average over the seeds, in words."""
    p99, most = (np.mean(of(f"{clock}_{k}_s", after)) / np.mean(of(f"{clock}_{k}_s", before)) for k in ("p99", "max"))
    return f"{p99:.1f} and {most:.1f} times as large on average"


@rows("L29", "L30")
def order() -> Iterator[Row]:
    """First come, first served against shortest first."""
    fcfs, sjf, rough = (summaries(40, max_bs=64, order=o, **ORACLE) for o in ("fcfs", "sjf", "sjf:1"))
    source = "000 §6.3"
    yield approx("L29", "rate 40, max_bs 64, FCFS: median TTFT (s)", 3.4, of("ttft_p50_s", fcfs), 0.40, source)
    yield approx("L29", "rate 40, max_bs 64, SJF: median TTFT (s)", 0.1, of("ttft_p50_s", sjf), 0.40, source)
    yield approx("L29", "rate 40, max_bs 64, FCFS: SLO attainment", 0.23, of("slo_of_submitted", fcfs), 0.40, source)
    yield approx("L29", "rate 40, max_bs 64, SJF: SLO attainment", 0.74, of("slo_of_submitted", sjf), 0.40, source)
    tails = [all(b[k] > a[k] for k in ("ttft_p99_s", "ttft_max_s")) for a, b in zip(fcfs, sjf, strict=True)]
    yield shape("L29", "SJF: P99 and largest TTFT exceed FCFS's", "larger", factors("ttft", fcfs, sjf), tails, source)
    kept = [
        (c["slo_of_submitted"] - a["slo_of_submitted"]) / (b["slo_of_submitted"] - a["slo_of_submitted"])
        for a, b, c in zip(fcfs, sjf, rough, strict=True)
    ]
    yield shape(
        "L29",
        "σ = 1 keeps most of SJF's gain in attainment",
        "most",
        f"{np.mean(kept):.0%} on average",
        [k > 0.5 for k in kept],
        source,
    )

    same = [same_times(run(s, 40, max_bs=256, **ORACLE), run(s, 40, max_bs=256, order="sjf", **ORACLE)) for s in SEEDS]
    yield shape(
        "L30", "rate 40, max_bs 256: FCFS and SJF", "identical", "every time stamp identical", same, "000 ex. 5"
    )
    each = summaries(40, max_bs=256, **ORACLE)
    for what, stated, key, unit in (
        ("mean TTFT (ms)", 31.8, "ttft_mean_s", 1e3),
        ("P99 TTFT (ms)", 115, "ttft_p99_s", 1e3),
        ("SLO attainment", 1.0, "slo_of_submitted", 1),
        ("most running", 169, "most_running", 1),
    ):
        yield approx(
            "L30", f"rate 40, max_bs 256: {what}", stated, [value * unit for value in of(key, each)], 0.25, "000 ex. 5"
        )


@rows("L31")
def joining() -> Iterator[Row]:
    """How prefill joins the decodes."""
    source = "000 §6.4"
    for rate, stated in ((40, 90), (48, 131)):
        mixed = summaries(rate, **ORACLE)
        largest = [value * 1e3 for value in of("itl_max_s", mixed)]
        yield approx("L31", f"rate {rate}, mixed: largest ITL (ms)", stated, largest, 0.40, source)
        first = summaries(rate, prefill="prefill_first", **ORACLE)
        worse = [all(b[k] > a[k] for k in ("itl_p99_s", "itl_max_s")) for a, b in zip(mixed, first, strict=True)]
        yield shape(
            "L31",
            f"rate {rate}: P99 and largest ITL of prefill_first exceed mixed's",
            "larger",
            factors("itl", mixed, first),
            worse,
            source,
        )
