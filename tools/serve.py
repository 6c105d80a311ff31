"""Serve the built book on this machine only."""

from __future__ import annotations

import errno
import gzip
import io
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO

HOST = "127.0.0.1"


VERSIONED = re.compile(r"\?(v|digest)=\w+$")
TEXTS = {".html", ".css", ".js", ".svg", ".json", ".txt", ".ipynb"}


@lru_cache(maxsize=256)
def compressed(path: str, changed: int) -> bytes:
    """Return a file as gzip; `changed` is the time of its last change in ns, so that a new build is read anew."""
    return gzip.compress(Path(path).read_bytes(), 6, mtime=0)


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files, texts compressed; says nothing about each of them; lets the browser ask again after a new build.

    An address with a version (``?v=...``) names one content for ever, so nobody needs to ask for it again.
    """

    protocol_version = "HTTP/1.1"  # one connection for many files
    found = False  # the answer is a file

    def send_response(self, code: int, message: str | None = None) -> None:
        """Begin an answer."""
        self.found = code in {HTTPStatus.OK, HTTPStatus.NOT_MODIFIED}
        super().send_response(code, message)

    def send_head(self) -> BinaryIO | io.BytesIO | None:
        """Send the headers; return what is to follow, or None. Texts go out as gzip to whoever takes it."""
        path = Path(self.translate_path(self.path))
        takes = "gzip" in self.headers.get("Accept-Encoding", "")
        # Whoever has the file already, and asks only whether it has changed, is answered as ever.
        if not (takes and path.suffix in TEXTS and path.is_file()) or "If-Modified-Since" in self.headers:
            return super().send_head()
        about = path.stat()
        body = compressed(str(path), about.st_mtime_ns)
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Vary", "Accept-Encoding")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", self.date_time_string(about.st_mtime))
        self.end_headers()
        return io.BytesIO(body)

    def end_headers(self) -> None:
        """Add the header that says how long a browser may keep what it got."""
        kept = self.found and VERSIONED.search(self.path) is not None
        self.send_header("Cache-Control", "public, max-age=31536000, immutable" if kept else "no-cache")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def server(folder: Path, port: int) -> ThreadingHTTPServer:
    """Return a server of `folder` on `port` of 127.0.0.1; on a free port if that one is taken, or if it is 0."""
    handler = partial(QuietHandler, directory=str(folder))
    try:
        return ThreadingHTTPServer((HOST, port), handler)
    except OSError as error:
        if error.errno not in {errno.EADDRINUSE, errno.EACCES}:
            raise
        print(f"[book] port {port} cannot be had ({error.strerror}); taking a free one", flush=True)
        return ThreadingHTTPServer((HOST, 0), handler)


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve `folder` on a free port in the background; give the address, without a slash at its end."""
    with server(folder, 0) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://{HOST}:{httpd.server_address[1]}"
        finally:
            httpd.shutdown()
            thread.join()


def serve(folder: Path, port: int) -> None:
    """Serve `folder` until Ctrl-C."""
    with server(folder, port) as httpd:
        print(f"[book] open http://{HOST}:{httpd.server_address[1]}/   (Ctrl-C ends)", flush=True)
        try:
            httpd.serve_forever()
        except KeyboardInterrupt:
            print("\n[book] bye", flush=True)
