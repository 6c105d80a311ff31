"""An answer on its way to a client, who may read slowly, stop reading, or be gone."""

from __future__ import annotations

import asyncio
import codecs
import json
from typing import Any

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from labcode.scheduler.states import State
from labcode.server.backend import Backend
from labcode.server.connections import abort, takes
from labcode.server.engine import DOES_NOT_READ, STOPPING, Stream
from labcode.server.protocol import DONE, Envelope, error, event, status_of


class Answer(Response):
    """Sends what a stream yields: as events, or as one body.

    The status is not sent before the first token, so that what goes wrong earlier still gets one of its own.  When the
    client goes away, whatever the answer waits for, its request is cancelled.
    """

    def __init__(self, stream: Stream, envelope: Envelope, backend: Backend, stall_timeout: float) -> None:
        self.stream, self.envelope, self.backend = stream, envelope, backend
        self.stall_timeout = stall_timeout
        self.decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.background = None
        self.scope: Scope = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer, watching whether anybody is there."""
        self.scope = scope
        work = asyncio.current_task()
        assert work is not None
        gone = asyncio.create_task(until_gone(receive))
        left = done = False

        def leave(_: asyncio.Task[None]) -> None:
            nonlocal left
            if not gone.cancelled() and not done:
                left = True
                work.cancel()

        gone.add_done_callback(leave)
        try:
            await (self._events(send) if self.envelope.body.stream else self._body(send))
        except TimeoutError:
            self.stream.close(State.TIMED_OUT, DOES_NOT_READ.format(seconds=self.stall_timeout))
            abort(scope)
        except OSError:
            pass
        except asyncio.CancelledError:
            if not left:
                raise
            work.uncancel()
        finally:
            done = True
            gone.cancel()
            self.stream.close()

    async def _body(self, send: Send) -> None:
        ids: list[int] = []
        while taken := await self.stream.take():
            ids += taken
        if self.stream.outcome is State.FINISHED:
            content = self.envelope.whole(self.backend.tokenizer.decode(ids), ids, self._finish(ids))
            await self._whole(send, 200, content)
        else:
            await self._failure(send)

    async def _events(self, send: Send) -> None:
        taken = await self.stream.take()
        if not taken:
            await self._failure(send)
            return
        await self._send(send, start(200, [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]))
        made, more = 0, True
        while more:
            made += len(taken)
            following: list[int] = []
            # The end comes with the last token wherever it is known by then.
            ended = self.stream.outcome is not None and not self.stream.tokens
            finished = ended and self.stream.outcome is State.FINISHED
            text = self.decoder.decode(self.backend.tokenizer.bytes_of(taken), final=finished)
            await self._piece(send, self.envelope.chunk(text, taken, made, self._finish(taken) if finished else None))
            if not ended:
                following = await self.stream.take()
            more, taken = bool(following), following
        if self.stream.outcome is State.FINISHED:
            await self._piece(send, self.envelope.last(made), more=False)
        else:
            failure = error(self.stream.reason, str(self.stream.outcome.value if self.stream.outcome else ""))
            await self._piece(send, event(failure) + DONE, more=False)

    def _finish(self, ids: list[int]) -> str:
        stopped = self.backend.stop is not None and ids[-1] == self.backend.stop
        return "stop" if stopped and not self.envelope.body.ignore_eos else "length"

    async def _failure(self, send: Send) -> None:
        """Answer a request that ended before anything of its answer was sent."""
        outcome, reason = self.stream.outcome, self.stream.reason
        assert outcome is not None
        await self._whole(send, status_of(outcome, reason == STOPPING), error(reason, outcome.value))

    async def _whole(self, send: Send, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if status == 503:
            headers.append((b"retry-after", b"1"))
        await self._send(send, start(status, headers))
        await self._piece(send, body, more=False)

    async def _piece(self, send: Send, body: bytes, more: bool = True) -> None:
        await self._send(send, {"type": "http.response.body", "body": body, "more_body": more})

    async def _send(self, send: Send, message: Message) -> None:
        """Send; TimeoutError if the client takes nothing for too long."""
        if takes(self.scope):  # a timer for each token would cost more than the sending
            await send(message)
            return
        async with asyncio.timeout(self.stall_timeout):
            await send(message)


async def until_gone(receive: Receive) -> None:
    """Return when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


def start(status: int, headers: list[tuple[bytes, bytes]]) -> Message:
    """Return the message that starts an answer."""
    return {"type": "http.response.start", "status": status, "headers": headers}
