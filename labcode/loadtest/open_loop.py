"""Open loop: requests go out on a schedule that was fixed beforehand, however the server does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from labcode.checks import positive
from labcode.loadtest.exchange import Exchange, Target, ask
from labcode.loadtest.measured import Measured
from labcode.workload import Workload

#: Hears how many requests have ended.
Progress = Callable[[int], None]


async def open_loop(
    target: Target, load: Workload, stop_at: float | None = None, progress: Progress | None = None
) -> Measured:
    """Send the requests of `load` at its arrival times; return what came back.

    Parameters
    ----------
    target : Target
    load : Workload
        Arrivals and lengths; its true output lengths are the limits that the clients ask for.
    stop_at : float, optional
        Seconds after which the observation ends; who has no answer by then is "unfinished".
    progress : callable, optional

    Returns
    -------
    Measured
        With times counted from the *scheduled* send: what a client that was sent late has waited is not left out.
    """
    if stop_at is not None:
        positive("stop_at", stop_at)
    tenants = [""] * len(load) if load.tenant is None else load.tenant.tolist()
    exchanges = [
        Exchange(i, at, prompt=prompt, limit=output, tenant=tenant)
        for i, (at, prompt, output, tenant) in enumerate(
            zip(load.arrival.tolist(), load.prompt.tolist(), load.output.tolist(), tenants, strict=True)
        )
    ]
    ended = 0

    def one_more(_: object) -> None:
        nonlocal ended
        ended += 1
        if progress is not None:
            progress(ended)

    tasks: list[asyncio.Task[None]] = []
    async with target.client() as client:
        await client.get("/health")  # so that the first request does not pay for what is set up once
        start = time.perf_counter() + 0.05

        def clock() -> float:
            return time.perf_counter() - start

        for exchange in exchanges:
            if stop_at is not None and exchange.scheduled >= stop_at:
                break
            if (wait := exchange.scheduled - clock()) > 0:
                await asyncio.sleep(wait)
            task = asyncio.create_task(ask(client, target, exchange, clock))
            task.add_done_callback(one_more)
            tasks.append(task)
        if tasks:
            await asyncio.wait(tasks, timeout=None if stop_at is None else max(0.0, stop_at - clock()))
        end = clock()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    sent = exchanges[: len(tasks)]
    return Measured(sent, "open", (0.0, end if stop_at is None else max(stop_at, end)))
