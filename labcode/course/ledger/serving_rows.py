"""Rows about static and continuous batching: lecture sections 1.2, 2.6 and 5."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from labcode.cost.hardware import SeqWork, step_cost
from labcode.course.ledger.ledger import SEEDS, Row, approx, exact, rows, shape, within
from labcode.experiments.goodput import goodput
from labcode.results.metrics import SLO, Summary
from labcode.results.run import Run
from labcode.simulate import simulate
from labcode.workload import Workload, chat, from_arrays

CHAT_SLO = SLO(ttft=1.0, tpot=0.050)
STATIC: dict[str, Any] = {"engine": "static", "max_bs": 128, "memory": "unlimited"}
MAX: dict[str, Any] = {"memory": "max:8192"}
ORACLE: dict[str, Any] = {"memory": "oracle"}


@cache
def requests(seed: int, n: int = 600) -> Workload:
    """Return the chat workload of a seed, at one request a second."""
    return chat(n=n, rate=1.0, seed=seed)


def run(seed: int, rate: float, n: int = 600, **options: Any) -> Run:
    """Run the chat requests of a seed at a rate; the same requests whatever the rate and the options."""
    return simulate(requests(seed, n).at_rate(rate), **options)


def summaries(rate: float, n: int = 600, **options: Any) -> list[Summary]:
    """Return the summaries over the ledger's seeds."""
    return [run(seed, rate, n, **options).summary(CHAT_SLO) for seed in SEEDS]


def of(key: str, each: list[Summary]) -> list[float]:
    """Return one key of every summary."""
    return [summary[key] for summary in each]


@rows("L12", "L13", "L14")
def decode_profile() -> Iterator[Row]:
    """Arithmetic on the paper GPU."""
    for batch, stated in ((1, 6.0), (256, 19.0)):
        ours = step_cost("llama3-8b", "h100", [SeqWork(1, 1024)] * batch).time * 1e3
        yield approx(
            "L12",
            f"Llama-3-8B on one H100: decode step, B = {batch}, context 1024 (ms)",
            stated,
            ours,
            0.03,
            "000 §1.2",
        )
    largest = {c: largest_decode_batch(c, 0.020) for c in (512, 8192)}
    yield within(
        "L13", "largest decode batch within 20 ms, context 512", "500-odd", float(largest[512]), 500, 599, "000 §2.6"
    )
    yield exact("L13", "largest decode batch within 20 ms, context 8192", 34, largest[8192], "000 §2.6")
    yield exact(
        "L14",
        "requests that fit when each reserves 8192 slots",
        52,
        most_at_once(8192),
        "000 §5.2",
    )


def most_at_once(slots: int) -> float:
    """Return how many of a crowd of requests the engine runs at once when each reserves `slots` slots."""
    crowd = from_arrays(np.zeros(200), np.full(200, 10), np.full(200, 10))
    return simulate(crowd, memory=f"max:{slots}").summary()["most_running"]


def largest_decode_batch(context: int, limit: float) -> int:
    """Return the largest batch whose decode step stays within `limit` seconds."""
    batch = 0
    while step_cost("llama3-8b", "h100", [SeqWork(1, context)] * (batch + 1)).time <= limit:
        batch += 1
    return batch


@rows("L16", "L17", "L18", "L19", "L20")
def load_sweep() -> Iterator[Row]:
    """Static and continuous batching at single rates."""
    static = of("ttft_p50_s", summaries(1, **STATIC))
    yield approx("L16", "rate 1: median TTFT, static B = 128 (s)", 1.6, static, 0.35, "000 §5.2")
    continuous = [value * 1e3 for value in of("ttft_p50_s", summaries(1, **MAX))]
    yield approx("L16", "rate 1: median TTFT, continuous (ms)", 12, continuous, 0.15, "000 §5.2")

    at_32, oracle_32 = summaries(32, **MAX), summaries(32, **ORACLE)
    short_16, short_32 = summaries(16, memory="max:4096"), summaries(32, memory="max:4096")
    at_16 = summaries(16, **MAX)
    yield within(
        "L17",
        "rate 32: SLO attainment, reserve-max 8192",
        "0.20",
        of("slo_of_submitted", at_32),
        0.10,
        0.35,
        "000 §5.2",
    )
    yield exact(
        "L17", "rate 32: SLO attainment, oracle (every seed)", [1.0] * 20, of("slo_of_submitted", oracle_32), "000 §5.2"
    )

    yield approx(
        "L18", "rate 16, reserve-max 8192 (tokens/s)", 3715, of("output_tokens_per_s", at_16), 0.10, "000 ex. 3"
    )
    yield approx(
        "L18", "rate 16, reserve-max 8192: SLO attainment", 1.0, of("slo_of_submitted", at_16), 0.10, "000 ex. 3"
    )
    yield approx("L18", "rate 16, reserve-max 8192: mean batch", 30, of("mean_batch", at_16), 0.10, "000 ex. 3")
    yield approx(
        "L18", "rate 16, reserve-max 8192: reserved share", 0.58, of("kv_reserved_of_pool", at_16), 0.10, "000 ex. 3"
    )
    yield approx(
        "L18", "rate 16, reserve-max 4096 (tokens/s)", 3714, of("output_tokens_per_s", short_16), 0.10, "000 ex. 3"
    )
    yield approx(
        "L18", "rate 16, reserve-max 4096: reserved share", 0.29, of("kv_reserved_of_pool", short_16), 0.10, "000 ex. 3"
    )

    yield approx(
        "L19", "rate 32, reserve-max 8192 (tokens/s)", 4516, of("output_tokens_per_s", at_32), 0.15, "000 ex. 3"
    )
    yield approx("L19", "rate 32, reserve-max 8192: mean batch", 39, of("mean_batch", at_32), 0.15, "000 ex. 3")
    yield approx(
        "L19", "rate 32, reserve-max 4096 (tokens/s)", 5748, of("output_tokens_per_s", short_32), 0.15, "000 ex. 3"
    )
    yield approx("L19", "rate 32, reserve-max 4096: mean batch", 61, of("mean_batch", short_32), 0.15, "000 ex. 3")
    yield approx(
        "L19", "rate 32, reserve-max 4096: SLO attainment", 1.0, of("slo_of_submitted", short_32), 0.15, "000 ex. 3"
    )
    yield within("L20", "requests over 4096 of 600", "1", of("refused", short_16), 0, 4, "000 ex. 3")


@cache
def goodputs(name: str) -> tuple[float, ...]:
    """Return the goodput (requests/s) of a system over the seeds: static, max or oracle."""
    options = {"static": STATIC, "max": MAX, "oracle": ORACLE}[name]
    return tuple(goodput(requests(seed), CHAT_SLO, 0.9, **options).rate for seed in SEEDS)


@rows("L21", "L22")
def goodput_rows() -> Iterator[Row]:
    """The largest rate at 90 %, and the machines that follow from it."""
    for name, label, stated in (
        ("static", "static B = 128", 0.10),
        ("max", "reserve-max", 20.34),
        ("oracle", "oracle", 63.24),
    ):
        yield approx(
            "L21", f"goodput at 90 %, 600 requests: {label} (requests/s)", stated, goodputs(name), 0.25, "000 §5.3"
        )
    # The machines follow from our own goodputs (means over seeds); the static one to L21's tolerance.
    machines = {name: int(np.ceil(100 / np.mean(goodputs(name)))) for name in ("static", "max", "oracle")}
    yield approx("L22", "H100s for 100 requests/s, static B = 128", 1000, machines["static"], 0.25, "000 ex. 7")
    yield exact(
        "L22",
        "H100s for 100 requests/s: reserve-max, oracle",
        [5, 2],
        [machines["max"], machines["oracle"]],
        "000 ex. 7",
    )


@rows("L23", "L24", "L25")
def overload_rows() -> Iterator[Row]:
    """Throughput in overload, over all and in the steady state, for short and long runs."""
    keys = (("output_tokens_per_s", "overall"), ("steady_tokens_per_s", "steady"))
    stated = {
        ("L23", 600): (7336, 10354),
        ("L23", 3000): (10363, 11850),
        ("L24", 600): (1495, 1590),
        ("L24", 3000): (1412, 1418),
    }
    for (id, n), figures in stated.items():
        system, label, source = (
            (ORACLE, "oracle", "000 §5.4, ex. 8") if id == "L23" else (STATIC, "static B = 128", "000 ex. 8")
        )
        each = summaries(128, n, **system)
        for (key, name), figure in zip(keys, figures, strict=True):
            yield approx(id, f"rate 128, {label}, {n} requests: {name} (tokens/s)", figure, of(key, each), 0.15, source)
    prefills = [sum(step_cost("llama3-8b", "h100", [SeqWork(int(p))]).time for p in requests(s).prompt) for s in SEEDS]
    yield approx("L25", "prefill alone for the 600 requests (s of GPU time)", 6.8, prefills, 0.10, "000 §5.4")


@rows("L32")
def one_seat() -> Iterator[Row]:
    """One seat is the sequential engine."""
    same = []
    for seed in SEEDS:
        one, alone = run(seed, 0.5, 200, max_bs=1, **MAX), run(seed, 0.5, 200, engine="sequential", **MAX)
        same.append(
            all(
                np.array_equal(getattr(one.record, f), getattr(alone.record, f))
                for f in ("admitted", "first_token", "finished")
            )
        )
    yield shape(
        "L32", "max_bs = 1 and the sequential engine: every time stamp", "identical", "identical", same, "000 §5.1"
    )
