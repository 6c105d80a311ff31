"""A small HTTP client with its hands on the socket: it can read slowly, leave in the middle, send what is malformed."""

from __future__ import annotations

import asyncio
import json
import socket
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from labcode.model import Llama, generate


@dataclass
class Got:
    """What came back: status, headers, events of a stream (or the body), token ids, and whether [DONE] came."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    tokens: list[int] = field(default_factory=list)
    finish: str | None = None
    error: str | None = None
    done: bool = False
    cut: bool = False

    @property
    def outcome(self) -> str:
        """What became of the request, as its client sees it."""
        if self.status == 200:
            if self.done and self.error is None:
                return "finished"
            return {"timed_out": "timed_out"}.get(self.error or "", "cut" if self.cut else "failed")
        return {429: "refused", 504: "timed_out", 503: "refused"}.get(self.status, "cut" if self.cut else "failed")


async def connect(url: str, receive_buffer: int | None = None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection, with a small receive buffer if asked."""
    parts = urlsplit(url)
    sock = socket.socket()
    if receive_buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, (parts.hostname, parts.port))
    return await asyncio.open_connection(sock=sock, limit=1 << 20 if receive_buffer is None else receive_buffer)


def request_bytes(
    body: dict[str, Any] | bytes, path: str = "/v1/completions", keep: bool = False, **headers: str
) -> bytes:
    """Return the bytes of a POST; `keep` leaves the connection open for the next one."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: x", "Content-Type: application/json", f"Content-Length: {len(content)}"]
    lines.append(f"Connection: {'keep-alive' if keep else 'close'}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


async def post(
    url: str,
    body: dict[str, Any] | bytes,
    path: str = "/v1/completions",
    leave_after: int | None = None,
    **headers: str,
) -> Got:
    """Send a request and read the answer; leave after so many tokens if asked (0: at once)."""
    got = Got()
    try:
        reader, writer = await connect(url)
    except OSError:
        got.cut = True
        return got
    try:
        writer.write(request_bytes(body, path, **headers))
        await writer.drain()
        if leave_after == 0:
            return got
        await read_answer(reader, got, leave_after)
    except (OSError, asyncio.IncompleteReadError):
        got.cut = True
    finally:
        writer.close()
    return got


async def read_answer(reader: asyncio.StreamReader, got: Got, leave_after: int | None = None) -> None:
    """Read an answer into `got`."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    got.status = int(head[0].split()[1])
    got.headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in head[1:] if line)}
    if "text/event-stream" not in got.headers.get("content-type", ""):
        got.body = await reader.readexactly(int(got.headers["content-length"]))
        if got.status == 200:
            answer = json.loads(got.body)
            got.tokens, got.done = answer["choices"][0].get("token_ids", []), True
            got.finish = answer["choices"][0]["finish_reason"]
        return
    while size := int(await reader.readline(), 16):
        data = await reader.readexactly(size + 2)
        for line in data.split(b"\n\n"):
            if not line.startswith(b"data: "):
                continue
            if line == b"data: [DONE]":
                got.done = True
                continue
            answer = json.loads(line[6:])
            if "error" in answer:
                got.error = answer["error"]["type"]
                continue
            for choice in answer["choices"]:
                got.tokens += choice.get("token_ids", [])
                got.finish = choice["finish_reason"] or got.finish
        if leave_after is not None and len(got.tokens) >= leave_after:
            return
    await reader.readline()  # the end of the last, empty chunk: the next answer begins after it


class Alone:
    """What the model says to a prompt when nobody else is there; each is computed once."""

    def __init__(self, model: Llama) -> None:
        self.model = model
        self.known: dict[tuple[int, ...], list[int]] = {}

    def __call__(self, prompt: list[int], tokens: int) -> list[int]:
        """Return so many tokens after a prompt."""
        known = self.known.get(tuple(prompt), [])
        if len(known) < tokens:
            known = self.known[tuple(prompt)] = generate(self.model, prompt, tokens)
        return known[:tokens]
