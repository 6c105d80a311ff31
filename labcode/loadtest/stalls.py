"""Coordinated omission: what a client that waits for the server does not see of the server's stalls.

A closed client that wants to send every T seconds sends nothing while an answer is late.  Of a stall of S seconds it
records one latency, where S / T requests should have been there to suffer it.  Three views of the same stall:

* *closed*: as recorded, from the actual sends;
* *corrected*: the missing requests put back by arithmetic (as HdrHistogram does it), or by counting from the time at
  which the client wanted to send (as wrk2 does it);
* *open*: requests that were really sent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labcode.checks import non_negative, positive

Floats = NDArray[np.float64]


def corrected(latencies: ArrayLike, interval: float) -> Floats:
    """Return the latencies with those that a waiting client left out: for each L also L - T, L - 2T, ... while >= T.

    Parameters
    ----------
    latencies : array_like, shape (n,)
        Seconds, as a closed client recorded them; NaN is left out.
    interval : float
        T, the time between two sends that the client wanted, s.

    Returns
    -------
    shape (m,), m >= n
        Sorted, s.  It takes the server's state for unchanged by the requests that were not sent: had they come, they
        would have made a queue, and the truth is worse.
    """
    interval = positive("interval", interval)
    recorded = np.asarray(latencies, dtype=float)
    recorded = recorded[~np.isnan(recorded)]
    # The hair: a latency of exactly 3 T leaves out 2 T and T, whatever rounding says.
    missing = np.maximum(0, np.floor(recorded / interval + 1e-9).astype(int) - 1)
    steps = np.arange(missing.sum()) - np.repeat(np.cumsum(missing) - missing, missing) + 1
    return np.sort(np.concatenate([recorded, np.repeat(recorded, missing) - steps * interval]))


def on_paper(interval: float, service: float, stall: float, seconds: float = 60.0) -> dict[str, Floats]:
    """Return what each view says of one stall of a server that otherwise answers in `service` seconds.

    Parameters
    ----------
    interval : float
        Time between two sends that the client wants, s; above `service`.
    service : float
        Time of an answer, one after the other, s.
    stall : float
        How long the server stands still, s; it begins after a third of the test.
    seconds : float
        Length of the test, s.

    Returns
    -------
    dict of str to shape (n,)
        Latencies (s): ``"open"``, ``"closed"``, ``"corrected"`` (by arithmetic) and ``"wanted"`` (from the wanted
        send).

    Raises
    ------
    ValueError
        If the server could not even keep up without a stall.
    """
    interval, service = positive("interval", interval), positive("service", service)
    stall, seconds = non_negative("stall", stall), positive("seconds", seconds)
    if service >= interval:
        raise ValueError(f"service = {service!r}: must be below interval = {interval!r}")
    begins = seconds / 3

    def answered(at: float) -> float:
        """Return when a request is answered that the server takes up at `at`."""
        if begins <= at < begins + stall:
            return begins + stall + service
        return at + service + (stall if at < begins < at + service else 0.0)

    wanted = np.arange(round(seconds / interval)) * interval
    free, opened = 0.0, []
    for at in wanted.tolist():
        free = answered(max(at, free))
        opened.append(free - at)
    # One closed user: the next request goes out when it is wanted, or when the last answer has come.
    free, closed, late = 0.0, [], []
    for at in wanted.tolist():
        sent = max(at, free)
        if sent >= seconds:
            break
        free = answered(sent)
        closed.append(free - sent)
        late.append(free - at)
    return {
        "open": np.array(opened),
        "closed": np.array(closed),
        "corrected": corrected(closed, interval),
        "wanted": np.array(late),
    }
