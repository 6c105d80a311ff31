"""A process that serves: it listens on loopback, stops on a signal, and loses nothing on the way out."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Iterator

import uvicorn
from fastapi import FastAPI

from labcode.server.app import application
from labcode.server.backend import Backend
from labcode.server.connections import Connection, listen
from labcode.server.options import Options
from labcode.server.profile import write_samples

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Server(uvicorn.Server):
    """uvicorn, but the process's signals are ours: ending on request is no failure."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


def configured(app: FastAPI, options: Options) -> Server:
    """Return the server of an application."""
    grace = options.drain_timeout + options.stall_timeout + 1
    return Server(
        uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            lifespan="on",
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            timeout_graceful_shutdown=int(grace + 1),
        )
    )


@contextlib.asynccontextmanager
async def serving(
    backend: Backend, options: Options, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[tuple[str, FastAPI, Callable[[], None]]]:
    """Serve within this event loop; yields address, application and what stops it, and ends in good order.

    Parameters
    ----------
    port : int
        0 takes a free one.
    """
    app = application(backend, options)
    server = configured(app, options)
    listening = listen(host, port)
    address = listening.getsockname()
    shown = f"[{address[0]}]" if ":" in address[0] else address[0]
    task = asyncio.create_task(server.serve([listening]))
    drains: list[asyncio.Task[None]] = []

    def stop() -> None:
        if not drains:
            drains.append(asyncio.create_task(drain(server, app, options.drain_timeout)))

    try:
        while not server.started:
            if task.done():
                await task
                raise OSError("the server did not start")
            await asyncio.sleep(0.01)
        yield f"http://{shown}:{address[1]}", app, stop
    finally:
        stop()
        await drains[0]
        await task


async def drain(server: Server, app: FastAPI, seconds: float) -> None:
    """Take nobody new, let the others finish for a while, end the rest with a reason, and then close the doors."""
    engine = app.state.engine
    engine.stop()
    end = engine.now() + seconds
    while engine.streams and engine.now() < end:
        await asyncio.sleep(0.02)
    engine.give_up()
    server.should_exit = True


async def serve(
    backend: Backend, options: Options, host: str, port: int, ready: Callable[[str], None], profile: str | None = None
) -> None:
    """Serve until a signal comes; `ready` hears the address, and `profile` names a CSV for the last steps' times.

    The table is written at the end, and whenever SIGUSR1 comes: a price that is fitted to it then holds for this very
    process.
    """
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, stopped.set)
    async with serving(backend, options, host, port) as (address, app, _):
        samples = app.state.engine.samples
        if profile is not None:
            loop.add_signal_handler(signal.SIGUSR1, write_samples, profile, samples)
        ready(address)
        await stopped.wait()
    if profile is not None:
        write_samples(profile, samples)
