"""What happens when the memory runs out: a victim, and what is done with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from labcode.checks import one_of, positive
from labcode.scheduler.request import RequestState

ACTIONS = ("recompute", "swap", "wait")

Victim = Callable[[Sequence[RequestState]], RequestState]
Action = Callable[[RequestState], str]


def latest_arrival(running: Sequence[RequestState]) -> RequestState:
    """Return the running request that came last (ties: the larger id)."""
    return max(running, key=lambda state: (state.request.arrival, state.id))


def least_computed(running: Sequence[RequestState]) -> RequestState:
    """Return the running request that loses the fewest positions (ties: the one that came last)."""
    return min(running, key=lambda state: (state.computed, -state.request.arrival, -state.id))


def fewest_preemptions(running: Sequence[RequestState]) -> RequestState:
    """Return who lost its place least often (ties: the one that came last): nobody twice before everybody once."""
    return min(running, key=lambda state: (state.preemptions, -state.request.arrival, -state.id))


@dataclass(frozen=True)
class Preemption:
    """Victim and action.

    Attributes
    ----------
    victim : callable
        ``victim(running)`` -> who loses its place.
    action : str or callable
        ``"recompute"`` drops the cache and computes it again later; ``"swap"`` moves it to the host and back;
        ``"wait"`` takes nothing from anybody: who cannot grow waits in its place, and all may end up waiting for each
        other (chapter 7's standstill).  A function of the victim may choose.
    """

    victim: Victim = latest_arrival
    action: str | Action = "recompute"

    def __post_init__(self) -> None:
        if isinstance(self.action, str):
            one_of("action", self.action, ACTIONS)

    def choose(self, state: RequestState) -> str:
        """Return what is done with `state`."""
        return self.action if isinstance(self.action, str) else str(one_of("action", self.action(state), ACTIONS))


@dataclass(frozen=True)
class Link:
    """The way between device and host.

    Attributes
    ----------
    bandwidth : float
        Bytes/s in one direction.
    bytes_per_token : float
        Of KV cache.
    latency : float
        Seconds that each transfer costs besides.
    """

    bandwidth: float
    bytes_per_token: float
    latency: float = 0.0

    def __post_init__(self) -> None:
        positive("Link.bandwidth", self.bandwidth)
        positive("Link.bytes_per_token", self.bytes_per_token)

    def seconds(self, positions: int) -> float:
        """Return how long `positions` tokens of cache take one way."""
        return self.latency + positions * self.bytes_per_token / self.bandwidth


def cheaper(recompute_seconds: Callable[[int], float], link: Link) -> Action:
    """Return the action that costs less for a victim: C_r against 2m/b + C_s.

    Parameters
    ----------
    recompute_seconds : callable
        Seconds to prefill so many positions again.
    link : Link
    """

    def action(state: RequestState) -> str:
        return "swap" if 2 * link.seconds(state.computed) < recompute_seconds(state.known) else "recompute"

    return action
