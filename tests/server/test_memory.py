"""A server's memory does not grow with the requests that it has served."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

pytest.importorskip("psutil")
pytest.importorskip("fastapi")

import psutil

from labcode.course.evidence.real_server import server

from .client import Got, connect, read_answer, request_bytes

MIB = 2**20
WARM_UP, COUNTED, CONNECTIONS = 600, 2000, 16


async def ask_many(url: str, n: int) -> Counter[str]:
    """Send `n` short requests over open connections: streams, whole answers, mistakes, and clients that leave."""
    numbers, seen = iter(range(n)), Counter[str]()

    async def one_connection() -> None:
        reader, writer = await connect(url)
        for i in numbers:
            body = {"prompt": [i % 256, i // 256 % 256, 7], "max_tokens": 2, "stream": i % 2 == 0}
            if i % 10 == 5:
                body["max_tokens"] = 10**6  # refused: more than the server gives
            writer.write(request_bytes(body, keep=True))
            if i % 10 == 3:
                writer.close()
                reader, writer = await connect(url)
                seen["left"] += 1
                continue
            got = Got()
            await read_answer(reader, got)
            seen[str(got.status)] += 1
        writer.close()

    await asyncio.gather(*(one_connection() for _ in range(CONNECTIONS)))
    return seen


@pytest.mark.slow
def test_memory_is_flat() -> None:
    """After a warm-up, 2,000 requests more leave the process as large as it was: a kilobyte kept of each would show."""
    with server("--model", "tiny") as running:
        asyncio.run(asyncio.wait_for(ask_many(running.url, WARM_UP), 120))
        before = psutil.Process(running.pid).memory_info().rss
        seen = asyncio.run(asyncio.wait_for(ask_many(running.url, COUNTED), 120))
        growth = psutil.Process(running.pid).memory_info().rss - before
    assert seen == {"200": 0.8 * COUNTED, "400": 0.1 * COUNTED, "left": 0.1 * COUNTED}
    assert growth < 2 * MIB, f"{growth / COUNTED:.0f} bytes a request"
