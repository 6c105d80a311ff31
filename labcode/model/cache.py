"""The KV cache of one request, as Orca's Attention K/V manager keeps one for each (Yu et al. 2022, §3.2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from labcode.model.weights import Llama

Array = NDArray[np.floating]


class KVCache:
    """Keys and values of the positions that a model has processed for one request.

    The arrays have room to spare and double when it runs out, so appending a position copies the history only
    now and then. A forward pass writes layer by layer behind `length` and moves `length` at its very end:
    whatever goes wrong before that leaves the cache as it was.

    Attributes
    ----------
    model : Llama
        The model whose keys and values these are.
    length : int
        Positions held, in tokens.
    """

    def __init__(self, model: Llama, room: int = 64) -> None:
        config = model.config
        self.model = model
        self.length = 0
        room = min(room, config.max_context)
        self._data: Array = np.empty((config.layers, 2, config.kv_heads, room, config.head_dim), dtype=config.dtype)

    @property
    def room(self) -> int:
        """Positions that the arrays can hold before they must grow, in tokens."""
        return self._data.shape[3]

    @property
    def nbytes(self) -> int:
        """Bytes of the keys and values held (not of the spare room)."""
        return self._data[:, :, :, : self.length].nbytes

    def reserve(self, new: int) -> None:
        """See that `new` more positions fit, doubling the arrays if they do not."""
        needed = self.length + new
        if needed <= self.room:
            return
        room = min(max(needed, 2 * self.room), self.model.config.max_context)
        grown = np.empty((*self._data.shape[:3], room, self._data.shape[4]), dtype=self._data.dtype)
        grown[:, :, :, : self.length] = self._data[:, :, :, : self.length]
        self._data = grown

    def append(self, n: int, keys: Array, values: Array) -> tuple[Array, Array]:
        """Write the new keys and values of layer `n` behind the history; return views of all of them.

        Parameters
        ----------
        n : int
            The layer.
        keys, values : array [Q, K, D]
            Of the new positions. `reserve` must have made room.

        Returns
        -------
        keys, values : array [K, C, D]
            History and new positions, C = length + Q. Not copies.
        """
        start, end = self.length, self.length + len(keys)
        layer = self._data[n, :, :, :end]  # [2, K, C, D]
        layer[0, :, start:] = keys.swapaxes(0, 1)
        layer[1, :, start:] = values.swapaxes(0, 1)
        return layer[0], layer[1]

    def advance(self, new: int) -> None:
        """Make the `new` positions written behind the history part of it."""
        self.length += new

    def copy(self) -> KVCache:
        """Return an independent cache with the same content."""
        twin = KVCache(self.model, room=max(self.length, 1))
        twin._data[:, :, :, : self.length] = self._data[:, :, :, : self.length]
        twin.length = self.length
        return twin
