"""The batch-service queue: a server that takes up to so many at once, for a time that grows with the
batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import poisson

from labcode.checks import integer, non_negative, positive


@dataclass(frozen=True)
class BatchQueueResult:
    """Steady state of a :func:`batch_queue`.

    `busy` is the server's busy share; `mean_batch` the mean over batches, `batch_seen` the mean over
    requests (a large batch has many who see it); `L`, `Lq`, `W`, `Wq` as everywhere; `batch_shares[b]` the
    share of batches with b requests.
    """

    busy: float
    mean_batch: float
    batch_seen: float
    L: float
    Lq: float
    W: float
    Wq: float
    batch_shares: np.ndarray


def batch_capacity(fixed: float, per_input: float, max_batch: int) -> float:
    """Largest rate (1/s) that a batch server keeps up with: max_batch / (fixed + per_input * max_batch)."""
    non_negative("fixed", fixed)
    positive("per_input", per_input)
    return integer("max_batch", max_batch) / (fixed + per_input * max_batch)


def batch_queue(arrival_rate: float, fixed: float, per_input: float, max_batch: int) -> BatchQueueResult:
    """Solve the queue whose server takes min(waiting, max_batch) requests for fixed + per_input * batch
    seconds.

    Assumptions
    -----------
    Poisson arrivals; a free server starts at once on whatever waits (no deliberate delay); the time of a
    batch is constant given its size; all requests of a batch finish together.

    Method
    ------
    The number left behind at the end of a batch is a Markov chain: from x, a batch of b = min(max(x, 1),
    max_batch) runs and Poisson(arrival_rate * time(b)) requests arrive meanwhile.  Its stationary
    distribution is solved numerically on a truncated range that is doubled until the mass at its end is
    below 1e-10; time averages follow by renewal-reward.  Source: the bulk-service chain of Bailey 1954
    (J. Royal Statistical Society B 16), here with a service time that depends on the batch, as in Inoue
    2021, "Queueing analysis of GPU-based inference servers with dynamic batching" (Performance Evaluation
    147).

    Raises
    ------
    ValueError
        If a parameter is invalid, the rate reaches :func:`batch_capacity`, or comes so close to it that the
        chain needs over 2048 states.
    """
    positive("arrival_rate", arrival_rate)
    capacity = batch_capacity(fixed, per_input, max_batch)
    if arrival_rate >= capacity:
        raise ValueError(
            f"arrival_rate = {arrival_rate!r}: must be below the capacity of full batches, {capacity:.6g}/s"
        )
    time_of = np.concatenate(([np.nan], fixed + per_input * np.arange(1, max_batch + 1)))
    states = max(64, 4 * max_batch)
    while True:
        pi, batch = _left_behind(arrival_rate, time_of, max_batch, states)
        if pi[-1] < 1e-10:
            break
        states *= 2
        if states > 2048:
            raise ValueError(f"arrival_rate = {arrival_rate!r}: too close to the capacity {capacity:.6g}/s to solve")

    service = time_of[batch]
    idle = np.where(np.arange(states) == 0, 1 / arrival_rate, 0.0)
    cycle = pi @ (service + idle)
    left = np.maximum(np.arange(states) - batch, 0)  # wait through the whole batch
    queue_area = pi @ (left * service + arrival_rate * service**2 / 2)  # arrivals wait half of it on average
    shares = np.bincount(batch, weights=pi, minlength=max_batch + 1)
    waiting = queue_area / cycle
    present = waiting + pi @ (batch * service) / cycle
    return BatchQueueResult(
        busy=float(pi @ service / cycle),
        mean_batch=float(pi @ batch),
        batch_seen=float(pi @ batch**2 / (pi @ batch)),
        L=float(present),
        Lq=float(waiting),
        W=float(present / arrival_rate),
        Wq=float(waiting / arrival_rate),
        batch_shares=shares,
    )


def _left_behind(
    arrival_rate: float, time_of: np.ndarray, max_batch: int, states: int
) -> tuple[np.ndarray, np.ndarray]:
    """Stationary law of the number left behind, and the batch that starts from each number."""
    number = np.arange(states)
    batch = np.clip(number, 1, max_batch)
    stay = np.maximum(number - batch, 0)
    matrix = poisson.pmf(number[None, :] - stay[:, None], arrival_rate * time_of[batch][:, None])
    matrix[:, -1] += np.maximum(0.0, 1 - matrix.sum(axis=1))  # what the truncation cuts off
    equations = matrix.T - np.eye(states)
    equations[-1] = 1.0
    pi = np.linalg.solve(equations, np.eye(states)[-1])
    pi = np.maximum(pi, 0.0)
    return pi / pi.sum(), batch
