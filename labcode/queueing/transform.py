"""Waiting and sojourn distribution of M/G/1, from its transform by numerical inversion."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from labcode.checks import positive
from labcode.queueing.closed_forms import stable

Transform = Callable[[np.ndarray], np.ndarray]


def exponential(mean: float) -> Transform:
    """Laplace-Stieltjes transform E[exp(-z S)] of an exponential service time."""
    return lambda z: 1 / (1 + mean * z)


def constant(value: float) -> Transform:
    """Transform of a constant service time."""
    return lambda z: np.exp(-value * z)


def empirical(services: np.ndarray) -> Transform:
    """Transform of measured service times: the mean of exp(-z s) over the sample."""
    sample = np.asarray(services, dtype=float)
    return lambda z: np.exp(-np.multiply.outer(z, sample)).mean(axis=-1)


def invert(transform: Transform, t: float, terms: int = 30) -> float:
    """Value at `t` > 0 of the function whose Laplace transform is given.

    The Euler algorithm: the Bromwich integral by the trapezoidal rule, whose alternating series is then
    averaged with binomial weights.  Accurate to about 1e-7 for a smooth function, less near a jump.
    Source: Abate and Whitt 1995, ORSA Journal on Computing 7(1), section 1.
    """
    positive("t", t)
    a, averaged = 18.4, 12  # discretisation error exp(-18.4) = 1e-8
    k = np.arange(terms + averaged + 1)
    values = transform((a + 2j * math.pi * k) / (2 * t)).real * (-1.0) ** k
    values[0] /= 2
    partial = np.cumsum(values) * math.exp(a / 2) / t
    weights = np.array([math.comb(averaged, j) for j in range(averaged + 1)]) / 2.0**averaged
    return float(weights @ partial[terms:])


def mg1_tail(arrival_rate: float, service: Transform, service_mean: float, t: float, sojourn: bool = True) -> float:
    """P(sojourn > t) of M/G/1, or P(wait > t) with ``sojourn=False``.

    Assumptions as :class:`labcode.queueing.MG1`.  The wait has the transform
    (1 - rho) z / (z - arrival_rate (1 - service(z))) (Pollaczek-Khinchine), the sojourn that times
    service(z); the tail's own transform is (1 - transform) / z.

    Parameters
    ----------
    arrival_rate : float
        Requests/s.
    service : callable
        Transform of the service time, elementwise on a complex array.
    service_mean : float
        Its mean (s).
    t : float
        Seconds, above 0.
    """
    positive("arrival_rate", arrival_rate)
    rho = stable("mg1_tail", arrival_rate * positive("service_mean", service_mean))

    def tail_transform(z: np.ndarray) -> np.ndarray:
        served = service(z)
        wait = (1 - rho) * z / (z - arrival_rate * (1 - served))
        return (1 - (wait * served if sojourn else wait)) / z

    return min(1.0, max(0.0, invert(tail_transform, t)))
