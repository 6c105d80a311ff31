"""Closed loop: so many users, each of whom waits for an answer, thinks, and asks again."""

from __future__ import annotations

import asyncio
import itertools
import time

import numpy as np

from labcode.checks import integer, non_negative, positive
from labcode.loadtest.exchange import Exchange, Target, ask
from labcode.loadtest.measured import Measured
from labcode.loadtest.open_loop import Progress
from labcode.workload import Workload


async def closed_loop(
    target: Target,
    load: Workload,
    users: int,
    think: float = 0.0,
    pace: float | None = None,
    stop_at: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Measured:
    """Let `users` users send the requests of `load`, one after the other; return what came back.

    The arrival times of `load` are not used: in a closed loop the server's pace decides when a request comes.

    Parameters
    ----------
    think : float
        Mean of the exponential time between an answer and the user's next request, s; 0 asks at once.
    pace : float, optional
        Instead of thinking, a user *wants* to ask every `pace` seconds, and asks late if the answer before is late.
        The wanted times are the schedule, so that `Measured.log` counts from them and `log_as_sent` does not.
    stop_at : float, optional
        Seconds after which nobody asks any more and the observation ends.
    seed : int
        Of the think times.
    """
    users, think = integer("users", users), non_negative("think", think)
    if pace is not None:
        positive("pace", pace)
    if stop_at is not None:
        positive("stop_at", stop_at)
    order = itertools.count()
    exchanges: list[Exchange] = []
    async with target.client() as client:
        await client.get("/health")
        start = time.perf_counter() + 0.05

        def clock() -> float:
            return time.perf_counter() - start

        async def user(number: int) -> None:
            rng = np.random.default_rng([seed, number])
            due = 0.0 if pace is None else pace * number / users
            while (i := next(order)) < len(load):
                await asyncio.sleep(max(0.0, due - clock()))
                now = max(0.0, clock())
                if stop_at is not None and now >= stop_at:
                    return
                wanted = now if pace is None else due
                exchange = Exchange(i, wanted, prompt=int(load.prompt[i]), limit=int(load.output[i]))
                exchanges.append(exchange)
                await ask(client, target, exchange, clock)
                if pace is None:
                    exchange.scheduled = exchange.sent
                if progress is not None:
                    progress(len(exchanges))
                due = clock() + (rng.exponential(think) if think else 0.0) if pace is None else due + pace

        tasks = [asyncio.create_task(user(number)) for number in range(users)]
        await asyncio.wait(tasks, timeout=None if stop_at is None else stop_at + 0.05)
        end = clock()
        for task in tasks:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
    problems = [p for p in done if isinstance(p, Exception)]
    if problems:
        raise problems[0]
    return Measured(sorted(exchanges, key=lambda e: e.scheduled), "closed", (0.0, end))
