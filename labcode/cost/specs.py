"""What a GPU and a model are, as far as the cost of a step depends on them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from labcode.checks import fraction, integer, positive


@dataclass(frozen=True)
class GPUSpec:
    """An accelerator, or several that work as one.

    Attributes
    ----------
    flops : float
        Peak dense FLOP/s in the model's number format (bf16 or fp16).
    bandwidth : float
        Peak memory bandwidth in bytes/s.
    memory : float
        Memory in bytes (decimal: 80 GB is 80e9).
    compute_efficiency, bandwidth_efficiency : float
        Achieved share of each peak, in (0, 1].
    usable : float
        Share of the memory that weights and KV cache may fill, in (0, 1].
    source : str
        Where the peaks come from.
    """

    name: str
    flops: float
    bandwidth: float
    memory: float
    source: str = ""
    compute_efficiency: float = 0.60
    bandwidth_efficiency: float = 0.80
    usable: float = 0.90

    def __post_init__(self) -> None:
        for field in ("flops", "bandwidth", "memory"):
            positive(f"GPUSpec.{field}", getattr(self, field))
        for field in ("compute_efficiency", "bandwidth_efficiency", "usable"):
            fraction(f"GPUSpec.{field}", getattr(self, field))

    @property
    def achieved_flops(self) -> float:
        """FLOP/s that the paper GPU reaches."""
        return self.flops * self.compute_efficiency

    @property
    def achieved_bandwidth(self) -> float:
        """Bytes/s that the paper GPU reaches."""
        return self.bandwidth * self.bandwidth_efficiency

    def times(self, count: int) -> GPUSpec:
        """Return `count` of these as one ideal device: peaks and memory add up, communication is free."""
        count = integer("count", count)
        return replace(
            self,
            name=f"{count}x{self.name}",
            flops=self.flops * count,
            bandwidth=self.bandwidth * count,
            memory=self.memory * count,
        )


@dataclass(frozen=True)
class ModelSpec:
    """The shape of a decoder-only Transformer, as far as its cost depends on it.

    Attributes
    ----------
    params : float
        All parameters of the checkpoint, the embedding table included.
    layers, hidden, heads, kv_heads, head_dim, ffn, vocab : int
        The usual dimensions; `kv_heads < heads` is grouped-query attention.
    mlp_matrices : int
        3 for SwiGLU, 2 for a plain two-layer MLP.
    dtype_bytes : float
        Bytes of one number, weights and KV cache alike.
    max_context : int
        Longest sequence in tokens.
    """

    name: str
    params: float
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    mlp_matrices: int = 3
    dtype_bytes: float = 2
    max_context: int = 8192
    source: str = ""

    def __post_init__(self) -> None:
        positive("ModelSpec.params", self.params)
        positive("ModelSpec.dtype_bytes", self.dtype_bytes)
        for field in (
            "layers",
            "hidden",
            "heads",
            "kv_heads",
            "head_dim",
            "ffn",
            "vocab",
            "mlp_matrices",
            "max_context",
        ):
            integer(f"ModelSpec.{field}", getattr(self, field))
        if self.heads % self.kv_heads:
            raise ValueError(f"ModelSpec.kv_heads = {self.kv_heads}: must divide heads = {self.heads}")

    @property
    def matmul_params(self) -> int:
        """Parameters in the matrices that every new position is multiplied by (not the vocabulary's)."""
        query_and_output = 2 * self.hidden * self.heads * self.head_dim
        key_and_value = 2 * self.hidden * self.kv_heads * self.head_dim
        return self.layers * (query_and_output + key_and_value + self.mlp_matrices * self.hidden * self.ffn)

    @property
    def kv_bytes_per_token(self) -> float:
        """Bytes of keys and values that one position keeps in the cache."""
        return 2 * self.layers * self.kv_heads * self.head_dim * self.dtype_bytes

    @property
    def weight_bytes(self) -> float:
        """Bytes of all parameters."""
        return self.params * self.dtype_bytes
