"""Greedy generation: a request alone, and several under iteration-level scheduling."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from labcode.checks import integer
from labcode.model.cache import KVCache
from labcode.model.forward import Chunk, forward_one, forward_ragged
from labcode.model.weights import Llama


@dataclass(frozen=True)
class Iteration:
    """One step of `generate_continuously`, for whoever watches.

    Attributes
    ----------
    number : int
        Counts from 0.
    prefill, decode, waiting : tuple of int
        Requests that process their prompt, that get one more token, and that have arrived but hold no seat.
    tokens : dict of int to int
        The token that each request in the step got.
    """

    number: int
    prefill: tuple[int, ...]
    decode: tuple[int, ...]
    waiting: tuple[int, ...]
    tokens: dict[int, int]


def generate(model: Llama, prompt: Sequence[int], max_new: int, stop: int | None = None) -> list[int]:
    """Return the greedy continuation of `prompt`, computed alone.

    Parameters
    ----------
    model : Llama
        The model.
    prompt : sequence of int
        Token ids, at least one.
    max_new : int
        How many tokens to generate at most.
    stop : int, optional
        Token that ends the output (it is not returned).

    Raises
    ------
    ValueError
        If a token is not in the vocabulary, or prompt and output do not fit into the context.
    """
    [limit] = _limits(model, [prompt], max_new)
    cache = KVCache(model)
    output: list[int] = []
    logits = forward_one(model, prompt, cache)
    while True:
        token = int(logits.argmax())
        if token == stop:
            return output
        output.append(token)
        if len(output) == limit:
            return output
        logits = forward_one(model, [token], cache)


def generate_continuously(
    model: Llama,
    prompts: Sequence[Sequence[int]],
    max_new: int | Sequence[int],
    max_bs: int,
    arrivals: Sequence[int] | None = None,
    stop: int | None = None,
    watch: Callable[[Iteration], None] | None = None,
) -> list[list[int]]:
    """Return the greedy continuation of every prompt, generated together by iteration-level scheduling.

    Before each step, requests that have arrived take free seats, first come first served; after it, whoever
    has finished leaves. A new request processes its whole prompt in the step in which the others get one
    token each.

    Parameters
    ----------
    model : Llama
        The model.
    prompts : sequence of token sequences
        One a request.
    max_new : int or sequence of int
        Tokens to generate at most; one number for all or one a request.
    max_bs : int
        Seats: requests in one step at most.
    arrivals : sequence of int, optional
        Step before which each request arrives, not descending; all before step 0 if left out.
    stop : int, optional
        Token that ends an output (it is not returned).
    watch : callable, optional
        Is called with an `Iteration` after each step.

    Returns
    -------
    list of list of int
        In the order of `prompts`; token for token what `generate` gives for each prompt alone.
    """
    limits = _limits(model, prompts, max_new)
    max_bs = integer("max_bs", max_bs)
    arrivals = [0] * len(prompts) if arrivals is None else [integer("arrivals", a, at_least=0) for a in arrivals]
    if len(arrivals) != len(prompts) or any(b < a for a, b in itertools.pairwise(arrivals)):
        raise ValueError(f"arrivals = {arrivals!r}: one for each of {len(prompts)} prompts, not descending")

    coming = deque(range(len(prompts)))
    waiting: deque[int] = deque()
    running: dict[int, KVCache] = {}
    outputs: list[list[int]] = [[] for _ in prompts]
    number = 0
    while coming or waiting or running:
        if not waiting and not running:
            number = max(number, arrivals[coming[0]])
        while coming and arrivals[coming[0]] <= number:
            waiting.append(coming.popleft())
        decode = tuple(running)
        prefill = tuple(waiting.popleft() for _ in range(min(len(waiting), max_bs - len(running))))
        for i in prefill:
            running[i] = KVCache(model)
        step = [Chunk(prompts[i] if i in prefill else outputs[i][-1:], cache) for i, cache in running.items()]
        tokens = dict(zip(running, forward_ragged(model, step).argmax(axis=1).tolist(), strict=True))
        for i, token in tokens.items():
            if token != stop:
                outputs[i].append(token)
            if token == stop or len(outputs[i]) == limits[i]:
                del running[i]
        if watch is not None:
            watch(Iteration(number, prefill, decode, tuple(waiting), tokens))
        number += 1
    return outputs


def _limits(model: Llama, prompts: Sequence[Sequence[int]], max_new: int | Sequence[int]) -> list[int]:
    """Return how many tokens each prompt may generate, once all prompts and limits are known to be good."""
    each = [max_new] * len(prompts) if isinstance(max_new, int) else list(max_new)
    if len(each) != len(prompts):
        raise ValueError(f"max_new = {max_new!r}: one number, or one for each of {len(prompts)} prompts")
    config = model.config
    for i, (prompt, limit) in enumerate(zip(prompts, each, strict=True)):
        integer(f"max_new[{i}]", limit)
        if not len(prompt) or any(not 0 <= token < config.vocab for token in prompt):
            raise ValueError(f"prompts[{i}]: at least one token, each at least 0 and below vocab = {config.vocab}")
        # The last token is returned without being fed back, so it needs no position.
        if len(prompt) + limit - 1 > config.max_context:
            raise ValueError(
                f"prompts[{i}]: {len(prompt)} prompt tokens and {limit} new ones: "
                f"more than max_context = {config.max_context}"
            )
    return [int(limit) for limit in each]
