"""Write the logits that Hugging Face's ``LlamaForCausalLM`` gives for the mini model's weights.

The ordinary tests compare `labcode.model` with the small file that this script leaves. It needs two packages
that the project does without otherwise: ``pip install torch transformers``. Then ``python -m
tools.make_llama_reference``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labcode.model.config import TINY, Config
from labcode.model.weights import Llama, random_model, to_huggingface

FILE = Path(__file__).resolve().parents[1] / "tests" / "model" / "data" / "llama_reference.npz"

#: Every dimension different from its neighbours, three query heads a key/value head, other constants.
ODD = Config(
    "odd", layers=3, hidden=48, heads=6, kv_heads=2, head_dim=10, ffn=100, vocab=97, max_context=256,
    rope_theta=100_000.0, norm_eps=1e-4,
)  # fmt: skip
CASES = {"tiny": (TINY, 0), "odd": (ODD, 5)}
LENGTHS = (1, 2, 7, 33, 150)
GREEDY = 24


def prompts(config: Config) -> list[NDArray[np.int64]]:
    """Return the prompts of a case, one of each length."""
    rng = np.random.default_rng(11)
    return [rng.integers(0, config.vocab, length) for length in LENGTHS]


def huggingface(model: Llama) -> Any:
    """Return a ``LlamaForCausalLM`` with the weights of `model`."""
    import torch  # type: ignore[import-not-found]
    from transformers import LlamaConfig, LlamaForCausalLM  # type: ignore[import-not-found]

    c = model.config
    theirs = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=c.vocab, hidden_size=c.hidden, intermediate_size=c.ffn, num_hidden_layers=c.layers,
            num_attention_heads=c.heads, num_key_value_heads=c.kv_heads, head_dim=c.head_dim,
            max_position_embeddings=c.max_context, rms_norm_eps=c.norm_eps, tie_word_embeddings=True,
            rope_parameters={"rope_type": "default", "rope_theta": c.rope_theta},
            attn_implementation="eager",
        )
    )  # fmt: skip
    weights = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in to_huggingface(model).items()}
    theirs.load_state_dict(weights, strict=True)
    return theirs.eval()


def reference(model: Llama) -> dict[str, NDArray]:
    """Return their logits after each prompt, [prompts, V], and their greedy continuation of the third one."""
    import torch

    theirs = huggingface(model)
    with torch.no_grad():
        logits = [theirs(torch.from_numpy(ids)[None]).logits[0, -1].numpy() for ids in prompts(model.config)]
        ids = torch.from_numpy(prompts(model.config)[2])[None]
        for _ in range(GREEDY):  # their own cache is not needed for so few
            ids = torch.cat([ids, theirs(ids).logits[:, -1:].argmax(-1)], dim=1)
    return {"logits": np.stack(logits), "greedy": ids[0, -GREEDY:].numpy()}


def main() -> int:
    """Write the file; say how near the two are."""
    from labcode.model import KVCache, forward_one

    arrays = {}
    for name, (config, seed) in CASES.items():
        model = random_model(config, seed)
        for key, value in reference(model).items():
            arrays[f"{name}_{key}"] = value
        ours = np.stack([forward_one(model, ids, KVCache(model)) for ids in prompts(config)])
        print(f"{name}: largest difference {abs(ours - arrays[f'{name}_logits']).max():.2e}")
    FILE.parent.mkdir(exist_ok=True)
    np.savez_compressed(FILE, **arrays)  # type: ignore[arg-type]
    print(f"{FILE.name}: {FILE.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
