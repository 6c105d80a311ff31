"""What of a workload a scheduler gets to see: senders' words and predictions, never the true lengths.

The one convention: where the policy does not go by the senders' limits (`declared` is false), a sender's limit is taken
to be what the answer will need.  It then serves for one thing only, to turn away at the door what can never fit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from labcode.checks import number, positive
from labcode.scheduler.fair import DeficitRoundRobin, TenantQueue, VirtualTokenCounter
from labcode.scheduler.request import Request
from labcode.scheduler.waiting import OrderKey
from labcode.workload import Workload
from labcode.workload.prediction import lognormal_error


def declared_limits(load: Workload, declared: bool) -> NDArray[np.int64]:
    """Return each sender's limit on the output, in tokens, shape (n,).

    Raises
    ------
    ValueError
        If the limits are wanted and the workload has none.
    """
    if not declared:
        return load.output
    if load.max_tokens is None:
        raise ValueError("memory = 'declared': the workload's senders declare nothing (max_tokens is None)")
    return np.maximum(load.max_tokens, load.output)


def request_of(load: Workload, i: int, predicted: NDArray[np.float64], declared: bool = False) -> Request:
    """Return one of the workload's requests as a scheduler sees it."""
    deadline = None if load.deadline is None or np.isnan(load.deadline[i]) else float(load.deadline[i])
    limit, tenant = int(declared_limits(load, declared)[i]), "" if load.tenant is None else str(load.tenant[i])
    prefix = () if load.prefix is None else load.prefix[i]
    return Request(
        i, int(load.prompt[i]), limit, float(load.arrival[i]), deadline, tenant, 0.0, float(predicted[i]), prefix
    )


def requests_of(load: Workload, predicted: NDArray[np.float64], declared: bool = False) -> list[Request]:
    """Return the workload's requests as a scheduler sees them, ids 0 ... n-1."""
    n = len(load)
    deadlines = [None] * n if load.deadline is None else [None if d != d else d for d in load.deadline.tolist()]
    tenants = [""] * n if load.tenant is None else load.tenant.tolist()
    prefixes = [()] * n if load.prefix is None else load.prefix.tolist()
    columns = (
        load.prompt.tolist(),
        declared_limits(load, declared).tolist(),
        load.arrival.tolist(),
        deadlines,
        tenants,
    )
    return [
        Request(i, prompt, limit, arrival, deadline, tenant, 0.0, expected, prefix)
        for i, (prompt, limit, arrival, deadline, tenant, expected, prefix) in enumerate(
            zip(*columns, predicted.tolist(), prefixes, strict=True)
        )
    ]


def fair_queue(order: object, load: Workload) -> TenantQueue | None:
    """Return a fresh queue for ``"drr"``, ``"drr:QUANTUM"`` and ``"vtc"``, None for any other order.

    Raises
    ------
    ValueError
        If the workload has no tenants to be fair to, or the quantum is no number above 0.
    """
    name, _, argument = order.partition(":") if isinstance(order, str) else ("", "", "")
    if name != "drr" and order != "vtc":
        return None
    if load.tenant is None:
        raise ValueError(f"order = {order!r}: the workload has no tenants (tenant is None)")
    if order == "vtc":
        return VirtualTokenCounter()
    try:
        quantum = float(argument) if argument else 512.0
    except ValueError:
        raise ValueError(f"order = {order!r}: the part after 'drr:' must be a number, as in 'drr:512'") from None
    return DeficitRoundRobin(positive("order's quantum", quantum))


def order_keys(order: str | OrderKey, load: Workload, requests: list[Request], seed: int = 0) -> NDArray[np.float64]:
    """Return the key of every request under `order`; smaller comes first, shape (n,).

    Parameters
    ----------
    order : str or callable
        ``"fcfs"`` first come, first served; ``"sjf"`` shortest output first (an oracle's knowledge);
        ``"sjf:0.5"`` shortest predicted output first, the prediction off by a log-normal factor with that sigma;
        ``"deadline"`` earliest deadline first (requests without one come last); or a function of a Request.
    seed : int
        Of the prediction error.

    Raises
    ------
    ValueError
        If the name is unknown, or a function returns something that is not a number (which row).
    """
    if callable(order):
        return np.array([number(f"order(request {r.id})", order(r)) for r in requests])
    name, _, argument = str(order).partition(":")
    if order == "fcfs":
        return np.asarray(load.arrival, dtype=float)
    if order == "sjf":
        return load.output.astype(float)
    if name == "sjf" and argument:
        try:
            sigma = float(argument)
        except ValueError:
            raise ValueError(f"order = {order!r}: the part after 'sjf:' must be a number, as in 'sjf:0.5'") from None
        if not 0 <= sigma < np.inf:
            raise ValueError(f"order's sigma = {sigma!r}: must be at least 0")
        return lognormal_error(load, sigma, seed)
    if order == "deadline":
        if load.deadline is None:
            raise ValueError("order = 'deadline': the workload has no deadlines")
        return np.where(np.isnan(load.deadline), np.inf, load.deadline)
    raise ValueError(
        f'order = {order!r}: known are "fcfs", "sjf", "sjf:SIGMA" (as in "sjf:0.5"), "deadline", "drr", "vtc", a '
        "function of a Request, or an object with push, peek, pop and len"
    )
