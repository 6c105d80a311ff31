"""One request and its answer, as its client sees them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np

from labcode.checks import integer, positive

#: Outcome of an answer by its status; any other is a failure.
OUTCOME_OF = {429: "refused", 503: "refused", 408: "timed_out", 504: "timed_out"}

Clock = Callable[[], float]


@dataclass
class Exchange:
    """What became of one request; times in seconds after the start of the test.

    Attributes
    ----------
    number : int
    scheduled : float
        When it should have gone out.  In a closed loop nobody says so beforehand, and it is when it went out.
    sent : float
        When it went out.
    prompt, limit : int
        Tokens of its prompt (as planned, then as the server counts them) and of output that it asked for.
    pieces : list of (float, int or None)
        When each piece of the answer that held a token came, and how many it held; None where the server does not say.
    output : int or None
        Tokens in all, as the server counts them.
    status : int
        Of HTTP; 0 without an answer.
    outcome : str
        One of `labcode.results.outcomes.OUTCOMES`.
    reason : str
    ended : float
        When the last thing of it came.
    tenant : str
    """

    number: int
    scheduled: float
    sent: float = float("nan")
    prompt: int = 1
    limit: int = 1
    pieces: list[tuple[float, int | None]] = field(default_factory=list)
    output: int | None = None
    status: int = 0
    outcome: str = "unfinished"
    reason: str = ""
    ended: float = float("nan")
    tenant: str = ""

    @property
    def late(self) -> float:
        """How much later than planned it went out, in seconds."""
        return self.sent - self.scheduled

    @property
    def counted(self) -> bool:
        """Whether it is known how many tokens each piece held."""
        return all(tokens is not None for _, tokens in self.pieces)


@dataclass(frozen=True)
class Target:
    """The server under test, and how it is asked.

    Attributes
    ----------
    url : str
        Up to and without ``/v1``.
    model : str
        As the server calls it; "" leaves it out.
    vocab : int or None
        Prompts are random tokens below this number; None sends words, of which a server makes as many tokens as it
        likes (it reports how many).
    patience : float
        Seconds after which a client gives up.
    counts : bool
        Whether to ask for the number of tokens in every chunk (``continuous_usage_stats``, an extension that not every
        server knows).
    api_key : str
    seed : int
        Of the prompts.
    """

    url: str
    model: str = ""
    vocab: int | None = None
    patience: float = 300.0
    counts: bool = True
    api_key: str = ""
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"url = {self.url!r}: an address with http:// or https:// is needed")
        if self.vocab is not None:
            integer("vocab", self.vocab, at_least=2)
        positive("patience", self.patience)

    def client(self) -> httpx.AsyncClient:
        """Return a client without a limit of its own on connections: a queue here would be a queue unseen."""
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=256, keepalive_expiry=2.0)
        return httpx.AsyncClient(base_url=self.url.rstrip("/"), headers=headers, limits=limits, timeout=None)

    def body(self, number: int, prompt: int, limit: int) -> dict[str, Any]:
        """Return the body of request `number`: a prompt of its own, the same in every test with this seed."""
        rng = np.random.default_rng([self.seed, number])
        text: Any
        if self.vocab is None:
            text = " ".join(WORDS[i] for i in rng.integers(0, len(WORDS), prompt))
        else:
            text = rng.integers(0, self.vocab, prompt).tolist()
        options: dict[str, Any] = {"include_usage": True}
        if self.counts:
            options["continuous_usage_stats"] = True
        body = {"prompt": text, "max_tokens": limit, "stream": True, "stream_options": options, "ignore_eos": True}
        return body | ({"model": self.model} if self.model else {})


WORDS = ("queue", "batch", "token", "page", "block", "step", "plan", "cache", "first", "last", "long", "short")


async def ask(client: httpx.AsyncClient, target: Target, exchange: Exchange, clock: Clock) -> None:
    """Send a request, read its answer to the end, and write down in `exchange` what came when."""
    body = target.body(exchange.number, exchange.prompt, exchange.limit)
    headers = {"X-Tenant": exchange.tenant} if exchange.tenant else {}
    exchange.sent = clock()
    try:
        async with (
            asyncio.timeout(target.patience),
            client.stream("POST", "/v1/completions", json=body, headers=headers) as answer,
        ):
            exchange.status = answer.status_code
            if answer.status_code == 200:
                await _read(answer, exchange, clock)
            else:
                text = (await answer.aread()).decode(errors="replace")
                exchange.outcome = OUTCOME_OF.get(answer.status_code, "failed")
                exchange.reason = f"{answer.status_code}: {_message(text)}"
    except asyncio.CancelledError:  # the observation ends
        exchange.outcome, exchange.reason = "unfinished", ""
        raise
    except TimeoutError:
        exchange.outcome, exchange.reason = "cancelled", f"the client gave up after {target.patience:g} s"
    except httpx.HTTPError as problem:
        exchange.outcome, exchange.reason = "failed", f"{type(problem).__name__}: {problem}"
    except ValueError as problem:
        exchange.outcome, exchange.reason = "failed", f"an answer that cannot be read: {problem}"
    exchange.ended = clock()


async def _read(answer: httpx.Response, exchange: Exchange, clock: Clock) -> None:
    """Read a stream of events."""
    seen = 0
    exchange.outcome, exchange.reason = "failed", "the stream broke off"
    async for data in _events(answer):
        now = clock()
        if data == "[DONE]":
            if exchange.outcome == "failed" and exchange.reason == "the stream broke off":
                done = bool(exchange.pieces)
                exchange.outcome, exchange.reason = (
                    ("finished", "") if done else ("failed", "an answer without a token")
                )
            return
        event = json.loads(data)
        if "error" in event:
            kind = str(event["error"].get("type", ""))
            exchange.outcome = "timed_out" if kind == "timed_out" else "failed"
            exchange.reason = str(event["error"].get("message", kind))
            continue
        usage = event.get("usage")
        if usage is not None:
            exchange.output, exchange.prompt = int(usage["completion_tokens"]), int(usage["prompt_tokens"])
        if not event.get("choices"):
            continue
        if usage is not None:
            new, seen = int(usage["completion_tokens"]) - seen, int(usage["completion_tokens"])
            if new > 0:
                exchange.pieces.append((now, new))
        elif event["choices"][0].get("text"):
            exchange.pieces.append((now, None))


async def _events(answer: httpx.Response) -> AsyncIterator[str]:
    """Yield the data of server-sent events."""
    async for line in answer.aiter_lines():
        if line.startswith("data:"):
            yield line[5:].strip()


def _message(text: str) -> str:
    """Return the reason in an error's body, or the beginning of the body."""
    try:
        return str(json.loads(text)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return text[:200]
