"""A server of a few lines whose every delay a test decides."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

#: body of the request -> events as (delay before it in s, data); or a status with a body.
Script = Callable[[dict[str, Any]], "list[tuple[float, str]] | tuple[int, str]"]


def tokens(count: int, delay: float = 0.01, sizes: int = 1, usage: bool = True) -> list[tuple[float, str]]:
    """Return a stream of `count` tokens, `sizes` in each chunk."""
    events = []
    for made in range(sizes, count + 1, sizes):
        chunk: dict[str, Any] = {"choices": [{"text": "x" * sizes, "index": 0, "finish_reason": None}]}
        if usage:
            chunk["usage"] = {"prompt_tokens": 3, "completion_tokens": made, "total_tokens": made + 3}
        events.append((delay, json.dumps(chunk)))
    last = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": count, "total_tokens": count + 3}}
    return [*events, (0, json.dumps(last)), (0, "[DONE]")]


@contextlib.asynccontextmanager
async def faking(script: Script) -> AsyncIterator[str]:
    """Answer every POST by `script`; yields the address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                sizes = [
                    int(line.split(":")[1]) for line in head.split("\r\n") if line.lower().startswith("content-length")
                ]
                body = await reader.readexactly(sizes[0]) if sizes else b"{}"
                answer = script(json.loads(body)) if head.startswith("POST") else (200, "{}")
                if isinstance(answer, tuple):
                    status, text = answer
                    writer.write(f"HTTP/1.1 {status} x\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
                    continue
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                )
                for delay, data in answer:
                    await asyncio.sleep(delay)
                    if data == "CUT":
                        return writer.close()
                    event = f"data: {data}\n\n".encode()
                    writer.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
                writer.write(b"0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
