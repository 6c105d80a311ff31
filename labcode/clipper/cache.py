"""Prediction cache with CLOCK eviction: close to least-recently-used, at the price of one bit an entry."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from labcode.checks import integer

Value = TypeVar("Value")


class PredictionCache(Generic[Value]):
    """At most `capacity` predictions, keyed by (model, input); Clipper's keys join the two, and so may yours.

    The entries stand in a circle. A hit sets its entry's bit. To make room, a hand goes round: an entry
    with its bit set loses the bit and stays (a second chance), the first without is evicted. One bit and
    one hand replace LRU's list, which would be reordered on every hit (Corbato 1968; Crankshaw et al. 2017,
    section 4.2).
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = integer("capacity", capacity)
        self.hits = 0
        self.misses = 0
        self._keys: list[Hashable] = []
        self._used: list[bool] = []
        self._values: dict[Hashable, Value] = {}
        self._slot: dict[Hashable, int] = {}
        self._hand = 0

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    @property
    def hit_rate(self) -> float:
        """Share of look-ups that hit (NaN before the first)."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else float("nan")

    def get(self, key: Hashable) -> Value | None:
        """Return the stored prediction and mark it as used, or None."""
        if key not in self._values:
            self.misses += 1
            return None
        self.hits += 1
        self._used[self._slot[key]] = True
        return self._values[key]

    def put(self, key: Hashable, value: Value) -> Hashable | None:
        """Store a prediction; return the key that was evicted for it, if any.

        A new entry starts with its bit clear: it must be asked for once to earn its second chance.
        """
        if key in self._values:
            self._values[key] = value
            return None
        evicted: Hashable | None = None
        if len(self._keys) < self.capacity:
            slot = len(self._keys)
            self._keys.append(key)
            self._used.append(False)
        else:
            while self._used[self._hand]:
                self._used[self._hand] = False
                self._hand = (self._hand + 1) % self.capacity
            slot, evicted = self._hand, self._keys[self._hand]
            del self._values[evicted], self._slot[evicted]
            self._keys[slot] = key
            self._hand = (self._hand + 1) % self.capacity
        self._values[key], self._slot[key] = value, slot
        return evicted
