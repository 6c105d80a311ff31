"""Routers: which of several engines gets a request.  A router has no view of the future, nor of a step under way.

It is told the request (with what its sender says of it) and may ask every replica for its report.  Those that ask
for nothing are *oblivious*: their choices depend on nothing that happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from labcode.checks import integer
from labcode.scheduler.request import Request


class Report(Protocol):
    """What a replica says of itself at the moment a request arrives."""

    @property
    def requests(self) -> int:
        """Requests that wait or run."""

    @property
    def tokens(self) -> int:
        """Tokens of those requests: prompts and answers so far."""

    def cached(self, request: Request) -> int:
        """Return how many of the request's first tokens are in the replica's cache."""


class Router:
    """What a fleet asks of a router.

    Attributes
    ----------
    oblivious : bool
        Whether `choose` looks at no report.
    """

    oblivious = False

    def choose(self, request: Request, replicas: Sequence[Report]) -> int:
        """Return the number of the replica that gets `request`."""
        raise NotImplementedError


class RoundRobin(Router):
    """One after the other."""

    oblivious = True

    def __init__(self) -> None:
        self.turn = -1

    def choose(self, request: Request, replicas: Sequence[Report]) -> int:
        """Return the next one."""
        self.turn = (self.turn + 1) % len(replicas)
        return self.turn


class Random(Router):
    """Any, each as likely as the others."""

    oblivious = True

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def choose(self, request: Request, replicas: Sequence[Report]) -> int:
        """Return one by lot."""
        return int(self.rng.integers(len(replicas)))


class LeastRequests(Router):
    """The one with the fewest requests (join the shortest queue); ties go round, so that no replica is favoured."""

    def __init__(self) -> None:
        self.turn = -1

    def load(self, replica: Report) -> int:
        """Return what is compared."""
        return replica.requests

    def choose(self, request: Request, replicas: Sequence[Report]) -> int:
        """Return the least loaded; the first of several after the last choice."""
        n = len(replicas)
        loads = [self.load(replica) for replica in replicas]
        self.turn = min(range(n), key=lambda i: (loads[i], (i - self.turn - 1) % n))
        return self.turn


class LeastTokens(LeastRequests):
    """The one whose requests have the fewest tokens, prompts and answers so far."""

    def load(self, replica: Report) -> int:
        """Return what is compared."""
        return replica.tokens


class PowerOfTwo(Router):
    """The less loaded of two drawn by lot (Mitzenmacher 2001): two reports instead of all of them."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def choose(self, request: Request, replicas: Sequence[Report]) -> int:
        """Return the one of two different replicas that has fewer requests; the first drawn if they are equal."""
        if len(replicas) == 1:
            return 0
        first, second = (int(i) for i in self.rng.choice(len(replicas), 2, replace=False))
        return second if replicas[second].requests < replicas[first].requests else first


class PrefixAware(LeastRequests):
    """The one that holds most of the request's prefix, among those that are not much busier than the least busy.

    Parameters
    ----------
    slack : int
        How many requests more than the least loaded replica a replica may have and still be chosen for its cache.
    """

    def __init__(self, slack: int = 8) -> None:
        super().__init__()
        self.slack = integer("slack", slack, at_least=0)

    def choose(self, request: Request, replicas: Sequence[Report]) -> int:
        """Return the longest match within the slack; ties go to fewer requests, then round."""
        n = len(replicas)
        loads = [replica.requests for replica in replicas]
        near = [i for i in range(n) if loads[i] <= min(loads) + self.slack]
        cached = {i: replicas[i].cached(request) for i in near}
        self.turn = min(near, key=lambda i: (-cached[i], loads[i], (i - self.turn - 1) % n))
        return self.turn


ROUTERS = ("round_robin", "random", "least_requests", "least_tokens", "power_of_two", "prefix")


def router(name: str | Router, seed: int = 0) -> Router:
    """Return the router of this name, fresh; a router itself is returned as it is.

    Parameters
    ----------
    seed : int
        Of those that draw lots.

    Raises
    ------
    ValueError
        If the name is unknown, or an object has no `choose`.
    """
    if not isinstance(name, str):
        if not callable(getattr(name, "choose", None)):
            raise ValueError(f"router = {name!r}: one of {', '.join(ROUTERS)}, or an object with choose")
        return name
    made = {
        "round_robin": RoundRobin,
        "random": lambda: Random(np.random.default_rng(seed)),
        "least_requests": LeastRequests,
        "least_tokens": LeastTokens,
        "power_of_two": lambda: PowerOfTwo(np.random.default_rng(seed)),
        "prefix": PrefixAware,
    }
    if name not in made:
        raise ValueError(f"router = {name!r}: one of {', '.join(ROUTERS)}, or an object with choose")
    return made[name]()
