"""The tables of numpy's ziggurat method, read off numpy itself.

The area under a falling density is cut into 256 layers of equal area (Marsaglia and Tsang, 2000).  A draw takes 64
random bits: 8 of them are a layer, others a place in it; a place that lies inside the curve for sure is returned at
once, as place times the layer's width.  Numpy does not show its tables, but PCG64 can be put into the state from which
any wanted 64 bits come next: one draw tells the width of a layer, and halving finds where "inside for sure" ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from labcode.course.playground.draws import MULTIPLIER, QUAD

LAYERS = 256
_BACK = pow(MULTIPLIER, -1, QUAD + 1)

Table = tuple[list[int], list[float], list[float]]


class _Forced:
    """A generator whose next 64 bits are chosen."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(0)
        self.state: dict[str, Any] = dict(self.generator.bit_generator.state)
        self.increment = self.state["state"]["inc"]

    def draw(self, bits: int, method: Callable[[np.random.Generator], float]) -> tuple[float, bool]:
        """Return what `method` draws if `bits` come next, and whether it asked for nothing more."""
        before = (bits - self.increment) * _BACK & QUAD  # whose next state is `bits`, which it hands out as they are
        self.state["state"] = {"state": before, "inc": self.increment}
        self.generator.bit_generator.state = self.state
        value = float(method(self.generator))
        return value, self.generator.bit_generator.state["state"]["state"] == bits


def _read(
    method: Callable[[np.random.Generator], float],
    place_bits: int,
    word: Callable[[int, int], int],
    density: Callable[[float], float],
) -> Table:
    """Return for each layer: below which place it is inside for sure, the width of a place, the density at its edge.

    Parameters
    ----------
    word : callable
        ``word(layer, place)``, the 64 bits that mean it.
    """
    forced = _Forced()
    inside, widths = [], []
    for layer in range(LAYERS):
        widths.append(forced.draw(word(layer, 1), method)[0])
        low, high = 0, 1 << place_bits  # the first place that is not inside lies in [low, high]
        while low < high:
            middle = (low + high) // 2
            if forced.draw(word(layer, middle), method)[1]:
                low = middle + 1
            else:
                high = middle
        inside.append(low)
    whole = float(1 << place_bits)
    edges = [density(0.0), *(density(width * whole) for width in widths[1:])]
    return inside, widths, edges


@cache
def exponential() -> Table:
    """Return the three tables of the exponential distribution."""
    return _read(
        lambda rng: rng.standard_exponential(),
        53,
        lambda layer, place: (place << 8 | layer) << 3,
        lambda x: math.exp(-x),
    )


@cache
def normal() -> Table:
    """Return the three tables of the normal distribution."""
    return _read(
        lambda rng: rng.standard_normal(), 52, lambda layer, place: place << 9 | layer, lambda x: math.exp(-0.5 * x * x)
    )
