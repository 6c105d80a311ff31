"""Two real models of very different cost per input, and how to measure a latency profile on this machine."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd

from labcode.checks import integer, positive

Predict = Callable[[np.ndarray], np.ndarray]


def linear_model(features: int = 784, classes: int = 10, *, rng: np.random.Generator) -> Predict:
    """A linear classifier: one matrix product.  Inputs (batch, features) -> class numbers (batch,)."""
    weights = rng.standard_normal((integer("features", features), integer("classes", classes, at_least=2)))

    def predict(inputs: np.ndarray) -> np.ndarray:
        return (inputs @ weights).argmax(axis=1)

    return predict


def kernel_machine(
    features: int = 784,
    support: int = 500,
    gamma: float = 0.001,
    together: bool = False,
    expanded: bool | None = None,
    *,
    rng: np.random.Generator,
) -> Predict:
    """A two-class machine with a Gaussian kernel: sign of sum_k alpha_k exp(-gamma |x - s_k|^2).

    Inputs (batch, features) -> -1 or 1 (batch,). Each input meets each of the `support` vectors, which is why it costs
    so much more than the linear model.

    Parameters
    ----------
    together : bool
        One matrix product reads the support vectors once for the whole batch.  Otherwise inputs are taken one by one,
        so that a batch shares nothing.
    expanded : bool, optional
        Distances as |x|^2 - 2 x.s + |s|^2, one product of a matrix and a vector for each input, instead of as the sum
        of squared differences: the algorithm of ``together=True``, which has no other.  By default that of `together`.

    Raises
    ------
    ValueError
        If inputs are taken together with another algorithm than the expanded one.
    """
    expanded = together if expanded is None else expanded
    if together and not expanded:
        raise ValueError("expanded = False: taken together, distances are computed by the expanded formula only")
    vectors = rng.standard_normal((integer("support", support), integer("features", features)))
    alpha = rng.standard_normal(support)
    positive("gamma", gamma)
    squares = (vectors**2).sum(axis=1)

    def differences(inputs: np.ndarray) -> np.ndarray:
        return np.array([np.sign(np.exp(-gamma * ((vectors - x) ** 2).sum(axis=1)) @ alpha) for x in inputs])

    def one_by_one(inputs: np.ndarray) -> np.ndarray:
        return np.array([np.sign(np.exp(-gamma * (x @ x - 2 * (vectors @ x) + squares)) @ alpha) for x in inputs])

    def in_one_product(inputs: np.ndarray) -> np.ndarray:
        distance = (inputs**2).sum(axis=1)[:, None] - 2 * inputs @ vectors.T + squares
        return np.sign(np.exp(-gamma * distance) @ alpha)

    if together:
        return in_one_product
    return one_by_one if expanded else differences


def behind_a_call(predict: Predict) -> Predict:
    """Put a model behind a call as a container is: inputs and answers are serialised and cross to another thread.

    The hand-over costs the same whatever the batch: the fixed cost that batching shares, without a network.
    """
    worker = ThreadPoolExecutor(1)

    def answer(message: bytes) -> bytes:
        return pickle.dumps(predict(pickle.loads(message)))

    def called(inputs: np.ndarray) -> np.ndarray:
        return np.asarray(pickle.loads(worker.submit(answer, pickle.dumps(inputs)).result()))

    return called


def measure_profile(
    predict: Callable[[np.ndarray], object],
    inputs: np.ndarray,
    sizes: Sequence[int],
    repeats: int = 20,
    *,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Time batches of several sizes, in random order (so that a slow spell of the machine hits all sizes
    alike).

    Returns
    -------
    DataFrame
        Columns `batch` and `latency` (s), one row a timed call; len(sizes) * repeats rows.

    Raises
    ------
    ValueError
        If a size is below 1 or beyond the rows of `inputs`.
    """
    for size in sizes:
        integer("sizes", size, at_most=len(inputs))
    order = np.repeat(np.asarray(sizes, dtype=int), integer("repeats", repeats))
    rng.shuffle(order)
    predict(inputs[: int(max(sizes))])  # warm up: first calls pay for caches and threads
    latencies = np.empty(len(order))
    for i, size in enumerate(order):
        start = time.perf_counter()
        predict(inputs[:size])
        latencies[i] = time.perf_counter() - start
    return pd.DataFrame({"batch": order, "latency": latencies})
