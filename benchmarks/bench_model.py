"""Speed of the mini model: what batching gains on this machine, beside what the machine can do at all.

Two floors are measured beside the batched step. Reading all weights once is what bounds a decode on a GPU. A
CPU core computes far less for each byte that it can read, so at 64 rows the matrix products themselves take
several times as long as reading the weights does: they are the floor that counts here.
"""

from __future__ import annotations

import time

import numpy as np

from labcode.course.evidence.model import DecodeTimes, decode_times
from labcode.model import SMALL, random_model

BATCH = 64


def products(model, rows: int, repeat: int = 5) -> float:
    """Return the time of every weight's matrix product with `rows` rows, and nothing else, in seconds."""
    matrices = [array for array in model.arrays() if array.ndim == 2 and array is not model.embedding]
    matrices.append(model.embedding.T)
    inputs = [np.ones((rows, matrix.shape[0]), dtype=matrix.dtype) for matrix in matrices]
    best = float("inf")
    for _ in range(repeat + 1):
        start = time.perf_counter()
        for x, matrix in zip(inputs, matrices, strict=True):
            x @ matrix
        best = min(best, time.perf_counter() - start)
    return best


def test_decode_of_64(benchmark):
    model = random_model(SMALL)
    times: DecodeTimes = benchmark.pedantic(decode_times, (BATCH,), {"model": model, "repeat": 7}, rounds=1)
    floor = products(model, BATCH)
    benchmark.extra_info.update(
        one_by_one_ms=1e3 * times.one_by_one, together_ms=1e3 * times.together, speedup=times.speedup,
        read_weights_ms=1e3 * times.read, together_over_read=times.together / times.read,
        products_ms=1e3 * floor, together_over_products=times.together / floor,
    )  # fmt: skip
    print(benchmark.extra_info)
    assert times.speedup > 3
    assert times.together < 2.5 * max(times.read, floor)


def test_step_time_grows_slower_than_the_batch(benchmark):
    model = random_model(SMALL)

    def profile() -> dict[int, float]:
        return {batch: decode_times(batch, model=model, repeat=3).together for batch in (1, 4, 16, 64)}

    found = benchmark.pedantic(profile, rounds=1)
    benchmark.extra_info.update({f"{batch} sequences, ms": 1e3 * seconds for batch, seconds in found.items()})
    print(benchmark.extra_info)
    assert found[16] < 8 * found[1]
