"""Memory managers: may this request come in, may it grow, it has left.

An engine asks only three things of a memory manager, and a reader's own needs no more:

- ``try_admit(request, positions)``: take it in with `positions` tokens to be written at once; True or False.
- ``grow(request, positions)``: it is about to hold `positions` tokens in all; True or False.
- ``free(request)``: it has left or was preempted; give everything back.

Optional: ``reserved`` (tokens taken), ``refusal(request)`` (why it can never fit, or None) and
``horizon(holders)`` (for how many more steps every holder may grow by one without a refusal).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from labcode.checks import integer
from labcode.workload import Request

#: A pool that never runs out, in tokens.
UNLIMITED = 1 << 60


@runtime_checkable
class Memory(Protocol):
    """What an engine asks of a memory manager."""

    def try_admit(self, request: Request, positions: int) -> bool:
        """Take `request` in if there is room for it; it will write `positions` tokens in its first step."""

    def grow(self, request: Request, positions: int) -> bool:
        """Make room for `request` to hold `positions` tokens in all, or return False."""

    def free(self, request: Request) -> None:
        """Give back everything that `request` holds."""


def power_of_two(tokens: int) -> int:
    """Return the smallest power of two that is at least `tokens`."""
    return 1 << max(0, int(tokens) - 1).bit_length()


class ReservationMemory:
    """Reserve a request's whole need when it comes in, as Orca does; then it can always run to its end.

    Parameters
    ----------
    capacity : int
        Slots in the pool, in tokens.
    need : callable
        ``need(prompt, output)`` -> tokens to reserve.
    longest : int, optional
        Requests whose prompt and output exceed this are refused.
    """

    def __init__(self, capacity: int, need: Callable[[int, int], int], longest: int | None = None) -> None:
        self.capacity = integer("capacity", capacity)
        self.need = need
        self.longest = longest
        self.reserved = 0
        self._held: dict[int, int] = {}

    def refusal(self, request: Request) -> str | None:
        """Return why `request` can never be taken in, or None."""
        return refusal(
            request.prompt, request.output, self.need(request.prompt, request.output), self.capacity, self.longest
        )

    def try_admit(self, request: Request, positions: int) -> bool:
        """Reserve the whole need of `request`, or return False."""
        need = self.need(request.prompt, request.output)
        if self.reserved + need > self.capacity:
            return False
        self._held[request.id] = need
        self.reserved += need
        return True

    def grow(self, request: Request, positions: int) -> bool:
        """Return True: the room was reserved when the request came in."""
        return True

    def horizon(self, holders: Iterable[tuple[Request, int]]) -> int:
        """Return for how many steps all may grow: for ever."""
        return UNLIMITED

    def free(self, request: Request) -> None:
        """Give the reservation back."""
        self.reserved -= self._held.pop(request.id)


class PagedMemory:
    """Hand out pages of `page` tokens as they are needed (Kwon et al. 2023); nothing is reserved ahead.

    A pool can then run out in the middle, and the engine has to preempt somebody.
    """

    def __init__(self, capacity: int, page: int = 16) -> None:
        self.page = integer("page", page)
        self.pages = integer("capacity", capacity) // self.page
        self.capacity = self.pages * self.page
        self.free_pages = self.pages
        self._held: dict[int, int] = {}

    @property
    def reserved(self) -> int:
        """Tokens in pages that are handed out."""
        return (self.pages - self.free_pages) * self.page

    def pages_for(self, positions: int) -> int:
        """Return the pages that `positions` tokens fill, the last one perhaps in part."""
        return -(-positions // self.page)

    def refusal(self, request: Request) -> str | None:
        """Return why `request` can never run to its end alone, or None."""
        return refusal(request.prompt, request.output, request.prompt + request.output, self.capacity, None)

    def try_admit(self, request: Request, positions: int) -> bool:
        """Hand out the pages of the first step, or return False."""
        need = self.pages_for(positions)
        if need > self.free_pages:
            return False
        self._held[request.id] = need
        self.free_pages -= need
        return True

    def grow(self, request: Request, positions: int) -> bool:
        """Hand out the further pages that `positions` tokens need, or return False."""
        further = self.pages_for(positions) - self._held[request.id]
        if further > self.free_pages:
            return False
        if further > 0:
            self._held[request.id] += further
            self.free_pages -= further
        return True

    def horizon(self, holders: Iterable[tuple[Request, int]]) -> int:
        """Return the largest k such that every holder, now at some positions, may grow by k tokens."""
        now = np.array([positions for _, positions in holders], dtype=np.int64)
        if not len(now):
            return UNLIMITED
        held = int(np.sum(-(-now // self.page)))
        room = self.free_pages
        # Without rounding to whole pages, k would be this; each holder wastes less than a page.
        high = (self.page * (held + room) - int(now.sum())) // len(now)
        low = max(0, high - self.page)
        while low < high:
            middle = (low + high + 1) // 2
            if int(np.sum(-(-(now + middle) // self.page))) - held <= room:
                low = middle
            else:
                high = middle - 1
        return low

    def free(self, request: Request) -> None:
        """Take the request's pages back."""
        self.free_pages += self._held.pop(request.id)


def refusal(prompt: int, output: int, need: int, capacity: int, longest: int | None) -> str | None:
    """Return why a request can never fit, or None."""
    if longest is not None and prompt + output > longest:
        return f"prompt {prompt} + output {output} tokens exceed the context limit of {longest}"
    if need > capacity:
        return f"needs {need} tokens of KV cache, the whole pool has {capacity}"
    return None


def reservation_rule(policy: str) -> tuple[Callable[[int, int], int], int | None]:
    """Return the rule ``need(prompt, output)`` of a policy by name, and its context limit (tokens) if it has one.

    ``"max:8192"`` reserves 8192 tokens for everyone and refuses what is longer; ``"pow2"`` the prompt and the
    output rounded up to a power of two; ``"oracle"`` exactly what the request will use; ``"unlimited"`` nothing.
    """
    name, _, argument = policy.partition(":")
    if name == "max" and argument.isdecimal() and int(argument) > 0:
        limit = int(argument)
        return (lambda prompt, output: limit), limit
    if policy == "pow2":
        return (lambda prompt, output: prompt + power_of_two(output)), None
    if policy == "oracle":
        return (lambda prompt, output: prompt + output), None
    if policy == "unlimited":
        return (lambda prompt, output: 0), None
    raise ValueError(
        f'memory = {policy!r}: known are "max:TOKENS" (as in "max:8192"), "pow2", "oracle", "unlimited", "paged", '
        '"paged:TOKENS" (a page), or an object with try_admit, grow and free'
    )


def needs(policy: str, prompt: NDArray[np.int64], output: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what a reservation policy takes for each request, in tokens; the array form of `reservation_rule`."""
    rule, _ = reservation_rule(policy)
    if policy == "pow2":
        return prompt + (1 << np.ceil(np.log2(output)).astype(np.int64))
    return np.broadcast_to(np.asarray(rule(prompt, output), dtype=np.int64), prompt.shape).copy()  # type: ignore[arg-type]


def make(policy: str | Memory, capacity: int) -> Memory:
    """Return the memory manager called `policy` over a pool of `capacity` tokens (an object passes through).

    Raises
    ------
    ValueError
        If the name is unknown, or the object lacks one of the three methods.
    """
    if not isinstance(policy, str):
        if not isinstance(policy, Memory):
            raise ValueError(f"memory = {policy!r}: an object needs the methods try_admit, grow and free")
        return policy
    name, _, argument = policy.partition(":")
    if name == "paged" and (not argument or (argument.isdecimal() and int(argument) > 0)):
        return PagedMemory(capacity, int(argument or 16))
    rule, longest = reservation_rule(policy)
    return ReservationMemory(UNLIMITED if policy == "unlimited" else capacity, rule, longest)
