"""What HTTP costs: tokens a second of 32 streams through the server, beside the bare model loop, in one run.

Two rates of each: over the wall clock, and over the processor time of the process.  The first is what clients get; on a
machine that others use it mostly says how often somebody had to wait for a core, and the served side needs more of
them: the bare loop is one thread, the server two, and its client a process.  So the two take turns, second by second;
beside each pair stands how many cores other programs used meanwhile; the bound on the wall's ratio is held against the
quiet pairs only, the bound on the processor's against all.

The client only writes down what came: one that parses every event needs a fifth of a core, and where cores are scarce
it takes that from the server.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("psutil")

import psutil
import threadpoolctl

from labcode.course.evidence.real_server import server
from labcode.loadtest.exchange import Target
from labcode.model import SMALL, Chunk, KVCache, forward_ragged, random_model

BATCH, PROMPT, TOKENS = 32, 16, 128
#: Pairs at least, and at most if too few of them were quiet; a pair takes some four seconds.
PAIRS, MOST = 5, 15
#: Cores that other programs may use in a quiet pair, and how many quiet pairs make a verdict.
QUIET, ENOUGH = 0.3, 3


class Rate(NamedTuple):
    """Tokens per second on the wall, and per second of processor time."""

    wall: float
    processor: float


class Pair(NamedTuple):
    """Served over bare, on the wall and by processor time, and the cores that others used in the busier half."""

    wall: float
    processor: float
    others: float


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


class Reader(asyncio.Protocol):
    """A client that sends one request and writes down when how many tokens of its answer came."""

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.pieces: list[tuple[float, int]] = []
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        transport.write(self.request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        """Note when it came; an event has one token, as long as nobody falls behind."""
        if tokens := data.count(b'"text":'):
            self.pieces.append((time.perf_counter(), tokens))

    def connection_lost(self, problem: Exception | None) -> None:
        """Say that this is all."""
        self.closed.set_result(None)


async def read(url: str) -> list[Reader]:
    """Ask for 32 answers at once, and return what came."""
    where, target = urlsplit(url), Target(url, vocab=SMALL.vocab)
    readers = []
    for number in range(BATCH):
        body = json.dumps(target.body(number, PROMPT, TOKENS)).encode()
        about = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        reader = Reader(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\n{about}".encode() + body)
        await asyncio.get_running_loop().create_connection(lambda r=reader: r, where.hostname, where.port)
        readers.append(reader)
    await asyncio.gather(*(reader.closed for reader in readers))
    return readers


def spent(process: psutil.Process) -> float:
    """Return the processor time that a process has had, s."""
    return float(sum(process.cpu_times()[:2]))


def busy() -> float:
    """Return the processor time that all programs have had, s."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0))


def served(url: str, process: psutil.Process) -> Rate:
    """Let 32 clients stream from a server; its processor time holds connections, HTTP and metrics as well."""
    before = spent(process)
    readers = asyncio.run(read(url))
    processor = spent(process) - before
    assert all(sum(tokens for _, tokens in reader.pieces) == TOKENS for reader in readers)
    # While all 32 were there: the last one's first token begins it, the first one's last token ends it.
    start, end = max(r.pieces[0][0] for r in readers), min(r.pieces[-1][0] for r in readers)
    together = sum(tokens for reader in readers for at, tokens in reader.pieces if start < at <= end)
    return Rate(together / (end - start), BATCH * TOKENS / processor)


def watched(run: Callable[[], Rate], *processes: psutil.Process) -> tuple[Rate, float]:
    """Return what `run` returns, and the cores that others than this process and `processes` used meanwhile."""
    ours = [psutil.Process(), *processes]
    start, before = time.perf_counter(), busy() - sum(map(spent, ours))
    rate = run()
    return rate, (busy() - sum(map(spent, ours)) - before) / (time.perf_counter() - start)


def measured() -> list[Pair]:
    """Let the two take turns until enough pairs were quiet, or time is up."""
    pairs: list[Pair] = []
    loop = [sys.executable, "-m", "benchmarks.bench_server"]
    alone = subprocess.Popen(loop, cwd=Path(__file__).parents[1], stdin=-1, stdout=-1, text=True)
    assert alone.stdin is not None and alone.stdout is not None

    def turn() -> Rate:
        alone.stdin.write("again\n")
        alone.stdin.flush()
        return Rate(*map(float, alone.stdout.readline().split()))

    with alone, server("--model", "small", "--max-bs", str(BATCH)) as running:
        process, other = psutil.Process(running.pid), psutil.Process(alone.pid)
        served(running.url, process), turn()  # warm-up
        while len(pairs) < PAIRS or (len(quiet(pairs)) < ENOUGH and len(pairs) < MOST):
            ours, beside = watched(lambda: served(running.url, process), process)
            theirs, others = watched(turn, other)
            pairs.append(Pair(ours.wall / theirs.wall, ours.processor / theirs.processor, max(others, beside)))
            print("wall {:.2f}, processor {:.2f}, others {:.2f} cores".format(*pairs[-1]))
    return pairs


def quiet(pairs: list[Pair]) -> list[Pair]:
    """Return the pairs during which the machine was ours."""
    return [pair for pair in pairs if pair.others < QUIET]


def test_throughput_at_batch_32(benchmark):
    pairs = benchmark.pedantic(measured, rounds=1)
    wall, processor, others = np.median(pairs, axis=0).tolist()
    calm = [pair.wall for pair in quiet(pairs)]
    said = {"wall": wall, "processor": processor, "others": others, "quiet pairs": len(calm)}
    said["wall, quiet pairs"] = float(np.median(calm)) if calm else float("nan")
    benchmark.extra_info.update(said)
    print(said)
    assert processor >= 0.8
    assert len(calm) < ENOUGH or said["wall, quiet pairs"] >= 0.8


if __name__ == "__main__":
    with threadpoolctl.threadpool_limits(1, user_api="blas"):  # as many as the server's model has
        for _ in sys.stdin:
            print(*bare(), flush=True)
