"""KV cache in one piece a request, as it was before blocks: where the pieces lie matters, and holes remain.

Two classical allocators (Knuth, The Art of Computer Programming 1, section 2.5) under the rules of a reservation: the
whole need is taken at admission, as one run of neighbouring positions.  `Reservation` over a pool of interchangeable
positions is the same policy without a place; what these two lose beside it is external fragmentation, and, for the
buddies, what they round up.
"""

from __future__ import annotations

from collections.abc import Iterable

from labcode.checks import integer
from labcode.scheduler.kv_cache import UNLIMITED, Memory, Need, positions_needed
from labcode.scheduler.request import Request


class Contiguous(Memory):
    """What both allocators share: the books, and the questions of a scheduler.

    Parameters
    ----------
    capacity : int
        Positions in the pool, in tokens.
    need : callable
        ``need(request)`` -> positions to reserve.

    Attributes
    ----------
    placed : dict of int to (int, int)
        Request -> where its piece begins, and how long it is (tokens).
    fragmented : int
        How often a request was sent away although enough positions were free, only not in one piece.
    """

    def __init__(self, capacity: int, need: Need) -> None:
        self.capacity = integer("capacity", capacity)
        self.need = need
        self.placed: dict[int, tuple[int, int]] = {}
        self.fragmented = 0

    def size(self, positions: int) -> int:
        """Return the length of the piece that holds `positions` tokens."""
        return positions

    def largest_hole(self) -> int:
        """Return the length of the longest free piece, in tokens."""
        raise NotImplementedError

    def take(self, size: int) -> int | None:
        """Return where a piece of `size` tokens begins, now taken, or None if there is none."""
        raise NotImplementedError

    def give_back(self, start: int, size: int) -> None:
        """Take a piece back, and join it with its free neighbours."""
        raise NotImplementedError

    @property
    def reserved(self) -> int:
        """Tokens in pieces that somebody holds."""
        return sum(size for _, size in self.placed.values())

    @property
    def free_tokens(self) -> int:
        """Tokens that nobody holds, wherever they lie."""
        return self.capacity - self.reserved

    def refusal(self, request: Request) -> str | None:
        """Return why `request` can never be placed, or None."""
        size = self.size(max(self.need(request), positions_needed(request)))
        if size > self.longest():
            return f"needs {size} tokens of KV cache in one piece, the pool's longest has {self.longest()}"
        return None

    def longest(self) -> int:
        """Return the longest piece that the empty pool has, in tokens."""
        return self.capacity

    def try_admit(self, request: Request, positions: int) -> bool:
        """Place the whole need of `request` (at least `positions`) in one piece, or return False."""
        size = self.size(max(self.need(request), positions))
        start = self.take(size)
        if start is None:
            self.fragmented += size <= self.free_tokens
            return False
        self.placed[request.id] = (start, size)
        return True

    def grow(self, request: Request, positions: int) -> bool:
        """Return whether the piece is long enough: its neighbour is somebody else's, so it cannot be lengthened."""
        return positions <= self.placed[request.id][1]

    def horizon(self, holders: Iterable[tuple[Request, int]]) -> int:
        """Return for how many tokens the pieces of all holders last."""
        return min((self.placed[request.id][1] - positions for request, positions in holders), default=UNLIMITED)

    def free(self, request: Request) -> None:
        """Give the piece back."""
        self.give_back(*self.placed.pop(request.id))


class FirstFit(Contiguous):
    """The first hole that is long enough, its rest stays a hole; neighbouring holes are one.

    Parameters
    ----------
    capacity, need
        As for `Contiguous`.
    """

    def __init__(self, capacity: int, need: Need) -> None:
        super().__init__(capacity, need)
        self.holes: list[tuple[int, int]] = [(0, self.capacity)]  # (start, length) by start

    def largest_hole(self) -> int:
        """Return the length of the longest hole, in tokens."""
        return max((length for _, length in self.holes), default=0)

    def take(self, size: int) -> int | None:
        """Cut `size` tokens off the first hole that has them."""
        for i, (start, length) in enumerate(self.holes):
            if length >= size:
                self.holes[i : i + 1] = [(start + size, length - size)] if length > size else []
                return start
        return None

    def give_back(self, start: int, size: int) -> None:
        """Make a hole of a piece, one with the holes beside it."""
        before = [hole for hole in self.holes if hole[0] < start]
        after = self.holes[len(before) :]
        if before and sum(before[-1]) == start:
            left, length = before.pop()
            start, size = left, length + size
        if after and after[0][0] == start + size:
            size += after.pop(0)[1]
        self.holes = [*before, (start, size), *after]


class Buddy(Contiguous):
    """Pieces of 2^k blocks, halved and joined again (the buddy system, Knowlton 1965).

    A pool that is not itself a power of two is a row of such pools, the longest first.

    Parameters
    ----------
    capacity, need
        As for `Contiguous`; what does not fill a block is lost.
    block : int
        The shortest piece, in tokens.
    """

    def __init__(self, capacity: int, need: Need, block: int = 16) -> None:
        super().__init__(capacity, need)
        self.block = integer("block", block, at_most=self.capacity)
        self.free_pieces: dict[int, set[int]] = {}  # length -> starts
        self.roots: dict[int, int] = {}  # start of a pool that has no buddy -> its length
        start = 0
        while self.capacity - start >= self.block:
            size = self.block << ((self.capacity - start) // self.block).bit_length() - 1
            self.roots[start] = size
            self.free_pieces.setdefault(size, set()).add(start)
            start += size

    def size(self, positions: int) -> int:
        """Return `positions` rounded up to 2^k blocks, in tokens."""
        blocks = -(-positions // self.block)
        return self.block << (blocks - 1).bit_length()

    def longest(self) -> int:
        """Return the longest piece that the empty pool has, in tokens."""
        return max(self.roots.values())

    def largest_hole(self) -> int:
        """Return the length of the longest free piece, in tokens."""
        return max((size for size, starts in self.free_pieces.items() if starts), default=0)

    def take(self, size: int) -> int | None:
        """Halve the shortest free piece that is long enough until it has the right length."""
        fitting = [length for length, starts in self.free_pieces.items() if starts and length >= size]
        if not fitting:
            return None
        length = min(fitting)
        start = min(self.free_pieces[length])
        self.free_pieces[length].remove(start)
        while length > size:
            length //= 2
            self.free_pieces.setdefault(length, set()).add(start + length)
        return start

    def give_back(self, start: int, size: int) -> None:
        """Join a piece with its buddy while that is free."""
        root = max(begin for begin in self.roots if begin <= start)
        while size < self.roots[root]:
            buddy = root + ((start - root) ^ size)
            if buddy not in self.free_pieces.get(size, ()):
                break
            self.free_pieces[size].remove(buddy)
            start, size = min(start, buddy), 2 * size
        self.free_pieces.setdefault(size, set()).add(start)
