"""A real mini model: Llama in numpy, with three forward passes, a KV cache per request, and counters.

`config` shapes and letters · `weights` arrays by name · `layers` the parts of a block · `cache` keys and
values of a request · `forward` one, ragged, padded · `counters` FLOPs and bytes as they happen · `generate`
tokens, alone and batched · `executor` the model under the engine's plans · `padding` what rectangles cost ·
`smollm` a real model.
"""

from labcode.model.cache import KVCache
from labcode.model.config import SMALL, TINY, Config
from labcode.model.counters import Counter
from labcode.model.forward import Chunk, forward_one, forward_padded, forward_ragged
from labcode.model.generate import generate, generate_continuously
from labcode.model.weights import Llama, random_model

__all__ = [
    "SMALL",
    "TINY",
    "Chunk",
    "Config",
    "Counter",
    "KVCache",
    "Llama",
    "forward_one",
    "forward_padded",
    "forward_ragged",
    "generate",
    "generate_continuously",
    "random_model",
]
