"""Bodies of requests, and the shapes of answers, as OpenAI's interface has them.

What this server cannot do is refused by name, never passed over: it decodes greedily, one answer a request.  Fields
that change nothing about the answer (`user`, `seed`, ...) and unknown ones are ignored, as other servers do.
"""

from __future__ import annotations

import json
import time
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from labcode.scheduler.states import State

Zero = Annotated[float, Field(ge=0, le=0)]
One = Annotated[int, Field(ge=1, le=1)]
Tokens = Annotated[int, Field(ge=1)]
TokenIds = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]


class Strict(BaseModel):
    """A body: no number out of a text, no text out of a number."""

    model_config = ConfigDict(strict=True)


class StreamOptions(Strict):
    """What a stream says besides its text.

    Attributes
    ----------
    include_usage : bool
        Whether a last chunk counts the tokens.
    continuous_usage_stats : bool
        Whether every chunk does (vLLM's extension): only then a client sees how many tokens a chunk holds.
    """

    include_usage: bool = False
    continuous_usage_stats: bool = False


class Common(Strict):
    """What both kinds of request have.

    Attributes
    ----------
    ignore_eos : bool
        Go on to `max_tokens` (vLLM's extension, for load tests).
    return_token_ids : bool
        Add ``token_ids`` to every choice (vLLM's extension).
    """

    model: str | None = None
    max_tokens: Tokens | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    ignore_eos: bool = False
    return_token_ids: bool = False
    temperature: Zero | None = None
    presence_penalty: Zero | None = None
    frequency_penalty: Zero | None = None
    n: One | None = None
    stop: Annotated[list[str], Field(max_length=0)] | None = None
    logit_bias: Annotated[dict[str, float], Field(max_length=0)] | None = None


class CompletionBody(Common):
    """A request for ``/v1/completions``: a text, or token ids; a list may hold one of them."""

    prompt: (
        Annotated[str, Field(min_length=1)]
        | TokenIds
        | Annotated[list[str], Field(min_length=1, max_length=1)]
        | Annotated[list[TokenIds], Field(min_length=1, max_length=1)]
    )
    logprobs: Literal[None] = None
    echo: Literal[False] | None = None
    suffix: Literal[None] = None
    best_of: One | None = None


class Part(Strict):
    """A part of a message; only text is understood."""

    type: Literal["text"]
    text: str


class Message(Strict):
    """One message of a conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Part]

    @property
    def text(self) -> str:
        """The message's text."""
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class ChatBody(Common):
    """A request for ``/v1/chat/completions``."""

    messages: Annotated[list[Message], Field(min_length=1)]
    max_completion_tokens: Tokens | None = None
    logprobs: Literal[False] | None = None
    tools: Annotated[list[dict[str, Any]], Field(max_length=0)] | None = None


class Envelope:
    """Wraps the text of an answer in the shapes of one of the two interfaces.

    Parameters
    ----------
    number : int
        Of the request.
    model : str
        As clients call it.
    body : CompletionBody or ChatBody
    prompt_tokens : int
    """

    def __init__(self, number: int, model: str, body: Common, prompt_tokens: int) -> None:
        self.chat = isinstance(body, ChatBody)
        self.body, self.prompt_tokens = body, prompt_tokens
        options = body.stream_options or StreamOptions()
        self.counts, self.always_counts = options.include_usage, options.continuous_usage_stats
        self.head = {
            "id": f"{'chatcmpl' if self.chat else 'cmpl'}-{number}",
            "object": "chat.completion" if self.chat else "text_completion",
            "created": int(time.time()),
            "model": model,
        }
        whole = self.head | ({"object": "chat.completion.chunk"} if self.chat else {})
        self.begin = event(whole)[:-3].decode()  # an event's beginning, open for its choices

    def usage(self, tokens: int) -> dict[str, int]:
        """Return the count of tokens."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": tokens,
            "total_tokens": self.prompt_tokens + tokens,
        }

    def whole(self, text: str, ids: list[int], finish: str) -> dict[str, Any]:
        """Return a whole answer."""
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish, "logprobs": None}
        choice |= {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        if self.body.return_token_ids:
            choice["token_ids"] = ids
        return self.head | {"choices": [choice], "usage": self.usage(len(ids))}

    def chunk(self, text: str, ids: list[int], made: int, finish: str | None) -> bytes:
        """Return one event of a stream; `made` tokens have come so far, those of this chunk included."""
        # By hand: of each event only this much differs, and there is one for every token.
        said = json.dumps(text)
        said = f'"delta":{{"role":"assistant","content":{said}}}' if self.chat else f'"text":{said}'
        if self.body.return_token_ids:
            said += f',"token_ids":{json.dumps(ids, separators=(",", ":"))}'
        end = "null" if finish is None else json.dumps(finish)
        usage = ""
        if self.counts or self.always_counts:
            usage = f',"usage":{json.dumps(self.usage(made)) if self.always_counts else "null"}'
        return (
            f'{self.begin},"choices":[{{"index":0,"finish_reason":{end},"logprobs":null,{said}}}]{usage}}}\n\n'
        ).encode()

    def last(self, made: int) -> bytes:
        """Return what closes a stream that ran to its end."""
        counts = b""
        if self.counts:
            counts = f'{self.begin},"choices":[],"usage":{json.dumps(self.usage(made))}}}\n\n'.encode()
        return counts + DONE


DONE = b"data: [DONE]\n\n"


def event(data: dict[str, Any]) -> bytes:
    """Return a server-sent event."""
    return b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"


def error(message: str, kind: str, code: str | None = None) -> dict[str, Any]:
    """Return the body of an error."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def status_of(outcome: State, stopping: bool = False) -> int:
    """Return the HTTP status of an answer that ended in `outcome` before its first token."""
    return {State.FINISHED: 200, State.REFUSED: 400, State.CANCELLED: 499, State.TIMED_OUT: 504}.get(
        outcome, 503 if stopping else 500
    )
