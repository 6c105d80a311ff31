"""Downloads are checked before anybody can read them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from labcode.workload.download import SOURCES, Source, download

CONTENT = b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,3,4\n"


class Publisher:
    """A server that gives `content` and counts how often it was asked."""

    def __init__(self) -> None:
        publisher, self.content, self.asked = self, CONTENT, 0

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                publisher.asked += 1
                self.send_response(200)
                self.end_headers()
                self.wfile.write(publisher.content)

            def log_message(self, *arguments: object) -> None:
                """Say nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        address = f"http://127.0.0.1:{self.server.server_port}/data/trace.csv"
        self.source = Source(address, hashlib.sha256(CONTENT).hexdigest(), "CC-BY-4.0", 1)


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    made = Publisher()
    thread = Thread(target=made.server.serve_forever, args=(0.02,))
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def test_a_file_arrives_under_its_own_name(publisher, tmp_path):
    path = download("azure_conv", tmp_path / "new" / "folder", source=publisher.source)
    assert path.name == "trace.csv" and path.read_bytes() == CONTENT
    assert [p.name for p in path.parent.iterdir()] == ["trace.csv"]


def test_a_file_that_is_there_is_not_fetched_again(publisher, tmp_path):
    for _ in range(2):
        download("azure_conv", tmp_path / "folder", source=publisher.source)
    assert publisher.asked == 1


def test_a_damaged_file_is_fetched_again(publisher, tmp_path):
    path = download("azure_conv", tmp_path / "folder", source=publisher.source)
    path.write_bytes(b"damaged")
    assert download("azure_conv", tmp_path / "folder", source=publisher.source).read_bytes() == CONTENT


def test_a_wrong_digest_leaves_nothing_behind(publisher, tmp_path):
    publisher.content = b"other"
    with pytest.raises(ValueError, match=r"(?i)sha256"):
        download("azure_conv", tmp_path / "folder", source=publisher.source)
    assert list((tmp_path / "folder").iterdir()) == []


def test_a_wrong_download_does_not_destroy_what_was_there(publisher, tmp_path):
    publisher.content = b"other"
    old = tmp_path / "folder" / "trace.csv"
    old.parent.mkdir()
    old.write_bytes(b"mine")
    with pytest.raises(ValueError, match=r"(?i)sha256"):
        download("azure_conv", old.parent, source=publisher.source)
    assert old.read_bytes() == b"mine"


def test_a_publisher_that_is_not_there(publisher, tmp_path):
    gone = replace(publisher.source, url="http://127.0.0.1:9/trace.csv")
    with pytest.raises(OSError):
        download("azure_conv", tmp_path / "folder", source=gone)


def test_an_unknown_name_lists_the_known_ones(tmp_path):
    with pytest.raises(ValueError, match="known are azure_conv, azure_code"):
        download("sharegpt", tmp_path)


@pytest.mark.parametrize("name", SOURCES)
def test_sources_are_pinned(name):
    source = SOURCES[name]
    assert source.url.startswith("https://") and source.url.endswith(".csv")
    assert len(source.sha256) == 64 and source.rows > 5000 and source.licence
