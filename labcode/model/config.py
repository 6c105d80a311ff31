"""Shapes of the mini model, and the letters in which every shape of `labcode.model` is written.

The architecture is Llama's (Touvron et al. 2023): RMSNorm before each half of a block, rotary position
embedding, grouped-query attention, SwiGLU, one table for input and output embeddings.

===  ==============================================  ===  ==========================================
 B   sequences in a step                              A   query heads
 Q   new positions of one sequence in a step          K   key/value heads
 T   new positions of all sequences, the sum of Q     G   query heads for each key/value head, A / K
 C   positions that a sequence can see: past + new    D   dimension of a head
 N   layers                                           F   width of the feed-forward layer
 H   width of the residual stream ("hidden")          V   vocabulary
===  ==============================================  ===  ==========================================
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labcode.checks import integer, one_of, positive
from labcode.cost.hardware import ModelSpec


@dataclass(frozen=True)
class Config:
    """The dimensions of a model.

    Attributes
    ----------
    layers, hidden, heads, kv_heads, head_dim, ffn, vocab : int
        N, H, A, K, D, F, V of the table above.
    max_context : int
        Longest sequence, prompt and output together, in tokens.
    rope_theta : float
        Base of the rotary frequencies.
    norm_eps : float
        Added to the mean square in RMSNorm.
    dtype : {"float32", "float64"}
        Number format of weights, activations and cache. "float64" is there for tests, where rounding must not
        decide between two tokens.

    Raises
    ------
    ValueError
        If a dimension is not a positive whole number, `kv_heads` does not divide `heads`, or `head_dim` is
        odd (rotary embedding turns pairs of coordinates).
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    max_context: int = 1024
    rope_theta: float = 10_000.0
    norm_eps: float = 1e-5
    dtype: str = "float32"

    def __post_init__(self) -> None:
        for field in ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "max_context"):
            integer(f"Config.{field}", getattr(self, field))
        positive("Config.rope_theta", self.rope_theta)
        positive("Config.norm_eps", self.norm_eps)
        one_of("Config.dtype", self.dtype, ("float32", "float64"))
        if self.heads % self.kv_heads:
            raise ValueError(f"Config.kv_heads = {self.kv_heads}: must divide heads = {self.heads}")
        if self.head_dim % 2:
            raise ValueError(f"Config.head_dim = {self.head_dim}: must be even")

    @property
    def params(self) -> int:
        """All parameters: matrices of the blocks, 2 layers + 1 norms, the embedding table once."""
        query_and_output = 2 * self.hidden * self.heads * self.head_dim
        key_and_value = 2 * self.hidden * self.kv_heads * self.head_dim
        block = query_and_output + key_and_value + 3 * self.hidden * self.ffn + 2 * self.hidden
        return self.layers * block + self.hidden + self.vocab * self.hidden

    def spec(self) -> ModelSpec:
        """Return the shape as `labcode.cost.hardware` knows it, for `step_cost` to price this model's steps."""
        return ModelSpec(
            self.name,
            self.params,
            self.layers,
            self.hidden,
            self.heads,
            self.kv_heads,
            self.head_dim,
            self.ffn,
            self.vocab,
            mlp_matrices=3,
            dtype_bytes=np.dtype(self.dtype).itemsize,
            max_context=self.max_context,
            source="labcode.model.config",
        )


#: Small enough that a test generates thousands of tokens.
TINY = Config("tiny", layers=2, hidden=64, heads=4, kv_heads=2, head_dim=16, ffn=172, vocab=256)

#: About 13 million parameters: large enough that reading the weights is what a decode step spends its time
#: on.
SMALL = Config("small", layers=4, hidden=512, heads=8, kv_heads=2, head_dim=64, ffn=1376, vocab=4096, max_context=2048)
