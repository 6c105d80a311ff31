"""Three planted faults on the real server, recorded: ``python -m labcode.course.evidence.faults`` measures again.

The same metrics page is read every half second under four loads: a healthy one, more than the server can do, long
prompts among short ones, and clients that do not read.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pandas as pd

from labcode.course.evidence.real_server import busy, machine, server, today
from labcode.workload import Workload, fixed, unit_arrivals
from labcode.workload.synthetic import assemble

RECORD = Path(__file__).with_name("faults.csv")
SECONDS, EVERY, RATE = 14.0, 0.5, 3.0
FAULTS = ("healthy", "overload", "long prompts", "slow clients")
NAMES = ("requests_waiting", "queue_age_seconds", "requests_paused", "output_buffered_tokens", "kv_reserved_tokens")
OPTIONS = ("--model", "small", "--max-bs", "12", "--max-tokens", "1500", "--stall-timeout", "60", "--capacity", "65536")


def load_of(fault: str, seed: int = 0) -> Workload:
    """Return the schedule of a fault: 3 requests/s of 32 + 16 tokens, and what is wrong besides."""
    rng = np.random.default_rng(seed)
    rate = RATE * (6 if fault == "overload" else 1)
    n = int(rate * SECONDS)
    prompt = np.full(n, 32)
    if fault == "long prompts":
        prompt[7::8] = 500
    return assemble(fault, rate, unit_arrivals("poisson", n, rng), prompt, np.full(n, 16))


def numbers(page: str) -> dict[str, float]:
    """Return the values of a metrics page that matter here, and the buckets of the step times."""
    found = {name: float(value) for name, value in re.findall(r"^labcode_(\w+) ([\d.e+-]+)$", page, re.M)}
    kept = {name: found[name] for name in NAMES}
    itl = re.findall(r'^labcode_inter_token_latency_seconds_bucket\{le="([^"]+)"\} ([\d.e+-]+)$', page, re.M)
    return kept | {f"itl_le_{edge}": float(count) for edge, count in itl}


async def slow_client(url: str, number: int) -> None:
    """Ask for a long answer and read a few bytes of it a second."""
    parts = urlsplit(url)
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(sock, (parts.hostname, parts.port))
    body = json.dumps(
        {"prompt": [number + 1] * 8, "max_tokens": 1500, "stream": True, "return_token_ids": True}
    ).encode()
    lines = (
        "POST /v1/completions HTTP/1.1",
        "Host: x",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    )
    await loop.sock_sendall(sock, "\r\n".join([*lines, "", ""]).encode() + body)
    try:
        while await loop.sock_recv(sock, 64):
            await asyncio.sleep(0.5)
    finally:
        sock.close()


async def watched(url: str, fault: str) -> pd.DataFrame:
    """Put the load on, and read the metrics meanwhile."""
    import httpx

    from labcode.loadtest.exchange import Target
    from labcode.loadtest.open_loop import open_loop

    target = Target(url, vocab=4096)
    await open_loop(target, fixed(4, 4.0, 32, 8), stop_at=3.0)  # warm-up
    slow = [asyncio.create_task(slow_client(url, i)) for i in range(9 if fault == "slow clients" else 0)]
    test = asyncio.create_task(open_loop(target, load_of(fault), stop_at=SECONDS))
    rows = []
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        loop = asyncio.get_running_loop()
        start = loop.time()
        for k in range(int(SECONDS / EVERY)):
            await asyncio.sleep(max(0.0, start + k * EVERY - loop.time()))
            at = loop.time() - start
            rows.append({"fault": fault, "time_s": at, **numbers((await client.get("/metrics")).text)})
    measured = await test
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    summary = measured.summary()
    kept = {key: summary[key] for key in ("submitted", "finished", "unfinished", "ttft_p50_s", "ttft_p99_s")}
    return pd.DataFrame(rows).assign(**kept)


def measured() -> pd.DataFrame:
    """Measure all four; a row a reading."""
    frames = []
    for fault in FAULTS:
        state = busy()
        with server(*OPTIONS, "--drain-timeout", "0") as running:
            frames.append(asyncio.run(watched(running.url, fault)).assign(load=state))
    return pd.concat(frames, ignore_index=True).assign(machine=machine(), date=today())


def recorded() -> pd.DataFrame:
    """Return the recorded readings."""
    return pd.read_csv(RECORD)


def itl_above(frame: pd.DataFrame, seconds: str) -> pd.Series:
    """Return, for each reading of one fault, the share of the tokens since the last one that came later than that."""
    total = frame["itl_le_+Inf"].diff()
    return 1 - frame[f"itl_le_{seconds}"].diff() / total.where(total > 0)


if __name__ == "__main__":
    result = measured()
    result.to_csv(RECORD, index=False, float_format="%.5g")
    print(result.groupby("fault", sort=False)[[*NAMES, "finished", "unfinished", "ttft_p50_s"]].max().to_string())
