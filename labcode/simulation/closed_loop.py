"""A closed loop on paper: so many users, each of whom waits for an answer, thinks, and asks again.

The readable loop of :mod:`labcode.simulation.loop` takes its arrivals from a workload; here they depend on what the
engine did, so they cannot be known beforehand.
"""

from __future__ import annotations

import heapq

import numpy as np
import pandas as pd

from labcode.checks import integer, non_negative
from labcode.scheduler import Request, Scheduler
from labcode.simulation.clock import PaperClock


def closed_loop(
    scheduler: Scheduler, clock: PaperClock, prompt: list[int], users: int, think: float = 0.0, seed: int = 0
) -> pd.DataFrame:
    """Serve requests that `users` users send one after the other; return a row a request.

    Parameters
    ----------
    scheduler : Scheduler
        Fresh; nothing that it refuses, expires or cancels is provided for.
    clock : PaperClock
        Knows the output of each request, tokens.
    prompt : list of int
        Tokens of each request's prompt; whoever asks next takes the next one.
    users : int
    think : float
        Mean of the exponential time between an answer and the next request, s; the first request comes after one.
    seed : int
        Of the think times.

    Returns
    -------
    DataFrame
        ``arrival, first_token, finished, ttft, e2e`` (s) and ``user``, in order of arrival.

    Raises
    ------
    ValueError
        If a request can never be served.
    """
    users, think = integer("users", users), non_negative("think", think)
    rng = np.random.default_rng(integer("seed", seed, at_least=0))
    n = len(prompt)
    due = [(float(time), user) for user, time in enumerate(rng.exponential(think, users) if think else np.zeros(users))]
    heapq.heapify(due)
    owner: list[int] = []
    arrival, first, finished = (np.full(n, np.nan) for _ in range(3))
    now, ended = 0.0, 0
    while ended < n:
        while due and due[0][0] <= now and len(owner) < n:
            at, user = heapq.heappop(due)
            number = len(owner)
            owner.append(user)
            arrival[number] = at
            refusal = scheduler.add(Request(number, prompt[number], clock.output[number], at), at)
            if refusal is not None:
                raise ValueError(f"request {number} can never be served: {refusal}")
        plan = scheduler.schedule(now)
        if not plan:
            if not plan.preempted:
                now = max(now, due[0][0])
            continue
        until = due[0][0] if due and len(owner) < n and scheduler.open else np.inf
        results, now = clock.execute(plan, now, scheduler.stands_for(plan), until)
        for work in plan.prefill:
            if work.yields and np.isnan(first[work.request.id]):
                first[work.request.id] = now
        scheduler.update(plan, results, now)
        for number in results.finished:
            finished[number] = now
            ended += 1
            heapq.heappush(due, (now + (float(rng.exponential(think)) if think else 0.0), owner[number]))
    frame = pd.DataFrame({"arrival": arrival, "first_token": first, "finished": finished, "user": owner})
    return frame.assign(ttft=first - arrival, e2e=finished - arrival).rename_axis("request")
