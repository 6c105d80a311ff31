"""Serve the built book on this machine only."""

from __future__ import annotations

import errno
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files; says nothing about each of them; lets the browser ask again after a new build."""

    def end_headers(self) -> None:
        """Add the header that makes the browser check whether a page has changed."""
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def server(folder: Path, port: int) -> ThreadingHTTPServer:
    """Return a server of `folder` on `port` of 127.0.0.1, or on a free port if that one is taken; 0 asks for a free one."""
    handler = partial(QuietHandler, directory=str(folder))
    try:
        return ThreadingHTTPServer((HOST, port), handler)
    except OSError as error:
        if error.errno not in {errno.EADDRINUSE, errno.EACCES}:
            raise
        print(f"[book] port {port} cannot be had ({error.strerror}); taking a free one", flush=True)
        return ThreadingHTTPServer((HOST, 0), handler)


def serve(folder: Path, port: int) -> None:
    """Serve `folder` until Ctrl-C."""
    with server(folder, port) as httpd:
        print(f"[book] open http://{HOST}:{httpd.server_address[1]}/   (Ctrl-C ends)", flush=True)
        try:
            httpd.serve_forever()
        except KeyboardInterrupt:
            print("\n[book] bye", flush=True)
