"""Byte-pair encoding by hand, and against the library that trained SmolLM2's."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcode.model import smollm
from labcode.model.tokenizer import Tokenizer, _byte_characters, _words

BYTES = list(_byte_characters().values())
TOY = Tokenizer([*BYTES, "lo", "low", "er", "Ġlow", "<|end|>"], ["l o", "lo w", "e r", "Ġ low"], ["<|end|>"])


def test_pairs_are_merged_in_the_order_learnt():
    assert [TOY.vocabulary[i] for i in TOY.encode("lower slow low")] == ["low", "er", "Ġ", "s", "low", "Ġlow"]


def test_a_special_token_is_one_token_and_says_nothing():
    ids = TOY.encode("low<|end|>low")
    assert [TOY.vocabulary[i] for i in ids] == ["low", "<|end|>", "low"]
    assert TOY.decode(ids) == "lowlow"


@pytest.mark.parametrize(
    "text, words",
    [
        ("it's 2024", ["it", "'s", " ", "2", "0", "2", "4"]),
        ("a  b\n", ["a", " ", " b", "\n"]),
        ("x=½ _y", ["x", "=", "½", " _", "y"]),
        ("批处理 ok", ["批处理", " ok"]),
    ],
)
def test_words(text, words):
    assert list(_words(text)) == words


@given(st.text())
def test_every_text_comes_back(text):
    assert TOY.decode(TOY.encode(text)) == text


def test_half_a_character_is_marked():
    assert TOY.decode(TOY.encode("é")[:1]) == "�"


@pytest.mark.peers
def test_agrees_with_the_tokenizers_library():
    tokenizers = pytest.importorskip("tokenizers")
    if not smollm.available():
        pytest.skip(smollm.HOW)
    ours = smollm.load().tokenizer
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE(ours.id, list(ours._rank)))
    parts = tokenizers.pre_tokenizers
    theirs.pre_tokenizer = parts.Sequence(
        [parts.Digits(individual_digits=True), parts.ByteLevel(add_prefix_space=False)]
    )

    @given(st.text() | st.text(alphabet="abé '\n\t12½_.,!批²sdtmlvre"))
    @settings(max_examples=2000, deadline=None)
    def same(text):
        assert ours.encode(text) == theirs.encode(text).ids

    same()
