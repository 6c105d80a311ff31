"""Limits on what a client may send, before anything reads it."""

from __future__ import annotations

import asyncio
import json

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from labcode.server.protocol import error


class BodyLimit:
    """Answers 413 to a body that is too large, and 408 to one that does not come.

    Parameters
    ----------
    app : ASGI application
    most : int
        Bytes.
    seconds : float
        Within which the whole body must be here.
    """

    def __init__(self, app: ASGIApp, most: int, seconds: float) -> None:
        self.app, self.most, self.seconds = app, most, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body, within the limits, and hand it on."""
        if scope["type"] != "http" or scope["method"] not in ("POST", "PUT", "PATCH"):
            await self.app(scope, receive, send)
            return
        length = dict(scope["headers"]).get(b"content-length", b"")
        if length.isdigit() and int(length[:20]) > self.most:
            await refuse(send, 413, f"a body of {length[:20].decode()} bytes: at most {self.most}")
            return
        body = bytearray()
        try:
            async with asyncio.timeout(self.seconds):
                while (message := await receive())["type"] == "http.request":
                    body += message.get("body", b"")
                    if len(body) > self.most:
                        await refuse(send, 413, f"the body is too large: at most {self.most} bytes")
                        return
                    if not message.get("more_body", False):
                        break
                else:
                    return  # the client has gone
        except TimeoutError:
            await refuse(send, 408, f"the body did not come within {self.seconds:g} s")
            return
        whole: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def replay() -> Message:
            return whole.pop() if whole else await receive()

        await self.app(scope, replay, send)


async def refuse(send: Send, status: int, reason: str) -> None:
    """Answer with an error and close the connection: what else comes on it is not read."""
    body = json.dumps(error(reason, "invalid_request_error")).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
