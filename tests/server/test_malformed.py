"""Whatever comes in: an answer below 500, and a reason with every refusal."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labcode.server.backend import Backend
from labcode.server.options import Options
from labcode.server.serve import serving

from .client import connect

LIMITS = Options(max_body=20_000, body_timeout=1.0, max_tokens=8, default_tokens=2, max_tenants=3, order="drr")


@contextmanager
def background(backend: Backend, options: Options) -> Iterator[str]:
    """Serve from a thread of its own; yields the address."""
    loop, ready, told = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    where: list[str] = []

    async def run() -> None:
        async with serving(backend, options) as (url, _, _):
            where.append(url)
            ready.set()
            await told.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    assert ready.wait(20)
    yield where[0]
    loop.call_soon_threadsafe(told.set)
    thread.join(30)
    loop.close()


@pytest.fixture(scope="module")
def url(tiny: Backend) -> Iterator[str]:
    """Address of a server with narrow limits."""
    with background(tiny, LIMITS) as address:
        yield address


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[httpx.Client]:
    """A client of it."""
    with httpx.Client(base_url=url, timeout=20) as opened:
        yield opened


def reason(answer: httpx.Response) -> str:
    """Return the reason of a refusal, which must be there."""
    message: str = answer.json()["error"]["message"]
    assert message
    return message


PATHS = ("/v1/completions", "/v1/chat/completions")

WRONG: list[tuple[str, bytes, int, str]] = [
    (PATHS[0], b"", 400, "body"),
    (PATHS[0], b"{", 400, "JSON"),
    (PATHS[0], b"[" * 15_000, 400, "body"),
    (PATHS[0], b'{"prompt": "x", "max_tokens": ' + b"9" * 5000 + b"}", 400, "body"),
    (PATHS[0], b'{"prompt": "x", "max_tokens": NaN}', 400, "max_tokens"),
    (PATHS[0], b'{"prompt": "x", "max_tokens": 1e999}', 400, "max_tokens"),
    (PATHS[0], b'{"prompt": "\\ud800"}', 400, "prompt"),
    (PATHS[0], b'{"prompt": "x", "model": "\\ud800"}', 404, "is not served here"),
    (PATHS[0], b"\xff\xfe", 400, "JSON"),
    (PATHS[0], b'{"prompt": []}', 400, "prompt"),
    (PATHS[0], b'{"prompt": [256]}', 400, "token 256 is not in the vocabulary"),
    (PATHS[0], b'{"prompt": [-1]}', 400, "prompt"),
    (PATHS[0], b'{"prompt": ["a", "b"]}', 400, "prompt"),
    (PATHS[0], b'{"prompt": "x", "max_tokens": 0}', 400, "max_tokens"),
    (PATHS[0], b'{"prompt": "x", "max_tokens": 9}', 400, "at most 8"),
    (PATHS[0], b'{"prompt": "x", "n": 2}', 400, "n:"),
    (PATHS[0], b'{"prompt": "x", "stop": ["a"]}', 400, "stop"),
    (PATHS[0], b'{"prompt": "x", "model": "other"}', 404, "'other' is not served here"),
    (PATHS[0], b'{"prompt": "' + b"x" * 2000 + b'"}', 400, "context of 1024"),
    (PATHS[0], b"x" * 30_000, 413, "at most 20000"),
    (PATHS[1], b'{"messages": []}', 400, "messages"),
    (PATHS[1], b'{"messages": [{"role": "cook", "content": "x"}]}', 400, "role"),
    (PATHS[1], b'{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}', 400, "content"),
    (PATHS[1], b'{"messages": [{"role": "user", "content": "x"}], "tools": [{}]}', 400, "tools"),
]


@pytest.mark.parametrize(("path", "content", "status", "says"), WRONG)
def test_each_mistake_is_named(client: httpx.Client, path: str, content: bytes, status: int, says: str) -> None:
    """The status fits, and the reason names what is wrong."""
    answer = client.post(path, content=content, headers={"content-type": "application/json"})
    assert (answer.status_code, says in reason(answer)) == (status, True), answer.text


def test_headers_methods_and_paths(client: httpx.Client) -> None:
    """Wrong deadlines, methods and paths are refused with a reason."""
    for text in ("soon", "-1", "nan", "inf", "0"):
        answer = client.post(PATHS[0], json={"prompt": "x"}, headers={"X-Deadline-Seconds": text})
        assert answer.status_code == 400 and "X-Deadline-Seconds" in reason(answer)
    assert client.post(PATHS[0], json={"prompt": "x"}).status_code == 200  # One of the three: no name
    tenants = [client.post(PATHS[0], json={"prompt": "x"}, headers={"X-Tenant": f"t{i}"}) for i in range(4)]
    assert [answer.status_code for answer in tenants] == [200, 200, 400, 400] and "X-Tenant" in reason(tenants[3])
    assert client.get(PATHS[0]).status_code == 405
    assert client.get("/v1/nothing").status_code == 404 and client.get("/v1/models/nobody").status_code == 404
    assert client.post(PATHS[0], content=b"prompt=x").status_code == 400


def test_a_body_that_does_not_come(url: str) -> None:
    """A client that promises a body and sends none gets 408, one that promises too much 413, at once."""

    async def promise(size: int) -> bytes:
        reader, writer = await connect(url)
        head = (
            f"POST {PATHS[0]} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
        )
        writer.write(head.encode() + b'{"prompt"')
        line = await asyncio.wait_for(reader.readline(), 10)
        writer.close()
        return line

    assert b" 408 " in asyncio.run(promise(100))
    assert b" 413 " in asyncio.run(promise(10**12))


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("prompt", "messages", "model", "max_tokens", "stream", "stream_options", "n", "stop", "temperature", "echo")


@pytest.mark.slow
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from(PATHS),
    body=st.dictionaries(st.sampled_from(FIELDS), anything, max_size=5) | anything,
    good=st.booleans(),
)
def test_no_body_makes_an_error_of_the_servers(client: httpx.Client, path: str, body: Any, good: bool) -> None:
    """Bodies of every shape, with and without the part that is needed: 200 or 4xx with a reason."""
    if good and isinstance(body, dict):
        body.setdefault("prompt", "x")
        body.setdefault("messages", [{"role": "user", "content": "x"}])
    content = json.dumps(body).encode()
    answer = client.post(path, content=content, headers={"content-type": "application/json"})
    assert answer.status_code < 500, answer.text
    if answer.status_code != 200:
        reason(answer)


@pytest.mark.slow
def test_the_published_schema(url: str) -> None:
    """Schemathesis' own cases for every route of the published OpenAPI schema: nothing above 499."""
    schemathesis = pytest.importorskip("schemathesis")
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    tried = []
    for result in schema.get_all_operations():
        operation = result.ok()

        @settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy(), served=st.booleans())
        def ask(case: Any, served: bool) -> None:
            if served and isinstance(case.body, dict):
                # Half of the bodies lose what is refused at the door, so that what they ask for comes to the model.
                for name in ("model", "max_tokens", "max_completion_tokens"):
                    case.body.pop(name, None)
            assert case.call().status_code < 500

        ask()
        tried.append(operation.path)
    assert set(tried) >= {*PATHS, "/v1/models", "/health", "/metrics"}
