"""Servers that share themselves out: processor sharing, with a fixed speed or a measured one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from labcode.checks import integer, non_negative, positive
from labcode.queueing.closed_forms import stable


@dataclass(frozen=True)
class MG1PS:
    """One server that gives each of the n requests present 1/n of its speed.

    Assumptions
    -----------
    Poisson arrivals; independent service requirements of any distribution; the server's total speed does
    not depend on how many share it; no limit on the sharing.

    Formulas
    --------
    P(N = n) = (1 - rho) rho^n for every distribution of the requirement (insensitivity); a request that
    needs x seconds alone stays x / (1 - rho) on average.  Source: Kleinrock 1976, Queueing Systems II,
    section 4.4.
    """

    arrival_rate: float
    service_mean: float

    def __post_init__(self) -> None:
        positive("MG1PS.arrival_rate", self.arrival_rate)
        positive("MG1PS.service_mean", self.service_mean)
        stable("MG1PS", self.utilisation)

    @property
    def utilisation(self) -> float:
        """Share of time with at least one request present."""
        return self.arrival_rate * self.service_mean

    @property
    def W(self) -> float:
        """Mean sojourn time (s)."""
        return self.service_mean / (1 - self.utilisation)

    @property
    def L(self) -> float:
        """Mean number present."""
        return self.arrival_rate * self.W

    def conditional(self, requirement: float) -> float:
        """Mean sojourn time (s) of a request that needs `requirement` seconds alone."""
        return non_negative("requirement", requirement) / (1 - self.utilisation)

    def state_probability(self, n: int) -> float:
        """Probability of exactly `n` requests present."""
        return (1 - self.utilisation) * self.utilisation ** integer("n", n, at_least=0)


@dataclass(frozen=True)
class SharedServer:
    """Processor sharing whose total speed depends on how many share: the measured service curve.

    This is the nearest that a formula comes to a decode loop: n active requests get a token each every
    step of t(n) seconds, so together n / t(n) tokens/s, equally shared.

    Assumptions
    -----------
    Poisson arrivals; independent work per request, of any distribution with the given mean; with n
    present the server works at `speed[n - 1]`, equally shared; beyond the last entry (`limit` requests)
    the speed stays at the last entry and is still shared by all.  That last clause differs from a queue in
    front of a full batch in who waits, hardly in how many are present.

    Formulas
    --------
    P(N = n) = P(N = 0) * product over i = 1 ... n of arrival_rate * mean_work / speed(i), whatever the
    distribution of the work.  Source: Cohen 1979, "The multiple phase service network with generalized
    processor sharing", Acta Informatica 12.

    Parameters
    ----------
    arrival_rate : float
        Requests/s.
    mean_work : float
        Work a request, in any unit (tokens, say).
    speed : sequence of float, shape (limit,)
        Units of work per second with 1, 2, ... requests present.
    """

    arrival_rate: float
    mean_work: float
    speed: tuple[float, ...]

    def __post_init__(self) -> None:
        positive("SharedServer.arrival_rate", self.arrival_rate)
        positive("SharedServer.mean_work", self.mean_work)
        object.__setattr__(self, "speed", tuple(float(value) for value in self.speed))
        if not self.speed:
            raise ValueError("SharedServer.speed is empty: give the speed with 1, 2, ... requests present")
        for n, value in enumerate(self.speed, start=1):
            positive(f"SharedServer.speed with {n} present", value)
        stable("SharedServer", self.arrival_rate * self.mean_work / self.speed[-1])

    def state_probabilities(self) -> np.ndarray:
        """P(N = n) for n = 0 ... limit - 1, then P(N >= limit) (shape (limit + 1,))."""
        load = self.arrival_rate * self.mean_work / np.asarray(self.speed)
        weights = np.exp(np.concatenate(([0.0], np.cumsum(np.log(load)))))  # products of loads
        weights[-1] /= 1 - load[-1]  # the geometric rest
        return weights / weights.sum()

    @property
    def L(self) -> float:
        """Mean number present, the geometric rest included."""
        probabilities = self.state_probabilities()
        last = self.arrival_rate * self.mean_work / self.speed[-1]
        beyond = probabilities[-1] * last / (1 - last)
        return float(probabilities @ np.arange(len(probabilities)) + beyond)

    @property
    def W(self) -> float:
        """Mean sojourn time (s), by Little's law."""
        return self.L / self.arrival_rate

    @property
    def utilisation(self) -> float:
        """Share of time with at least one request present."""
        return float(1 - self.state_probabilities()[0])

    def conditional(self, work: float) -> float:
        """Mean sojourn time (s) of a request with `work`: proportional to it."""
        return self.W * non_negative("work", work) / self.mean_work


def decode_speed(fixed: float, per_sequence: float, limit: int, spent: float = 0.0) -> Sequence[float]:
    """Tokens/s of a decode loop with 1 ... limit sequences and steps of fixed + per_sequence * n seconds.

    `spent` is the share of the time that something else takes from the loop (prefill), in [0, 1).
    """
    positive("fixed", fixed)
    non_negative("per_sequence", per_sequence)
    n = np.arange(1, integer("limit", limit) + 1)
    if not 0 <= spent < 1:
        raise ValueError(f"spent = {spent!r}: must lie in [0, 1)")
    return tuple((1 - spent) * n / (fixed + per_sequence * n))
