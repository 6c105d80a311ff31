"""Reservations in one piece: what the book's pool hides, since its tokens may lie anywhere.

An engine whose attention needs a request's keys and values side by side must find the whole reservation in *one* gap.
As requests of different size come and go the free memory falls into pieces, and a request may be refused although
there is room enough in all: external fragmentation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from labcode.checks import integer
from labcode.scheduler import Request


class Contiguous:
    """A memory manager that reserves one piece for each request, in the first gap that is large enough (first fit).

    Parameters
    ----------
    capacity : int
        Positions in the pool, in tokens.
    need : callable
        ``need(request)`` -> positions to reserve.
    """

    def __init__(self, capacity: int, need: Callable[[Request], int]) -> None:
        self.capacity = integer("capacity", capacity)
        self.need = need
        self.gaps: list[tuple[int, int]] = [(0, capacity)]  # (start, length), by start
        self.pieces: dict[int, tuple[int, int]] = {}

    @property
    def reserved(self) -> int:
        """Tokens that are reserved."""
        return self.capacity - sum(length for _, length in self.gaps)

    def try_admit(self, request: Request, positions: int) -> bool:
        """Reserve the first gap that holds the whole need of `request`, or return False."""
        need = max(self.need(request), positions)
        for i, (start, length) in enumerate(self.gaps):
            if length >= need:
                self.gaps[i : i + 1] = [(start + need, length - need)] if length > need else []
                self.pieces[request.id] = (start, need)
                return True
        return False

    def grow(self, request: Request, positions: int) -> bool:
        """Return whether the reservation holds `positions`; a piece cannot be made longer."""
        return positions <= self.pieces[request.id][1]

    def horizon(self, holders: Iterable[tuple[Request, int]]) -> int:
        """Return for how many tokens the pieces of all holders last."""
        return min((self.pieces[request.id][1] - positions for request, positions in holders), default=self.capacity)

    def free(self, request: Request) -> None:
        """Give a piece back, and join it with the gaps beside it."""
        self.gaps = sorted([*self.gaps, self.pieces.pop(request.id)])
        joined = self.gaps[:1]
        for start, length in self.gaps[1:]:
            before, size = joined[-1]
            if before + size == start:
                joined[-1] = (before, size + length)
            else:
                joined.append((start, length))
        self.gaps = joined
