"""What HTTP costs: tokens a second of 32 streams through the server, beside the bare model loop, in one run.

Two rates of each: over the wall clock, and over the processor time of the process.  The first is what clients get; on a
machine that others use it mostly says how often the server's two threads and its client had to wait for a core, while
the bare loop is one thread.  So the bound is on the second, as everywhere in this folder.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("psutil")

import psutil

from labcode.course.evidence.real_server import one_thread, server
from labcode.loadtest.exchange import Target
from labcode.loadtest.open_loop import open_loop
from labcode.model import SMALL, Chunk, KVCache, forward_ragged, random_model
from labcode.workload import from_arrays

BATCH, PROMPT, TOKENS, TURNS = 32, 16, 128, 5


class Rate(NamedTuple):
    """Tokens per second on the wall, and per second of processor time."""

    wall: float
    processor: float


def bare() -> Rate:
    """Let 32 sequences prefill and decode, with nothing around them."""
    model = random_model(SMALL)
    caches = [KVCache(model) for _ in range(BATCH)]
    rng = np.random.default_rng(0)
    worked = time.process_time()
    logits = forward_ragged(model, [Chunk(rng.integers(0, SMALL.vocab, PROMPT), cache) for cache in caches])
    start = time.perf_counter()
    for _ in range(TOKENS - 1):
        tokens = logits.argmax(axis=1)
        logits = forward_ragged(model, [Chunk([token], cache) for token, cache in zip(tokens, caches, strict=True)])
    wall, processor = time.perf_counter() - start, time.process_time() - worked
    return Rate(BATCH * (TOKENS - 1) / wall, BATCH * TOKENS / processor)


def bare_in_a_process() -> Rate:
    """Do the same in a process of its own, with as many threads as the server's model has: one."""
    said = subprocess.run(
        [sys.executable, "-m", "benchmarks.bench_server"],
        cwd=Path(__file__).parents[1],
        env=one_thread(),
        capture_output=True,
        text=True,
        check=True,
    )
    return Rate(*map(float, said.stdout.split()))


def served() -> Rate:
    """Let 32 clients stream from a server; its processor time holds connections, HTTP and metrics as well."""
    load = from_arrays([0.0] * BATCH, [PROMPT] * BATCH, [TOKENS] * BATCH)
    with server("--model", "small", "--max-bs", str(BATCH)) as running:
        process = psutil.Process(running.pid)
        before = sum(process.cpu_times()[:2])
        measured = asyncio.run(open_loop(Target(running.url, vocab=SMALL.vocab), load))
        processor = sum(process.cpu_times()[:2]) - before
    requests = measured.log.requests
    assert (requests["outcome"] == "finished").all()
    together = requests["finished"].max() - requests["first_token"].min()
    return Rate(float((requests["output_tokens"] - 1).sum() / together), float(BATCH * TOKENS / processor))


def shares(turns: int = TURNS) -> Rate:
    """Return the served share of the bare rates, medians; the two take turns, since others may use the machine."""
    pairs = [(served(), bare_in_a_process()) for _ in range(turns)]
    wall, processor = (float(np.median([ours[k] / alone[k] for ours, alone in pairs])) for k in range(2))
    return Rate(wall, processor)


def test_throughput_at_batch_32(benchmark):
    share = benchmark.pedantic(shares, rounds=1)
    benchmark.extra_info.update(share._asdict())
    print(share)
    assert share.processor >= 0.8


if __name__ == "__main__":
    print(*bare())
