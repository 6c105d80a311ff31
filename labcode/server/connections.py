"""Connections whose buffers are small, so that a slow client is felt, and that can be cut."""

from __future__ import annotations

import asyncio
import socket

from starlette.types import Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

#: Bytes that wait in the process for one client before sending to it blocks.
WRITE_BUFFER = 4096
#: Bytes that wait in the operating system (which may round).
SOCKET_BUFFER = 4096

_open: dict[tuple[str, int], Connection] = {}


class Connection(H11Protocol):
    """An HTTP connection with a bounded buffer."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Bound the buffer."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=WRITE_BUFFER)
        if self.client is not None:
            _open[self.client] = self

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        if self.client is not None:
            _open.pop(self.client, None)
        super().connection_lost(exc)


def connection_of(scope: Scope) -> Connection | None:
    """Return the open connection of a request, or None."""
    return _open.get(tuple(scope["client"])) if scope.get("client") else None


def takes(scope: Scope) -> bool:
    """Return whether sending to the client of a request would not have to wait now."""
    connection = connection_of(scope)
    return connection is not None and not connection.flow.write_paused


def abort(scope: Scope) -> None:
    """Cut the connection of a request: what waits for its client is thrown away."""
    connection = connection_of(scope)
    if connection is not None:
        connection.transport.abort()


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes a free one.

    Raises
    ------
    OSError
        If the address is taken or not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER)
        listening.bind((host, port))
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening
