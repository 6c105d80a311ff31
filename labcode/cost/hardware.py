"""The paper GPU: what one step of a model costs on one accelerator, by arithmetic alone.

A *step* (one iteration of the engine) processes for each sequence some new positions on top of a
history that already sits in the KV cache.  Its cost needs nothing but four sums over the sequences,
so a step of 256 sequences is as cheap to price as a step of one.

The model is a roofline (Williams, Waterman and Patterson 2009): a step takes as long as the slower of
moving its bytes and computing its FLOPs.  What it leaves out: kernel launches and scheduling on the
CPU, communication between GPUs, activations, tile quantisation, and the imperfect overlap of the two
roofs.  The appendix on fidelity says how far that is from metal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from labcode.checks import fraction, integer, one_of, positive


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


@dataclass(frozen=True)
class StepCost:
    """Price of one step: seconds, FLOPs, bytes of weights, bytes of KV cache, and the roof that binds."""

    time: float
    flops: float
    weight_bytes: float
    kv_bytes: float
    bound: str


@dataclass(frozen=True)
class Roofline:
    """The two roofs of a model on a GPU as linear functions of a step's four sums.

    With `new` new positions in `seqs` sequences, `pairs` query-key pairs and `kv` moved positions,

    - memory time = `read_weights` + `gather` * new + `move_kv` * kv
    - compute time = `linear` * new + `logits` * seqs + `attention` * pairs

    all in seconds.  A step takes their maximum.
    """

    read_weights: float
    gather: float
    move_kv: float
    linear: float
    logits: float
    attention: float

    def memory_time(self, new: float, kv: float) -> float:
        """Seconds to move the bytes of a step."""
        return self.read_weights + self.gather * new + self.move_kv * kv

    def compute_time(self, new: float, seqs: float, pairs: float) -> float:
        """Seconds to compute the FLOPs of a step."""
        return self.linear * new + self.logits * seqs + self.attention * pairs


def roofline(model: ModelSpec, gpu: GPUSpec) -> Roofline:
    """Return the two roofs of `model` on `gpu`.

    Every parameter is read once a step; besides, each new position gathers its row of the embedding
    table.  (For a model whose input and output embeddings are two tables this counts the input table
    in full, as the lecture does: 6.5 % too many bytes for Llama-3-8B.)  Logits are computed for the
    last position of each sequence only.
    """
    bandwidth, flops = gpu.achieved_bandwidth, gpu.achieved_flops
    return Roofline(
        read_weights=model.weight_bytes / bandwidth,
        gather=model.dtype_bytes * model.hidden / bandwidth,
        move_kv=model.kv_bytes_per_token / bandwidth,
        linear=2 * model.matmul_params / flops,
        logits=2 * model.hidden * model.vocab / flops,
        attention=4 * model.layers * model.heads * model.head_dim / flops,
    )


def step_cost(model: ModelSpec | str, gpu: GPUSpec | str, works: Iterable[SeqWork]) -> StepCost:
    """Price one step on the paper GPU.

    Parameters
    ----------
    model, gpu : spec or name
        See :func:`model` and :func:`gpu`.
    works : iterable of SeqWork
        One entry a sequence; at least one.

    Returns
    -------
    StepCost
        ``time = max(flops / achieved FLOP/s, bytes / achieved bandwidth)`` in seconds.

    Raises
    ------
    ValueError
        If `works` is empty or a name is unknown.
    """
    model, gpu = as_model(model), as_gpu(gpu)
    works = list(works)
    if not works:
        raise ValueError("works is empty: a step needs at least one sequence")
    new = sum(work.new for work in works)
    pairs = sum(work.pairs for work in works)
    kv = sum(work.kv_positions for work in works)
    flops = (
        2 * model.matmul_params * new
        + 2 * model.hidden * model.vocab * len(works)
        + 4 * model.layers * model.heads * model.head_dim * pairs
    )
    weight_bytes = model.dtype_bytes * (model.params + model.hidden * new)
    kv_bytes = model.kv_bytes_per_token * kv
    roofs = roofline(model, gpu)
    memory_time, compute_time = roofs.memory_time(new, kv), roofs.compute_time(new, len(works), pairs)
    bound = "compute" if compute_time > memory_time else "memory"
    return StepCost(max(memory_time, compute_time), flops, weight_bytes, kv_bytes, bound)


def kv_capacity(model: ModelSpec | str, gpu: GPUSpec | str) -> int:
    """Return how many positions of KV cache fit beside the weights, in tokens.

    Raises
    ------
    ValueError
        If the weights alone do not fit.
    """
    model, gpu = as_model(model), as_gpu(gpu)
    room = gpu.usable * gpu.memory - model.weight_bytes
    if room < model.kv_bytes_per_token:
        raise ValueError(
            f"model = {model.name!r} needs {model.weight_bytes / 1e9:.1f} GB of weights; gpu = {gpu.name!r} "
            f"has {gpu.usable * gpu.memory / 1e9:.1f} GB usable: take a larger GPU, or several with GPUSpec.times(n)"
        )
    return int(room // model.kv_bytes_per_token)


_NVIDIA = "NVIDIA data sheet"
GPUS: dict[str, GPUSpec] = {
    "h100": GPUSpec("h100", 989e12, 3.35e12, 80e9, f"{_NVIDIA}, H100 SXM: bf16 dense, HBM3"),
    "h200": GPUSpec("h200", 989e12, 4.8e12, 141e9, f"{_NVIDIA}, H200 SXM: bf16 dense, HBM3e"),
    "a100-40": GPUSpec("a100-40", 312e12, 1.555e12, 40e9, f"{_NVIDIA}, A100 40 GB SXM: bf16 dense, HBM2"),
    "a100-80": GPUSpec("a100-80", 312e12, 2.039e12, 80e9, f"{_NVIDIA}, A100 80 GB SXM: bf16 dense, HBM2e"),
    "l4": GPUSpec("l4", 121e12, 0.3e12, 24e9, f"{_NVIDIA}, L4: bf16 dense, GDDR6"),
    "l40s": GPUSpec("l40s", 362e12, 0.864e12, 48e9, f"{_NVIDIA}, L40S: bf16 dense, GDDR6"),
}

_LLAMA = "Grattafiori et al. 2024, The Llama 3 Herd of Models, table 3"
_GPT3 = "Brown et al. 2020, table 2.1"
_ORCA = "Yu et al. 2022, table 1"
MODELS: dict[str, ModelSpec] = {
    "llama3-8b": ModelSpec("llama3-8b", 8.03e9, 32, 4096, 32, 8, 128, 14336, 128256, source=_LLAMA),
    "llama3-70b": ModelSpec("llama3-70b", 70.6e9, 80, 8192, 64, 8, 128, 28672, 128256, source=_LLAMA),
    "llama2-7b": ModelSpec(
        "llama2-7b", 6.74e9, 32, 4096, 32, 32, 128, 11008, 32000, max_context=4096, source="Touvron et al. 2023"
    ),
    "gpt3-13b": ModelSpec("gpt3-13b", 12.9e9, 40, 5120, 40, 40, 128, 20480, 50257, 2, 2, 2048, _GPT3),
    "gpt3-101b": ModelSpec("gpt3-101b", 101e9, 80, 10240, 80, 80, 128, 40960, 50257, 2, 2, 2048, _ORCA),
    "gpt3-175b": ModelSpec("gpt3-175b", 175e9, 96, 12288, 96, 96, 128, 49152, 50257, 2, 2, 2048, _GPT3),
    "gpt3-341b": ModelSpec("gpt3-341b", 341e9, 120, 15360, 120, 120, 128, 61440, 50257, 2, 2, 2048, _ORCA),
}


def gpu(name: str) -> GPUSpec:
    """Return the GPU called `name`; ``"16xa100-40"`` is sixteen as one ideal device."""
    count, _, rest = str(name).partition("x")
    if rest in GPUS and count.isdecimal():
        return GPUS[rest].times(int(count))
    one_of("gpu", name, GPUS)
    return GPUS[name]


def model(name: str) -> ModelSpec:
    """Return the model called `name`."""
    one_of("model", name, MODELS)
    return MODELS[name]


def as_gpu(value: GPUSpec | str) -> GPUSpec:
    """Return `value` itself if it is a spec, else the GPU of that name."""
    return value if isinstance(value, GPUSpec) else gpu(value)


def as_model(value: ModelSpec | str) -> ModelSpec:
    """Return `value` itself if it is a spec, else the model of that name."""
    return value if isinstance(value, ModelSpec) else model(value)
