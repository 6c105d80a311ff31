"""The random numbers of a workload, drawn as numpy draws them: the same seed gives the same requests, in a page too.

`numpy.random.default_rng` is PCG64 (O'Neill 2014), seeded by a `SeedSequence`; exponential and normal variables are
drawn by a ziggurat.  All of it is written out here in plain integers and floats; a test holds it to numpy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

WORD, DOUBLE, QUAD = (1 << 32) - 1, (1 << 64) - 1, (1 << 128) - 1
MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645

EXPONENTIAL_END = 7.69711747013104972
NORMAL_END, INVERSE_NORMAL_END = 3.6541528853610088, 0.27366123732975828

Table = tuple[Sequence[int], Sequence[float], Sequence[float]]


class _Hash:
    """The hash of a seed sequence, whose multiplier moves on at each use."""

    def __init__(self, start: int, multiplier: int) -> None:
        self.constant, self.multiplier = start, multiplier

    def __call__(self, value: int) -> int:
        value ^= self.constant
        self.constant = self.constant * self.multiplier & WORD
        value = value * self.constant & WORD
        return value ^ value >> 16


def _mix(x: int, y: int) -> int:
    result = (0xCA01F9DD * x - 0x4973F715 * y) & WORD
    return result ^ result >> 16


def seed_state(seed: int, spawn_key: tuple[int, ...] = ()) -> list[int]:
    """Return the four 64-bit words that ``SeedSequence(seed, spawn_key=spawn_key)`` gives to a generator."""
    entropy: list[int] = []
    while seed or not entropy:
        entropy.append(seed & WORD)
        seed >>= 32
    if spawn_key:
        entropy += [0] * (4 - len(entropy))
        entropy += spawn_key
    stir = _Hash(0x43B0D7E5, 0x931E8875)
    pool = [stir(entropy[i] if i < len(entropy) else 0) for i in range(4)]
    for source in range(4):
        for target in range(4):
            if source != target:
                pool[target] = _mix(pool[target], stir(pool[source]))
    for more in entropy[4:]:
        for target in range(4):
            pool[target] = _mix(pool[target], stir(more))
    out = _Hash(0x8B51F9DD, 0x58F38DED)
    words = [out(pool[i % 4]) for i in range(8)]
    return [words[i] | words[i + 1] << 32 for i in range(0, 8, 2)]


class Generator:
    """``numpy.random.default_rng`` of a seed, as far as workloads need it.

    Parameters
    ----------
    seed : int
    spawn_key : tuple of int
        Which child of the seed: ``SeedSequence(seed).spawn(2)`` has the keys (0,) and (1,).
    exponential, normal : tables
        Of the ziggurat; see :mod:`labcode.course.playground.tables`.
    """

    def __init__(self, seed: int, spawn_key: tuple[int, ...], exponential: Table, normal: Table) -> None:
        words = seed_state(seed, spawn_key)
        self._exponential, self._normal = exponential, normal
        self._increment = (words[2] << 64 | words[3]) << 1 & QUAD | 1
        self._state = self._increment
        self._state = self._step(self._state + (words[0] << 64 | words[1]))
        self._half: int | None = None

    def _step(self, state: int) -> int:
        return (state * MULTIPLIER + self._increment) & QUAD

    def bits64(self) -> int:
        """Return the next 64 bits."""
        state = self._state = self._step(self._state)
        mixed, turn = (state >> 64) ^ (state & DOUBLE), state >> 122
        return (mixed >> turn | mixed << (64 - turn)) & DOUBLE

    def bits32(self) -> int:
        """Return the next 32 bits; a word of 64 serves twice, its lower half first."""
        if self._half is not None:
            bits, self._half = self._half, None
            return bits
        bits = self.bits64()
        self._half = bits >> 32
        return bits & WORD

    def uniform(self) -> float:
        """Return a number in [0, 1)."""
        return (self.bits64() >> 11) * (1.0 / 9007199254740992.0)

    def exponential(self) -> float:
        """Return an exponential variable of mean 1."""
        inside, width, density = self._exponential
        while True:
            bits = self.bits64() >> 3
            layer, place = bits & 0xFF, bits >> 8
            x = place * width[layer]
            if place < inside[layer]:
                return x
            if layer == 0:
                return EXPONENTIAL_END - math.log1p(-self.uniform())
            if (density[layer - 1] - density[layer]) * self.uniform() + density[layer] < math.exp(-x):
                return x

    def normal(self) -> float:
        """Return a normal variable of mean 0 and deviation 1."""
        inside, width, density = self._normal
        while True:
            bits = self.bits64()
            layer, bits = bits & 0xFF, bits >> 8
            place = bits >> 1 & 0x000FFFFFFFFFFFFF
            x = place * width[layer]
            if bits & 1:
                x = -x
            if place < inside[layer]:
                return x
            if layer == 0:
                while True:
                    further = -INVERSE_NORMAL_END * math.log1p(-self.uniform())
                    drop = -math.log1p(-self.uniform())
                    if drop + drop > further * further:
                        return -(NORMAL_END + further) if place >> 8 & 1 else NORMAL_END + further
            elif (density[layer - 1] - density[layer]) * self.uniform() + density[layer] < math.exp(-0.5 * x * x):
                return x

    def integers(self, low: int, high: int) -> int:
        """Return a whole number from `low` to `high`, ends included (Lemire 2019)."""
        count = high - low + 1
        product = self.bits32() * count
        if (product & WORD) < count:
            least = (WORD + 1 - count) % count
            while (product & WORD) < least:
                product = self.bits32() * count
        return low + (product >> 32)
