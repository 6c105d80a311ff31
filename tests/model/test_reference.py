"""The same logits as an independent implementation of the architecture: Hugging Face's LlamaForCausalLM."""

import numpy as np
import pytest

from labcode.model import Chunk, KVCache, forward_one, forward_padded, forward_ragged, generate
from labcode.model.weights import from_huggingface, random_model, to_huggingface
from tools.make_llama_reference import CASES, FILE, GREEDY, prompts, reference


@pytest.fixture(scope="module")
def stored():
    return np.load(FILE)


def compare(name, logits, greedy):
    config, seed = CASES[name]
    model = random_model(config, seed)
    ids = prompts(config)
    alone = np.stack([forward_one(model, prompt, KVCache(model)) for prompt in ids])
    ragged = forward_ragged(model, [Chunk(prompt, KVCache(model)) for prompt in ids])
    padded = forward_padded(model, [Chunk(prompt, KVCache(model)) for prompt in ids])
    assert logits.shape == alone.shape and logits.std() > 0.1
    for ours in (alone, ragged, padded):
        np.testing.assert_allclose(ours, logits, rtol=0, atol=1e-5)
    assert generate(model, ids[2].tolist(), GREEDY) == greedy.tolist()


@pytest.mark.parametrize("name", CASES)
def test_stored_logits(stored, name):
    compare(name, stored[f"{name}_logits"], stored[f"{name}_greedy"])


@pytest.mark.parametrize("name", CASES)
def test_weights_under_their_names_and_back(name):
    config, seed = CASES[name]
    model = random_model(config, seed)
    named = to_huggingface(model)
    back = from_huggingface(config, named)
    assert all((a == b).all() for a, b in zip(model.arrays(), back.arrays(), strict=True))
    del named["model.layers.1.mlp.up_proj.weight"]
    with pytest.raises(ValueError, match=r"model\.layers\.1\.mlp\.up_proj\.weight' is missing"):
        from_huggingface(config, named)


@pytest.mark.peers
@pytest.mark.parametrize("name", CASES)
def test_live_logits(name):
    pytest.importorskip("transformers")
    pytest.importorskip("torch")
    config, seed = CASES[name]
    live = reference(random_model(config, seed))
    compare(name, live["logits"], live["greedy"])
