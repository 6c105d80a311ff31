"""What a predictor says of the outputs: true lengths seen through an error that is stated.

A scheduler never sees the true length.  An oracle is a predictor that happens to be right, and is called so.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from labcode.checks import non_negative
from labcode.workload.request import Workload

Predictor = Callable[[Workload], NDArray[np.float64]]


def lognormal_error(load: Workload, sigma: float, seed: int) -> NDArray[np.float64]:
    """Return predictions of the output lengths: the true ones times exp(N(0, sigma²)), in tokens, shape (n,).

    The same seed gives the same relative errors whatever the rate, so a sweep compares like with like.
    """
    errors = np.random.default_rng(seed).normal(0.0, 1.0, len(load))
    return np.asarray(load.output * np.exp(sigma * errors), dtype=float)


def power_of_two_error(load: Workload, sigma: float, seed: int) -> NDArray[np.float64]:
    """Return log-normal predictions rounded up to a power of two, in tokens, shape (n,)."""
    return np.exp2(np.ceil(np.log2(np.maximum(1.0, lognormal_error(load, sigma, seed)))))


def predict(load: Workload, predictor: str | Predictor, seed: int = 0) -> NDArray[np.float64]:
    """Return what a predictor expects of each request, in tokens of output, shape (n,).

    Parameters
    ----------
    predictor : str or callable
        ``"exact"`` (an oracle), ``"lognormal:SIGMA"``, ``"pow2"`` or ``"pow2:SIGMA"``, or a function of the workload.
    seed : int
        Of the errors.

    Raises
    ------
    ValueError
        If the name is unknown, or a function returns something else than one number above 0 a request.
    """
    if callable(predictor):
        predicted = np.asarray(predictor(load), dtype=float)
        if predicted.shape != (len(load),) or not (np.isfinite(predicted) & (predicted > 0)).all():
            raise ValueError(
                f"predictor = {predictor!r}: must return one number above 0 for each of {len(load)} requests"
            )
        return predicted
    name, _, argument = str(predictor).partition(":")
    if predictor == "exact":
        return load.output.astype(float)
    if name in ("lognormal", "pow2") and (argument or name == "pow2"):
        try:
            sigma = non_negative("predictor's sigma", float(argument or 0))
        except ValueError:
            raise ValueError(f"predictor = {predictor!r}: a number of at least 0 is needed after '{name}:'") from None
        return (lognormal_error if name == "lognormal" else power_of_two_error)(load, sigma, seed)
    raise ValueError(
        f'predictor = {predictor!r}: known are "exact", "lognormal:SIGMA", "pow2", "pow2:SIGMA", or a function of the '
        "workload"
    )
