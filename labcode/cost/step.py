"""What a step computes: the work of one sequence, and the shape of the whole step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class SeqWork:
    """What one sequence does in one step: `new` positions on top of `past` cached ones (tokens)."""

    new: int
    past: int = 0

    def __post_init__(self) -> None:
        if self.new < 1 or self.past < 0:
            raise ValueError(f"SeqWork(new={self.new}, past={self.past}): new must be at least 1, past at least 0")

    @property
    def pairs(self) -> int:
        """Query-key pairs under the causal mask: new * past + new (new + 1) / 2."""
        return self.new * self.past + self.new * (self.new + 1) // 2

    @property
    def kv_positions(self) -> int:
        """Positions of KV cache that move: the history is read once, the new positions are written once."""
        return self.past + self.new


class StepShape(NamedTuple):
    """What a step computes: the prefills (or chunks) one by one, and four sums over all its sequences.

    Attributes
    ----------
    prefill : tuple of SeqWork
        Prompts, or chunks of prompts.
    n_decode : int
        Sequences that produce one token each.
    decode_kv : int
        Over those, the sum of cached positions with the new one, in tokens.
    new, seqs, pairs, kv : int
        Over all sequences: new positions, sequences, query-key pairs, moved positions of KV cache.
    """

    prefill: tuple[SeqWork, ...]
    n_decode: int
    decode_kv: int
    new: int
    seqs: int
    pairs: int
    kv: int

    @classmethod
    def of(cls, prefill: Sequence[SeqWork] = (), n_decode: int = 0, decode_kv: int = 0) -> StepShape:
        """Return the shape of a step, its sums worked out.

        A decode's one query sees every cached position and itself, so its pairs equal its positions.
        """
        new, pairs, kv = n_decode, decode_kv, decode_kv
        for work in prefill:
            new += work.new
            pairs += work.pairs
            kv += work.kv_positions
        return cls(tuple(prefill), n_decode, decode_kv, new, len(prefill) + n_decode, pairs, kv)
