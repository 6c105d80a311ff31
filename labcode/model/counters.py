"""Counters that sit at the operations themselves: a real run to hold the cost model's formulas against."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]


@dataclass
class Counter:
    """What one or more forward passes did.

    Attributes
    ----------
    flops : int
        A matrix product of [rows, in] with [in, out] counts ``2 rows in out``; attention counts 4 D for each
        query head and each pair of a query with a key that it sees (2 D for the score, 2 D for the weighted
        value). Norms, rotary embedding, softmax and activations are left out, as in the cost model.
    weight_bytes : int
        Every weight array once for each pass that uses it, plus the rows gathered from the embedding table.
    kv_bytes : int
        Keys and values: the history that is read, the new positions that are written.
    tokens, pairs : int
        Rows that went through the linear layers, and query-key pairs in one layer for one head.
    """

    flops: int = 0
    weight_bytes: int = 0
    kv_bytes: int = 0
    tokens: int = 0
    pairs: int = 0

    def matmul(self, rows: int, weight: Array) -> None:
        """Count a product of `rows` rows with a matrix [in, out]: its FLOPs, and reading the matrix once."""
        self.flops += 2 * rows * weight.size
        self.weight_bytes += weight.nbytes

    def weight(self, array: Array) -> None:
        """Count reading a weight that takes no matrix product (a norm), or the rows gathered from a table."""
        self.weight_bytes += array.nbytes

    def attention(self, pairs: int, heads: int, head_dim: int) -> None:
        """Count the attention of one sequence in one layer, over `pairs` query-key pairs."""
        self.flops += 4 * pairs * heads * head_dim

    def cache(self, positions: int, kv_heads: int, head_dim: int, itemsize: int) -> None:
        """Count moving the keys and values of `positions` positions of one layer, in either direction."""
        self.kv_bytes += 2 * positions * kv_heads * head_dim * itemsize

    def __add__(self, other: Counter) -> Counter:
        """Return the sum of two counts."""
        return Counter(
            self.flops + other.flops,
            self.weight_bytes + other.weight_bytes,
            self.kv_bytes + other.kv_bytes,
            self.tokens + other.tokens,
            self.pairs + other.pairs,
        )
