"""Rows of the textbook chapter: C01 to C12, nearly all of them arithmetic."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from labcode.course.evidence import budgets, fairness, serving
from labcode.course.evidence import logs as events
from labcode.course.evidence import model as mini
from labcode.course.evidence import queueing as queues
from labcode.course.ledger.ledger import Row, exact, rounded, rows, shape
from labcode.scheduler.kv_cache import Reservation
from labcode.simulation.buffers import filling


@rows("C01", "C10")
def measuring() -> Iterator[Row]:
    """One request's clocks, and a thousand requests' denominators."""
    one = events.one_request()
    yield exact(
        "C01",
        "TTFT, TPOT, end to end (s)",
        [0.3, 0.02, 0.9],
        [one["ttft"], one["tpot"], one["end_to_end"]],
        "003 ex. 31.1",
    )
    many = events.thousand_requests()
    yield exact(
        "C10",
        "submitted, successful, good (requests/s)",
        [10, 8.5, 7],
        [many["submitted_per_s"], many["finished_per_s"], many["goodput_per_s"]],
        "003 §31.7",
    )
    yield rounded("C10", "on target, of the successful (%)", 82.4, 100 * many["slo_of_finished"], 1, "003 §31.7")
    yield exact("C10", "on target, of the submitted (%)", 70, 100 * many["slo_of_submitted"], "003 §31.7")


@rows("C02", "C03")
def batches() -> Iterator[Row]:
    """Three requests on two seats, and three prompts in a rectangle."""
    ms = {
        (policy, rounds): [t * 1e3 for t in serving.abc_completions(policy, rounds)]
        for policy in ("early return", "continuous")
        for rounds in ((0.010, 0.010), (0.006, 0.010))
    }
    stated = {
        ("early return", (0.010, 0.010)): ([40, 10, 50], 100 / 3),
        ("continuous", (0.010, 0.010)): ([40, 10, 20], 70 / 3),
        ("early return", (0.006, 0.010)): ([28, 10, 34], 24),
        ("continuous", (0.006, 0.010)): ([32, 10, 20], 62 / 3),
    }
    for (policy, rounds), (figures, mean) in stated.items():
        name = "continuous" if policy == "continuous" else "static"
        source = "003 §31.2" if rounds[0] == 0.010 else "003 ex. 31.2"
        label = f"A = 4, B = 1, C = 1, rounds of {rounds[0] * 1e3:.0f} and 10 ms, {name}"
        got = ms[policy, rounds]
        yield exact("C02", f"{label}: completions (ms)", figures, got, source)
        yield exact("C02", f"{label}: mean (ms)", mean, float(np.mean(got)), source)
    used = mini.padded_prompts([64, 64, 256])
    yield exact(
        "C03",
        "lengths 64, 64, 256: linear, attention utilisation, as counted in the padded forward",
        [1 / 2, 3 / 8],
        [used["linear"], used["attention"]],
        "003 ex. 31.3",
    )


@rows("C04")
def pairs() -> Iterator[Row]:
    """Query-key pairs of the chunks that the engine ran, counted query by query, under every cutting."""
    cuts = {chunk: budgets.chunked_steps(300, chunk) for chunk in (1, 7, 64, 256, 300)}
    each = [(work.new, work.past) for work in cuts[64]]
    yield exact(
        "C04",
        "q s + q (q + 1)/2 for the chunks of 64 of a prompt of 300, counted in the run",
        [q * s + q * (q + 1) // 2 for q, s in ((64, 0), (64, 64), (64, 128), (64, 192), (44, 256))],
        [budgets.keys_seen(work) for work in cuts[64]],
        "003 eq. 31.4",
    )
    yield exact("C04", "positions and histories of these chunks", [64, 0, 64, 64, 64, 128, 64, 192, 44, 256],
                [number for pair in each for number in pair], "003 ex. 31.4")  # fmt: skip
    totals = {chunk: sum(map(budgets.keys_seen, works)) for chunk, works in cuts.items()}
    reread = {chunk: sum(work.past for work in works) for chunk, works in cuts.items()}
    yield shape(
        "C04",
        "pairs conserved under any cutting; what is read again grows with the cuts",
        "conserved; counted apart",
        f"{totals[300]:,} pairs in every cutting; {reread[300]:,} to {reread[1]:,} positions read again",
        set(totals.values()) == {300 * 301 // 2}
        and reread[300] == 0 < reread[256] < reread[64] < reread[7] < reread[1],
        "003 ex. 31.4",
    )


@rows("C05")
def pages() -> Iterator[Row]:
    """64 KiB a token, pages of 16 tokens, a pool of 64 MiB: what the runs took from their pool."""
    two, three = (budgets.blocks_taken(budgets.page_run(third)) for third in (None, 1024))
    whole = budgets.page_run(1024, memory=Reservation(budgets.POOL, budgets.whole_need))
    bound = max(budgets.blocks_taken(whole)[3:])  # the third alone, all of its bound reserved
    yield exact(
        "C05",
        "257 + 255; after one step; with a 256-token chunk; with the full bound of 1024 (pages)",
        [33, 33, 49, 97],
        [two[0], two[1], three[1], two[1] + bound],
        "003 §31.3",
    )
    pool = budgets.POOL // budgets.BLOCK
    waits = whole.requests.admitted[2] >= whole.requests.finished[:2].max()
    yield shape(
        "C05",
        "all three at their bounds do not fit: with its bound reserved the third waits for the others",
        "97 > 64",
        f"{two[1] + bound} > {pool}",
        two[1] + bound > pool and bool(waits),
        "003 §31.3",
    )
    yield exact("C05", "after two tokens each (pages)", 34, two[2], "003 ex. 31.5")


@rows("C06", "C07", "C08", "C12")
def queueing() -> Iterator[Row]:
    """Little's law, M/M/1, and quantiles that do not add."""
    area = queues.little_by_hand()
    yield exact(
        "C06",
        "[0, 2) and [1, 3) on [0, 3]: area, mean number, rate, mean time",
        [4, 4 / 3, 2 / 3, 2],
        [area["area"], area["mean_number"], area["rate"], area["mean_time"]],
        "003 ex. 31.6",
    )
    tails = queues.mm1_tails()
    for load, mean, p99 in ((80, 50, 230), (95, 200, 921)):
        yield rounded(
            "C07", f"M/M/1, µ = 100, λ = {load}: mean sojourn (ms)", mean, tails[f"mean_{load}"] * 1e3, 0, "003 §31.4"
        )
        yield rounded(
            "C07", f"M/M/1, µ = 100, λ = {load}: p99 sojourn (ms)", p99, tails[f"p99_{load}"] * 1e3, 0, "003 §31.4"
        )
    stages = queues.two_stages()
    yield exact(
        "C08",
        "two stages, p99 100 and 200 ms: 300 ms covers at least (%)",
        98,
        round(100 * stages["union_coverage"], 9),
        "003 ex. 31.8",
    )
    yield exact(
        "C08", "a joint law that reaches this bound (%)", 98, round(100 * stages["worst_coverage"], 9), "003 ex. 31.8"
    )
    apart = [abs(stages[key] - 0.3) > 0.01 for key in ("independent_p99", "worst_p99")]
    text = f"{1e3 * stages['independent_p99']:.0f} ms if independent, {1e3 * stages['worst_p99']:.0f} ms at worst"
    yield shape("C08", "counter-examples: p99 of the sum is not 300 ms", "not 300 ms", text, all(apart), "003 ex. 31.8")
    yield exact("C12", "20 requests/s, 0.4 s: number in the system", 8, queues.little_in_words(), "003 §31.4")


@rows("C09", "C11")
def streams_and_shares() -> Iterator[Row]:
    """A slow client's buffer, and two notions of a fair round."""
    kib = 1024
    full, _ = filling(12 * kib, 4 * kib, 64 * kib, event=256)
    yield exact("C09", "12 against 4 KiB/s into 64 KiB, an event at a time: full after (s)", 8, full, "003 ex. 31.10")
    rounds = 4
    turns = fairness.exercise_31_9(rounds)
    a, b = turns["requests"]
    yield exact("C11", "one request each: output tokens of B for each of A", 100, b / a, "003 ex. 31.9")
    each = [requests / rounds for requests in turns["tokens"]]
    yield exact("C11", "1000 tokens each: requests of A, of B, in a round", [100, 1], each, "003 ex. 31.9")
