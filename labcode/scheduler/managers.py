"""Memory managers by name, and a reader's own.

A reader's object needs `try_admit`, `grow` and `free` alone; whatever else of `labcode.scheduler.kv_cache.Memory` it
offers is used.
"""

from __future__ import annotations

from typing import Any

from labcode.scheduler.kv_cache import Memory, Paged, Reservation, Unlimited, positions_needed, power_of_two


class Adapted(Memory):
    """A reader's object with `try_admit`, `grow` and `free`, and whatever else of `Memory` it offers."""

    def __init__(self, own: Any) -> None:
        self.own = own
        for name in ("try_admit", "grow", "free", "refusal", "horizon", "cached", "publish", "capacity"):
            if hasattr(own, name):
                setattr(self, name, getattr(own, name))

    @property
    def reserved(self) -> int | None:
        """What the object says, if it says anything."""
        return getattr(self.own, "reserved", None)


def as_memory(own: Any) -> Memory:
    """Return `own` as a memory manager: itself, or adapted if it has the three methods.

    Raises
    ------
    ValueError
        If one of the three is missing.
    """
    if isinstance(own, Memory):
        return own
    if not all(callable(getattr(own, name, None)) for name in ("try_admit", "grow", "free")):
        raise ValueError(f"memory = {own!r}: an object needs the methods try_admit, grow and free")
    return Adapted(own)


def memory(policy: str, capacity: int, watermark: float = 0.0) -> Memory:
    """Return the memory manager called `policy` over a pool of `capacity` tokens.

    Parameters
    ----------
    policy : str
        ``"max:8192"`` reserves 8192 positions for everybody and refuses what is longer; ``"declared"`` prompt and the
        sender's own limit (Orca's rule); ``"predicted"`` and ``"oracle"`` prompt and predicted output (an oracle is a
        predictor that is right); ``"pow2"`` the same with the prediction rounded up to a power of two;
        ``"unlimited"`` nothing; ``"paged"`` or ``"paged:16"`` blocks as they are needed, ``"shared:16"`` with shared
        prefixes.
    watermark : float
        For pages.

    Raises
    ------
    ValueError
        If the name is unknown.
    """
    name, _, argument = policy.partition(":")
    number = int(argument) if argument.isdecimal() else 0
    if name in ("paged", "shared") and (number > 0 or not argument):
        return Paged(capacity, number or 16, watermark, share=name == "shared")
    if watermark != 0:
        raise ValueError(f"watermark = {watermark!r}: only memory='paged' has one, memory is {policy!r}")
    if name == "max" and number > 0:
        return Reservation(capacity, lambda request: number, number)
    if policy == "declared":
        return Reservation(capacity, positions_needed)
    if policy in ("oracle", "predicted"):
        return Reservation(capacity, lambda request: positions_needed(request, request.expected))
    if policy == "pow2":
        return Reservation(capacity, lambda request: positions_needed(request, power_of_two(request.expected)))
    if policy == "unlimited":
        return Unlimited()
    raise ValueError(
        f'memory = {policy!r}: known are "max:TOKENS" (as in "max:8192"), "declared", "predicted", "oracle", "pow2", '
        '"unlimited", "paged", "paged:TOKENS" (a block), "shared", or an object with try_admit, grow and free'
    )
