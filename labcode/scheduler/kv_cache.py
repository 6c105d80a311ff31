"""The KV cache as a resource: one pool of blocks, and the rules by which requests take from it.

A scheduler asks a memory manager three things: may this request come in, may it grow, it has left.  `Memory` is the
base class; what a manager does not say has a sensible default.  (By name, and a reader's own: see
:mod:`labcode.scheduler.managers`.)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

from labcode.checks import fraction, integer
from labcode.scheduler.request import Request

#: A pool that never runs out, in tokens.
UNLIMITED = 1 << 60

Need = Callable[[Request], int]


def positions_needed(request: Request, output: float | None = None) -> int:
    """Return the positions that `request` will have written in the end, in tokens.

    The last token is handed out and never fed back, so it takes no position: prompt + output - 1.

    Parameters
    ----------
    output : float, optional
        Tokens of output to count with; by default the sender's limit.
    """
    return request.prompt + max(1, int(request.max_tokens if output is None else output)) - 1


def power_of_two(tokens: float) -> int:
    """Return the smallest power of two that is at least `tokens`."""
    whole = max(1, -int(-tokens // 1))
    return 1 << (whole - 1).bit_length()


class Memory:
    """What a scheduler asks of a memory manager; everything but the first and the last method has a default.

    Attributes
    ----------
    capacity : int
        Positions in the whole pool, in tokens.
    """

    capacity: int = UNLIMITED

    def try_admit(self, request: Request, positions: int) -> bool:
        """Take `request` in if there is room, all of it or nothing; it is about to write `positions` tokens."""
        raise NotImplementedError

    def grow(self, request: Request, positions: int) -> bool:
        """Make room for `request` to hold `positions` tokens in all, or change nothing and return False."""
        return True

    def free(self, request: Request) -> None:
        """Give back everything that `request` holds."""
        raise NotImplementedError

    def refusal(self, request: Request) -> str | None:
        """Return why `request` can never be taken in, or None."""
        return None

    def horizon(self, holders: Iterable[tuple[Request, int]]) -> int:
        """Return by how many tokens every holder, now at some positions, may surely grow; 0 means: ask each time."""
        return 0

    def cached(self, request: Request) -> int:
        """Return how many of the request's first positions are in the pool already (shared prefixes), in tokens."""
        return 0

    def publish(self, request: Request) -> None:
        """Hear that the whole prompt of `request` is computed now, so that others may share its blocks."""

    @property
    def reserved(self) -> int | None:
        """Tokens taken in the pool; None if the manager does not say (then what is written counts)."""
        return None

    @property
    def saved(self) -> int:
        """Positions that are held by several requests and stand in the pool once, counted beyond the first (tokens)."""
        return 0


class BlockPool:
    """Equal blocks of KV cache, handed out and taken back by number only: which ones they are does not matter.

    Parameters
    ----------
    capacity : int
        Positions, in tokens; what does not fill a block is lost.
    block : int
        Positions in a block, in tokens.
    """

    def __init__(self, capacity: int, block: int = 1) -> None:
        self.block = integer("block", block)
        self.blocks = integer("capacity", capacity) // self.block
        self.free_blocks = self.blocks
        self.held: dict[int, int] = {}

    def blocks_for(self, positions: int) -> int:
        """Return how many blocks hold `positions` tokens."""
        return -(-positions // self.block)

    def take(self, owner: int, blocks: int, spare: int = 0) -> bool:
        """Hand `blocks` to `owner` if `spare` stay free after that, all or nothing."""
        if blocks > self.free_blocks - spare:
            return False
        self.held[owner] = self.held.get(owner, 0) + blocks
        self.free_blocks -= blocks
        return True

    def give_back(self, owner: int) -> None:
        """Take all blocks of `owner` back; a second time is an error (KeyError)."""
        self.free_blocks += self.held.pop(owner)


class Reservation(Memory):
    """Reserve at admission, as Orca does: who comes in can run to its end, as far as the reservation was right.

    A request that outgrows its reservation asks for more; if the pool cannot give it, the scheduler preempts.

    Parameters
    ----------
    capacity : int
        Positions in the pool, in tokens.
    need : callable
        ``need(request)`` -> positions to reserve.
    longest : int, optional
        Requests of which prompt and limit exceed this are refused (tokens).
    """

    def __init__(self, capacity: int, need: Need, longest: int | None = None) -> None:
        self.capacity = integer("capacity", capacity)
        self.need, self.longest = need, longest
        self.pool = BlockPool(self.capacity)

    @property
    def reserved(self) -> int:
        """Tokens that are reserved."""
        return self.pool.blocks - self.pool.free_blocks

    def refusal(self, request: Request) -> str | None:
        """Return why `request` can never be taken in, or None."""
        total = request.prompt + request.max_tokens
        if self.longest is not None and total > self.longest:
            return (
                f"prompt {request.prompt} + output {request.max_tokens} tokens exceed the context limit of "
                f"{self.longest}"
            )
        need = max(self.need(request), positions_needed(request))
        if need > self.capacity:
            return f"needs {need} tokens of KV cache, the whole pool has {self.capacity}"
        return None

    def try_admit(self, request: Request, positions: int) -> bool:
        """Reserve the whole need of `request` (at least `positions`), or return False."""
        return self.pool.take(request.id, max(self.need(request), positions))

    def grow(self, request: Request, positions: int) -> bool:
        """Return True while the reservation lasts; then round the output up to a power of two, or take one more."""
        held = self.pool.held[request.id]
        if positions <= held:
            return True
        doubled = request.prompt + power_of_two(positions + 1 - request.prompt) - 1
        return self.pool.take(request.id, doubled - held) or self.pool.take(request.id, positions - held)

    def horizon(self, holders: Iterable[tuple[Request, int]]) -> int:
        """Return for how many tokens the reservations of all holders last."""
        held = self.pool.held
        return min((held[request.id] - positions for request, positions in holders), default=UNLIMITED)

    def free(self, request: Request) -> None:
        """Give the reservation back."""
        self.pool.give_back(request.id)


class Unlimited(Memory):
    """A pool without end: what would be if memory never bound."""

    reserved = 0

    def try_admit(self, request: Request, positions: int) -> bool:
        """Take everybody in."""
        return True

    def horizon(self, holders: Iterable[tuple[Request, int]]) -> int:
        """Return: for ever."""
        return UNLIMITED

    def free(self, request: Request) -> None:
        """Nothing was taken."""


class Paged(Memory):
    """Hand out blocks as they are needed (Kwon et al. 2023); nothing is reserved ahead.

    A pool can then run out in the middle, and the scheduler has to preempt somebody.  A *watermark* keeps a share of
    the pool free when requests come in, so that those who run can grow a while before that happens.

    Parameters
    ----------
    capacity : int
        Positions in the pool, in tokens.
    block : int
        Positions in a block, in tokens.
    watermark : float
        Share of the blocks that admission leaves free, in [0, 1); not asked of the first into an empty pool.
    share : bool
        Whether requests with equal prefix hashes share blocks; blocks that nobody holds stay until they are needed.
    """

    def __init__(self, capacity: int, block: int = 16, watermark: float = 0.0, share: bool = False) -> None:
        self.pool = BlockPool(capacity, block)
        self.block = self.pool.block
        self.capacity = self.pool.blocks * self.block
        if watermark != 0:
            fraction("watermark", watermark)
        self.spare = int(watermark * self.pool.blocks)
        self.share = share
        self.references: dict[int, int] = {}  # hash of a shared block -> requests that hold it
        self.idle: OrderedDict[int, None] = OrderedDict()  # shared blocks that nobody holds, longest idle first
        self.prefixes: dict[int, tuple[int, ...]] = {}  # request -> hashes of the shared blocks that it holds

    @property
    def reserved(self) -> int:
        """Tokens in blocks that somebody holds; a shared block counts once."""
        return (self.pool.blocks - self.pool.free_blocks - len(self.idle)) * self.block

    @property
    def saved(self) -> int:
        """Positions of shared blocks beyond their first holder, in tokens."""
        return sum(count - 1 for count in self.references.values() if count) * self.block

    @property
    def free_blocks(self) -> int:
        """Blocks that can be handed out: free ones, and shared ones that nobody holds."""
        return self.pool.free_blocks + len(self.idle)

    def blocks_for(self, positions: int) -> int:
        """Return how many blocks hold `positions` tokens."""
        return self.pool.blocks_for(positions)

    def refusal(self, request: Request) -> str | None:
        """Return why `request` can never run to its end, or None."""
        need = positions_needed(request)
        if need > self.capacity:
            return f"needs {need} tokens of KV cache, the whole pool has {self.capacity}"
        return None

    def cached(self, request: Request) -> int:
        """Return the positions of the longest shared prefix that is in the pool, in tokens; never the whole prompt."""
        if not self.share:
            return 0
        hits = 0
        while hits < len(request.prefix) and request.prefix[hits] in self.references:
            hits += 1
        return min(hits, (request.prompt - 1) // self.block) * self.block

    def try_admit(self, request: Request, positions: int) -> bool:
        """Hand out the blocks for `positions` tokens, those of a shared prefix by reference, or return False."""
        hits = request.prefix[: self.cached(request) // self.block] if self.share else ()
        revived = sum(1 for block in hits if self.references[block] == 0)
        new = self.blocks_for(positions) - len(hits)
        spare = self.spare if self.pool.held else 0
        if new + revived > self.free_blocks - spare:
            return False
        for block in hits:
            self.idle.pop(block, None)
            self.references[block] += 1
        self._evict(new)
        self.pool.take(request.id, new)
        self.prefixes[request.id] = tuple(hits)
        return True

    def publish(self, request: Request) -> None:
        """Let others share the full blocks of the request's prompt, which is computed now."""
        if not self.share:
            return
        mine = self.prefixes[request.id]
        for block in request.prefix[len(mine) : request.prompt // self.block]:
            if block in self.references:
                break  # somebody else computed the same meanwhile; this request keeps its own copy
            self.references[block] = 1
            self.pool.held[request.id] -= 1
            mine = (*mine, block)
        self.prefixes[request.id] = mine

    def _evict(self, blocks: int) -> None:
        """Make `blocks` blocks free by forgetting shared ones that nobody holds, the longest idle first."""
        while self.pool.free_blocks < blocks:
            block, _ = self.idle.popitem(last=False)
            del self.references[block]
            self.pool.free_blocks += 1

    def grow(self, request: Request, positions: int) -> bool:
        """Hand out the further blocks that `positions` tokens need, or return False."""
        held = self.pool.held[request.id] + len(self.prefixes[request.id])
        further = self.blocks_for(positions) - held
        if further > self.free_blocks:
            return False
        if further > 0:
            self._evict(further)
            self.pool.take(request.id, further)
        return True

    def horizon(self, holders: Iterable[tuple[Request, int]]) -> int:
        """Return the largest k such that every holder, now at some positions, may grow by k tokens."""
        block = self.block
        # What each holder may still write into the block that it has begun.
        rests = sorted((-positions) % block for _, positions in holders)
        if not rests:
            return UNLIMITED
        # In every `block` steps each takes one block; in an incomplete round those with the least rest come first.
        rounds, left = divmod(self.free_blocks, len(rests))
        return rounds * block + rests[left]

    def free(self, request: Request) -> None:
        """Take the request's own blocks back, and its references to shared ones."""
        self.pool.give_back(request.id)
        for block in reversed(self.prefixes.pop(request.id)):
            self.references[block] -= 1
            if self.references[block] == 0:
                self.idle[block] = None
