"""OpenAI's own client talks to the server, unchanged."""

from __future__ import annotations

import asyncio

import pytest

from labcode.model import generate
from labcode.server.backend import Backend
from labcode.server.options import Options
from labcode.server.serve import serving

openai = pytest.importorskip("openai")


def test_stream_chat_and_errors(tiny: Backend) -> None:
    """Streams add up to the whole answer, which is what the model says alone; errors are the client's own classes."""

    async def talk() -> None:
        async with (
            serving(tiny, Options()) as (url, _, _),
            openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client,
        ):
            assert [model.id async for model in await client.models.list()] == ["tiny"]
            said = generate(tiny.model, tiny.encode("Where is the queue?"), 40)
            whole = await client.completions.create(model="tiny", prompt="Where is the queue?", max_tokens=40)
            assert whole.choices[0].text == tiny.tokenizer.decode(said)
            assert whole.usage.completion_tokens == 40 and whole.choices[0].finish_reason == "length"
            pieces = await client.completions.create(
                model="tiny",
                prompt="Where is the queue?",
                max_tokens=40,
                stream=True,
                stream_options={"include_usage": True},
            )
            chunks = [chunk async for chunk in pieces]
            assert "".join(c.choices[0].text for c in chunks if c.choices) == whole.choices[0].text
            assert chunks[-1].usage.total_tokens == whole.usage.total_tokens
            assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "length"
            messages = [{"role": "user", "content": "Hello"}]
            chat = await client.chat.completions.create(model="tiny", messages=messages, max_completion_tokens=12)
            stream = await client.chat.completions.create(model="tiny", messages=messages, max_tokens=12, stream=True)
            text = "".join([chunk.choices[0].delta.content async for chunk in stream])
            assert text == chat.choices[0].message.content
            with pytest.raises(openai.NotFoundError, match="is not served here"):
                await client.completions.create(model="gpt", prompt="x")
            with pytest.raises(openai.BadRequestError, match="exceed the model's context of 1024"):
                await client.completions.create(model="tiny", prompt="x" * 1000, max_tokens=100)
            with pytest.raises(openai.BadRequestError, match="temperature"):
                await client.completions.create(model="tiny", prompt="x", temperature=0.7)

    asyncio.run(asyncio.wait_for(talk(), 60))
