"""Steady-state results that have a formula, one frozen dataclass a model.

Every class says what it assumes; a result is worth no more than that.  Times are in seconds, rates in
1/s.  Names follow the textbooks: `L` and `Lq` are the mean numbers in the system and waiting, `W` and
`Wq` the mean times.  `L = arrival_rate * W` and `Lq = arrival_rate * Wq` hold throughout (Little 1961).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.stats import poisson

from labcode.checks import integer, non_negative, number, positive


def stable(name: str, utilisation: float) -> float:
    """Return `utilisation` if it is below 1; raise a `ValueError` that says why a queue cannot settle."""
    if utilisation >= 1:
        raise ValueError(
            f"{name}: utilisation = {utilisation:.6g}: must be below 1, or the queue grows without end "
            "and there is no steady state to report"
        )
    return utilisation


def level(name: str, value: float) -> float:
    """Return a quantile level if it lies in [0, 1); raise `ValueError` otherwise."""
    result = number(name, value)
    if not 0 <= result < 1:
        raise ValueError(f"{name} = {value!r}: must lie in [0, 1)")
    return result


class SteadyState(ABC):
    """Means of a stable queue; a model supplies its service time and its mean wait."""

    arrival_rate: float

    @property
    @abstractmethod
    def service_mean(self) -> float:
        """Mean service time (s)."""

    @property
    @abstractmethod
    def Wq(self) -> float:
        """Mean time from arrival to the start of service (s)."""

    @property
    def utilisation(self) -> float:
        """Share of time that one server is busy: arrival_rate * service_mean (/ servers)."""
        return self.arrival_rate * self.service_mean

    @property
    def W(self) -> float:
        """Mean sojourn time, wait and service together (s)."""
        return self.Wq + self.service_mean

    @property
    def L(self) -> float:
        """Mean number in the system, by Little's law."""
        return self.arrival_rate * self.W

    @property
    def Lq(self) -> float:
        """Mean number waiting, by Little's law applied to the waiting room alone."""
        return self.arrival_rate * self.Wq


@dataclass(frozen=True)
class MM1(SteadyState):
    """One server, Poisson arrivals, exponential service.

    Assumptions
    -----------
    Poisson arrivals; independent exponential service times; one server; first come, first served;
    unlimited waiting room; nobody gives up; utilisation below 1.

    Formulas
    --------
    P(N = n) = (1 - rho) rho^n;  L = rho / (1 - rho);  the sojourn time is exponential with rate
    service_rate - arrival_rate.  Source: Kleinrock 1975, Queueing Systems I, section 3.2; derived in
    chapter 3.

    Raises
    ------
    ValueError
        If a rate is not positive or arrival_rate >= service_rate.
    """

    arrival_rate: float
    service_rate: float

    def __post_init__(self) -> None:
        positive("MM1.arrival_rate", self.arrival_rate)
        positive("MM1.service_rate", self.service_rate)
        stable("MM1", self.utilisation)

    @property
    def service_mean(self) -> float:
        """Mean service time (s)."""
        return 1 / self.service_rate

    @property
    def Wq(self) -> float:
        """Mean wait: rho / (service_rate - arrival_rate) (s)."""
        return self.utilisation / (self.service_rate - self.arrival_rate)

    def state_probability(self, n: int) -> float:
        """Probability of exactly `n` requests in the system."""
        return (1 - self.utilisation) * self.utilisation ** integer("n", n, at_least=0)

    def tail(self, t: float) -> float:
        """P(sojourn > t) = exp(-(service_rate - arrival_rate) t)."""
        return math.exp(-(self.service_rate - self.arrival_rate) * non_negative("t", t))

    def quantile(self, q: float) -> float:
        """Time (s) that a share `q` of the requests does not exceed: -log(1 - q) / (service_rate -
        arrival_rate)."""
        return -math.log1p(-level("q", q)) / (self.service_rate - self.arrival_rate)

    def wait_tail(self, t: float) -> float:
        """P(wait > t) = rho exp(-(service_rate - arrival_rate) t); a share 1 - rho does not wait at all."""
        return self.utilisation * self.tail(t)


@dataclass(frozen=True)
class MMc(SteadyState):
    """Several servers behind one queue (Erlang C).

    Assumptions
    -----------
    As M/M/1, but `servers` equal servers take from one queue, first come, first served.

    Formulas
    --------
    Erlang B by its recursion B(k) = a B(k-1) / (k + a B(k-1)) with a = arrival_rate / service_rate, which
    never overflows; Erlang C = B / (1 - rho (1 - B)); Wq = C / (servers * service_rate - arrival_rate).
    Source: Kleinrock 1975, section 3.5.
    """

    arrival_rate: float
    service_rate: float
    servers: int

    def __post_init__(self) -> None:
        positive("MMc.arrival_rate", self.arrival_rate)
        positive("MMc.service_rate", self.service_rate)
        integer("MMc.servers", self.servers)
        stable("MMc", self.utilisation)

    @property
    def service_mean(self) -> float:
        """Mean service time (s)."""
        return 1 / self.service_rate

    @property
    def utilisation(self) -> float:
        """Share of time that a server is busy."""
        return self.arrival_rate / (self.servers * self.service_rate)

    @property
    def wait_probability(self) -> float:
        """Erlang C: the share of requests that find every server busy."""
        offered = self.arrival_rate / self.service_rate
        erlang_b = 1.0
        for k in range(1, self.servers + 1):
            erlang_b = offered * erlang_b / (k + offered * erlang_b)
        return erlang_b / (1 - self.utilisation * (1 - erlang_b))

    @property
    def Wq(self) -> float:
        """Mean wait (s)."""
        return self.wait_probability / self._spare

    @property
    def _spare(self) -> float:
        return self.servers * self.service_rate - self.arrival_rate

    def wait_tail(self, t: float) -> float:
        """P(wait > t): Erlang C times an exponential of the spare rate."""
        return self.wait_probability * math.exp(-self._spare * non_negative("t", t))

    def tail(self, t: float) -> float:
        """P(sojourn > t): service alone for those who do not wait, a sum of two exponentials for the
        others."""
        non_negative("t", t)
        mu, spare, waits = self.service_rate, self._spare, self.wait_probability
        alone = math.exp(-mu * t)
        if math.isclose(mu, spare, rel_tol=1e-9):
            both = (1 + mu * t) * alone
        else:
            both = (spare * alone - mu * math.exp(-spare * t)) / (spare - mu)
        return (1 - waits) * alone + waits * both

    def quantile(self, q: float) -> float:
        """Sojourn time (s) at level `q`, by root finding on the tail."""
        level("q", q)
        return quantile_of_tail(self.tail, q, self.W)


@dataclass(frozen=True)
class MG1(SteadyState):
    """One server, Poisson arrivals, any service time (Pollaczek and Khinchine).

    Assumptions
    -----------
    Poisson arrivals; independent service times with two finite moments, independent of the arrivals; one
    server; first come, first served; unlimited room; nobody gives up.

    Formulas
    --------
    Wq = arrival_rate * E[S^2] / (2 (1 - rho)) = rho / (1 - rho) * (1 + scv) / 2 * E[S], where scv is the
    squared coefficient of variation, Var S / E[S]^2: 1 for exponential, 0 for constant service.
    Source: Kleinrock 1975, section 5.6.  The distribution is in :mod:`labcode.queueing.transform`.
    """

    arrival_rate: float
    mean: float
    scv: float

    def __post_init__(self) -> None:
        positive("MG1.arrival_rate", self.arrival_rate)
        positive("MG1.mean", self.mean)
        non_negative("MG1.scv", self.scv)
        stable("MG1", self.utilisation)

    @classmethod
    def from_samples(cls, arrival_rate: float, services: Sequence[float] | np.ndarray) -> MG1:
        """Take mean and scv from measured service times (s); at least two positive numbers."""
        values = np.asarray(services, dtype=float)
        if values.ndim != 1 or len(values) < 2 or not np.all(np.isfinite(values)) or np.any(values <= 0):
            raise ValueError("services: a flat list of at least two finite times above 0 is needed")
        return cls(arrival_rate, float(values.mean()), float(values.var() / values.mean() ** 2))

    @property
    def service_mean(self) -> float:
        """Mean service time (s)."""
        return self.mean

    @property
    def Wq(self) -> float:
        """Mean wait by Pollaczek-Khinchine (s)."""
        rho = self.utilisation
        return rho / (1 - rho) * (1 + self.scv) / 2 * self.mean


@dataclass(frozen=True)
class MD1(SteadyState):
    """One server, Poisson arrivals, constant service time.

    Assumptions
    -----------
    As M/G/1 with every service equally long.

    Formulas
    --------
    Wq = rho / (1 - rho) * service_time / 2: half of M/M/1's.  Distribution of the wait: Franx 2001, "A
    simple solution for the M/D/c waiting time distribution", Operations Research Letters 29, eq. 10 with
    c = 1.  It only adds positive terms, unlike Erlang's alternating series, which loses every digit at
    high load.
    """

    arrival_rate: float
    service_time: float

    def __post_init__(self) -> None:
        positive("MD1.arrival_rate", self.arrival_rate)
        positive("MD1.service_time", self.service_time)
        stable("MD1", self.utilisation)

    @property
    def service_mean(self) -> float:
        """The service time (s)."""
        return self.service_time

    @property
    def Wq(self) -> float:
        """Mean wait (s)."""
        rho = self.utilisation
        return rho / (1 - rho) * self.service_time / 2

    def state_probabilities(self, count: int) -> np.ndarray:
        """P(N = n) for n = 0 ... count - 1, from the chain seen by departures (shape (count,))."""
        integer("count", count)
        arrivals = poisson.pmf(np.arange(count + 1), self.utilisation)
        pi = np.zeros(count)
        pi[0] = 1 - self.utilisation
        # pi[j] = pi[0] a[j] + sum over i = 1 ... j + 1 of pi[i] a[j + 1 - i], solved for pi[j + 1]; written
        # with the tails of a every term is positive and no digit is lost.
        tails = poisson.sf(np.arange(count + 1), self.utilisation)
        for j in range(1, count):
            pi[j] = (pi[0] * tails[j - 1] + pi[1:j] @ tails[j - 1 : 0 : -1]) / arrivals[0]
        return pi

    def wait_tail(self, t: float) -> float:
        """P(wait > t)."""
        non_negative("t", t)
        k = math.floor(t / self.service_time) + 1
        in_queue = np.cumsum(self.state_probabilities(k + 1))[1:]  # P(at most m waiting), m = 0 ... k - 1
        remaining = self.arrival_rate * (k * self.service_time - t)
        return max(0.0, 1 - float(poisson.pmf(np.arange(k), remaining) @ in_queue[::-1]))

    def tail(self, t: float) -> float:
        """P(sojourn > t) = P(wait > t - service_time); 1 below the service time."""
        non_negative("t", t)
        return 1.0 if t < self.service_time else self.wait_tail(t - self.service_time)

    def quantile(self, q: float) -> float:
        """Sojourn time (s) at level `q`."""
        level("q", q)
        if self.tail(self.service_time) <= 1 - q:
            return self.service_time
        return quantile_of_tail(self.tail, q, self.W)


def quantile_of_tail(tail: Callable[[float], float], q: float, scale: float) -> float:
    """Solve tail(t) = 1 - q for a falling `tail`, searching outwards from `scale` seconds."""
    if q == 0:
        return 0.0
    high = scale
    while tail(high) > 1 - q:
        high *= 2
    return float(brentq(lambda t: tail(t) - (1 - q), 0.0, high, xtol=1e-12 * scale, rtol=1e-12))
