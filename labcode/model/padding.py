"""What a step costs if every request is filled up to the longest: the padded forward in arithmetic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from labcode.cost.roofline import StepCost, price
from labcode.cost.specs import GPUSpec, ModelSpec
from labcode.cost.step import SeqWork


@dataclass(frozen=True)
class Rectangle:
    """A step as useful work inside the rectangles that hold it.

    Attributes
    ----------
    sequences : int
        B.
    width : int
        P, the largest number of new positions.
    context : int
        C, the largest number of positions that a sequence can see.
    useful_tokens, useful_pairs, useful_positions : int
        New positions, causal query-key pairs, and positions of KV cache that move: what a ragged step takes.
    """

    sequences: int
    width: int
    context: int
    useful_tokens: int
    useful_pairs: int
    useful_positions: int

    @classmethod
    def of(cls, works: Iterable[SeqWork]) -> Rectangle:
        """Return the rectangles around `works`; raise `ValueError` if there are none."""
        works = list(works)
        if not works:
            raise ValueError("works is empty: a step needs at least one sequence")
        return cls(
            len(works),
            max(w.new for w in works),
            max(w.kv_positions for w in works),
            sum(w.new for w in works),
            sum(w.pairs for w in works),
            sum(w.kv_positions for w in works),
        )

    @property
    def tokens(self) -> int:
        """Rows that the linear layers process: B P."""
        return self.sequences * self.width

    @property
    def pairs(self) -> int:
        """Query-key pairs that attention computes: B P C."""
        return self.tokens * self.context

    @property
    def positions(self) -> int:
        """Positions of KV cache that move: B C."""
        return self.sequences * self.context

    @property
    def token_waste(self) -> float:
        """Share of the rows that nobody needs, in [0, 1)."""
        return 1 - self.useful_tokens / self.tokens

    @property
    def pair_ratio(self) -> float:
        """Computed pairs for each useful one."""
        return self.pairs / self.useful_pairs


def padded_cost(model: ModelSpec | str, gpu: GPUSpec | str, works: Iterable[SeqWork]) -> StepCost:
    """Price a padded step on the paper GPU, as `hardware.step_cost` prices the ragged one.

    The same formula, with the rectangles' rows, pairs and positions in place of the useful ones.

    Raises
    ------
    ValueError
        If `works` is empty or a name is unknown.
    """
    box = Rectangle.of(works)
    return price(model, gpu, box.tokens, box.sequences, box.pairs, box.positions)
