"""Byte-level byte-pair encoding, as GPT-2 introduced it (Radford et al. 2019) and SmolLM2 uses it.

Text becomes UTF-8 bytes, each written as one printable character; words of such characters start as single
characters and are merged pair by pair, the pair that was learnt first going first.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from labcode.checks import integer

# GPT-2's pattern. \p{L} is written [^\W\d_]; digits are taken out before it is used.
_PIECES = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[^\W\d_]+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")


def _byte_characters() -> dict[int, str]:
    """Return GPT-2's printable character for each byte: itself, or else the next free one from 256 on."""
    printable = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    others = (byte for byte in range(256) if byte not in printable)
    table = {byte: chr(byte) for byte in printable}
    table.update({byte: chr(256 + i) for i, byte in enumerate(others)})
    return table


_CHARACTER = _byte_characters()
_BYTE = {character: byte for byte, character in _CHARACTER.items()}


class Tokenizer:
    """Turns text into token ids and back.

    Parameters
    ----------
    vocabulary : sequence of str
        The tokens by id, in byte characters.
    merges : sequence of str
        Pairs "left right" in the order in which they were learnt.
    special : iterable of str
        Tokens that stand for themselves in a text, such as ``<|im_end|>``; `decode` leaves them out.
    """

    def __init__(self, vocabulary: Sequence[str], merges: Sequence[str], special: Iterable[str] = ()) -> None:
        self.vocabulary = list(vocabulary)
        self.id = {token: i for i, token in enumerate(self.vocabulary)}
        self.special = {token: self.id[token] for token in special}
        self._silent = set(self.special.values())
        self._rank = {tuple(merge.split(" ")): i for i, merge in enumerate(merges)}
        self._specials = re.compile("(" + "|".join(map(re.escape, self.special)) + ")") if self.special else None
        self._word = lru_cache(maxsize=10_000)(self._encode_word)

    def encode(self, text: str) -> list[int]:
        """Return the token ids of `text`. (SmolLM2 lacks some bytes of rare characters; they are left out.)"""
        parts = self._specials.split(text) if self._specials else [text]
        ids: list[int] = []
        for part in parts:
            if part in self.special:
                ids.append(self.special[part])
                continue
            for word in _words(part):
                ids.extend(self._word("".join(_CHARACTER[byte] for byte in word.encode())))
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of token ids, special ones left out; bytes that are no UTF-8 (yet) become "�"."""
        return self.bytes_of(ids).decode(errors="replace")

    def bytes_of(self, ids: Iterable[int]) -> bytes:
        """Return the bytes of token ids, special ones left out (a character may be spread over several tokens)."""
        plain = (self.vocabulary[i] for i in ids if i not in self._silent)
        return bytes(_BYTE[character] for token in plain for character in token)

    def _encode_word(self, word: str) -> list[int]:
        """Merge the characters of one word as far as the learnt pairs go; drop bytes that no token stands for."""
        parts = [character for character in word if character in self.id]
        while len(parts) > 1:
            rank, at = min(
                (self._rank.get(pair, len(self._rank)), i) for i, pair in enumerate(itertools.pairwise(parts))
            )
            if rank == len(self._rank):
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return [self.id[part] for part in parts]


def byte_tokenizer(size: int) -> Tokenizer:
    """Return a tokenizer with `size` tokens for a model that was never trained.

    A token for each byte, and then one for each pair of letters or digits, as many as there is room for.

    Raises
    ------
    ValueError
        If there is no room for all bytes, or room for more than all pairs.
    """
    letters = [chr(c) for c in range(128) if chr(c).isalnum()]
    integer("size", size, at_least=256, at_most=256 + len(letters) ** 2)
    pairs = list(itertools.product(letters, letters))[: size - 256]
    return Tokenizer([*_CHARACTER.values(), *map("".join, pairs)], [" ".join(pair) for pair in pairs])


def _words(text: str) -> Iterable[str]:
    """Yield the pieces that are encoded apart: every digit alone, and GPT-2's words between them."""
    for digit, run in itertools.groupby(text, key=lambda character: unicodedata.category(character)[0] == "N"):
        if digit:
            yield from run
        else:
            yield from _PIECES.findall("".join(run))
