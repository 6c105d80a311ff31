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
        The usual dimensions; `kv_heads < heads` is grouped-query attention.  `ffn` is the width of the MLP that every
        token passes in every layer; 0 if there are only experts.
    mlp_matrices : int
        3 for SwiGLU, 2 for a plain two-layer MLP.
    dtype_bytes : float
        Bytes of one number: of everything that the three widths below do not name.
    max_context : int
        Longest sequence in tokens.
    experts, experts_per_token, expert_ffn : int
        A mixture of experts: how many a layer has, how many of them each token takes, and their width; 0 without.
        The router's matrix (hidden x experts) is counted with what every token passes.
    weight_bits, expert_bits, kv_bits : float, optional
        Bits of a number in the layers' matrices, in the experts' (like the other matrices by default), and in the KV
        cache; ``8 * dtype_bytes`` by default.  The embedding tables stay at `dtype_bytes`, as quantised checkpoints
        leave them.  Scales count too: 4 bits with a 16-bit scale for each 32 numbers are 4.5.

    Raises
    ------
    ValueError
        If a dimension is out of range, or the fields of a mixture do not fit together.
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
    experts: int = 0
    experts_per_token: int = 0
    expert_ffn: int = 0
    weight_bits: float | None = None
    expert_bits: float | None = None
    kv_bits: float | None = None

    def __post_init__(self) -> None:
        positive("ModelSpec.params", self.params)
        positive("ModelSpec.dtype_bytes", self.dtype_bytes)
        for field in ("weight_bits", "expert_bits", "kv_bits"):
            if getattr(self, field) is not None:
                positive(f"ModelSpec.{field}", getattr(self, field))
        for field in (
            "layers",
            "hidden",
            "heads",
            "kv_heads",
            "head_dim",
            "vocab",
            "mlp_matrices",
            "max_context",
        ):
            integer(f"ModelSpec.{field}", getattr(self, field))
        some = int(integer("ModelSpec.experts", self.experts, at_least=0) > 0)
        integer("ModelSpec.ffn", self.ffn, at_least=1 - some)
        for field, most in (("experts_per_token", self.experts), ("expert_ffn", None if some else 0)):
            integer(f"ModelSpec.{field}", getattr(self, field), at_least=some, at_most=most)
        if self.heads % self.kv_heads:
            raise ValueError(f"ModelSpec.kv_heads = {self.kv_heads}: must divide heads = {self.heads}")

    @property
    def shared_params(self) -> int:
        """Parameters in the layers' matrices that every new position is multiplied by: all but the experts."""
        query_and_output = 2 * self.hidden * self.heads * self.head_dim
        key_and_value = 2 * self.hidden * self.kv_heads * self.head_dim
        mlp, router = self.mlp_matrices * self.hidden * self.ffn, self.hidden * self.experts
        return self.layers * (query_and_output + key_and_value + mlp + router)

    @property
    def expert_params(self) -> int:
        """Parameters in the matrices of all experts together."""
        return self.layers * self.experts * self.mlp_matrices * self.hidden * self.expert_ffn

    @property
    def matmul_params(self) -> int:
        """Parameters that a new position is multiplied by in the layers: its own experts, and all that is shared.

        The vocabulary's matrices are not among them.
        """
        own = self.experts_per_token * self.mlp_matrices * self.hidden * self.expert_ffn
        return self.shared_params + self.layers * own

    @property
    def active_params(self) -> float:
        """All parameters but those of the experts that a token does not take."""
        return self.params - self.shared_params - self.expert_params + self.matmul_params

    @property
    def kv_bytes_per_token(self) -> float:
        """Bytes of keys and values that one position keeps in the cache."""
        return 2 * self.layers * self.kv_heads * self.head_dim * self._bytes(self.kv_bits)

    @property
    def weight_bytes(self) -> float:
        """Bytes of all parameters."""
        matrices = self.shared_params * (self._bytes(self.weight_bits) - self.dtype_bytes)
        return self.params * self.dtype_bytes + matrices + self.expert_bytes - self.expert_params * self.dtype_bytes

    @property
    def expert_bytes(self) -> float:
        """Bytes of all experts."""
        bits = self.weight_bits if self.expert_bits is None else self.expert_bits
        return self.expert_params * self._bytes(bits)

    def _bytes(self, bits: float | None) -> float:
        return self.dtype_bytes if bits is None else bits / 8
