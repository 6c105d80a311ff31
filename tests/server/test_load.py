"""Many clients at once: overload, clients that leave, clients that do not read."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

import numpy as np
import pytest

from labcode.server.backend import Backend
from labcode.server.engine import Engine
from labcode.server.options import Options
from labcode.server.serve import serving

from .client import Alone, Got, connect, post, read_answer, request_bytes


def body(prompt: list[int], tokens: int, stream: bool = True) -> dict[str, object]:
    """Return a request's body."""
    return {"prompt": prompt, "max_tokens": tokens, "stream": stream, "return_token_ids": True}


def at_rest(engine: Engine) -> bool:
    """Return whether nothing is left: no stream, no request, no block, no cache."""
    scheduler, executor = engine.scheduler, engine.executor
    empty = not (engine.streams or scheduler.requests or scheduler.running or scheduler.waiting or executor.cached)
    return empty and scheduler.memory.reserved == 0 and not executor.outputs


def slowed(engine: Engine, seconds: float) -> None:
    """Let each step of an engine take at least so long: overload is then overload on a fast machine too."""
    execute = engine.executor.execute

    def slow(*arguments: Any) -> Any:
        time.sleep(seconds)  # in the model's own thread
        return execute(*arguments)

    engine.executor.execute = slow  # type: ignore[method-assign]


async def settled(engine: Engine, seconds: float = 10.0) -> bool:
    """Return whether the engine comes to rest within some seconds."""
    for _ in range(int(seconds / 0.05)):
        if at_rest(engine):
            return True
        await asyncio.sleep(0.05)
    return False


@pytest.mark.slow
def test_a_thousand_requests_at_overload(tiny: Backend) -> None:
    """Every request ends in one of four ways, the counts of both sides add up, and tokens are those of one alone."""
    rng = np.random.default_rng(1)
    prompts = [rng.integers(0, 256, int(n)).tolist() for n in rng.integers(1, 60, 12)]
    options = Options(max_bs=16, capacity=1600, max_waiting=60, prefill="chunked", token_budget=48)
    alone = Alone(tiny.model)
    for prompt in prompts:
        alone(prompt, 60)

    async def run() -> tuple[Counter[str], Engine]:
        async with serving(tiny, options) as (url, app, _):
            engine = app.state.engine
            # 16 places and 125 steps a second make 2,000 tokens a second at most; 5,000 a second are asked for.
            slowed(engine, 0.008)

            async def one(i: int) -> Got:
                await asyncio.sleep(rng.uniform(0, 6))
                prompt, tokens = prompts[i % 12], int(rng.integers(1, 60))
                leave = int(rng.integers(1, 40)) if i % 10 == 0 else None
                headers = {"X_Deadline_Seconds": "0.4"} if i % 7 == 0 else {}
                got = await post(
                    url, body(prompt, tokens, i % 3 != 0 or leave is not None), leave_after=leave, **headers
                )
                assert got.tokens == alone(prompt, tokens)[: len(got.tokens)]
                if got.outcome == "finished":
                    assert len(got.tokens) == tokens and got.finish == "length"
                if got.status == 429:
                    assert int(got.headers["retry-after"]) >= 1
                left = leave is not None and got.status == 200 and not got.done
                return Got(cut=True) if left else got

            answers = await asyncio.gather(*(one(i) for i in range(1000)))
            assert await settled(engine)
            assert engine.scheduler.memory.pool.free_blocks == engine.scheduler.memory.pool.blocks
            return Counter("cancelled" if got.cut else got.outcome for got in answers), engine

    seen, engine = asyncio.run(asyncio.wait_for(run(), 120))
    assert sum(seen.values()) == 1000 == engine.came == sum(engine.outcomes.values())
    assert set(seen) <= {"finished", "refused", "cancelled", "timed_out"}
    assert all(seen[name] for name in ("finished", "refused", "cancelled", "timed_out")), seen
    assert seen["refused"] == engine.outcomes["refused"] and seen["timed_out"] == engine.outcomes["timed_out"]
    # A client that leaves with the last tokens under way is cancelled for itself and finished for the server.
    assert seen["finished"] <= engine.outcomes["finished"] <= seen["finished"] + seen["cancelled"]


@pytest.mark.slow
def test_two_hundred_clients_that_leave(tiny: Backend) -> None:
    """Whenever a client leaves, its blocks come back, and no task stays behind."""
    rng = np.random.default_rng(2)
    prompt = rng.integers(0, 256, 40).tolist()

    async def run() -> None:
        async with serving(tiny, Options(max_bs=8, capacity=4000)) as (url, app, _):
            engine = app.state.engine
            slowed(engine, 0.002)  # 400 tokens are then 0.8 s: nobody is served before he leaves
            before = len(asyncio.all_tasks())

            async def one(i: int) -> None:
                await asyncio.sleep(rng.uniform(0, 1))
                if i % 4 == 3:  # one that does not stream, cut off from outside
                    call = asyncio.create_task(post(url, body(prompt, 400, False)))
                    await asyncio.sleep(rng.uniform(0.01, 0.5))
                    call.cancel()
                else:
                    await post(url, body(prompt, 400), leave_after=int(rng.integers(0, 30)))

            await asyncio.gather(*(one(i) for i in range(200)))
            assert await settled(engine)
            assert engine.scheduler.memory.pool.free_blocks == engine.scheduler.memory.pool.blocks
            assert engine.outcomes["cancelled"] > 100 and sum(engine.outcomes.values()) == engine.came
            await asyncio.sleep(0.3)
            assert len(asyncio.all_tasks()) <= before, asyncio.all_tasks()
            # And it still serves.
            assert (await post(url, body(prompt, 5))).outcome == "finished"

    asyncio.run(asyncio.wait_for(run(), 120))


@pytest.mark.slow
def test_a_client_that_does_not_read(tiny: Backend) -> None:
    """Its request pauses with a full buffer and is ended after the limit; one that reads late gets everything."""
    alone = Alone(tiny.model)
    prompt = [7, 8, 9]

    async def run() -> None:
        options = Options(max_bs=4, stall_timeout=3.0, output_buffer=16)
        async with serving(tiny, options) as (url, app, _):
            engine = app.state.engine
            reader, writer = await connect(url, receive_buffer=4096)
            writer.write(request_bytes(body(prompt, 1000)))
            for _ in range(1000):
                await asyncio.sleep(0.01)
                if any(state.state.value == "paused" for state in engine.scheduler.running.values()):
                    break
            else:
                pytest.fail("it never paused")
            (stream,) = engine.streams.values()
            assert 16 <= len(stream.tokens) <= 17
            # Somebody else is served meanwhile.
            assert (await post(url, body(prompt, 20))).outcome == "finished"
            late = Got()
            await read_answer(reader, late)
            assert late.outcome == "finished" and late.tokens == alone(prompt, 1000)
            writer.close()
            reader, writer = await connect(url, receive_buffer=4096)
            came = engine.came
            writer.write(request_bytes(body(prompt, 1000)))
            while engine.came == came:
                await asyncio.sleep(0.01)
            assert await settled(engine, 20)
            assert engine.outcomes["timed_out"] == 1
            writer.close()

    asyncio.run(asyncio.wait_for(run(), 60))
