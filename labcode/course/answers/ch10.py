"""Answers to the exercises of chapter 10, computed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from labcode.cost import paper
from labcode.cost.hardware import SeqWork, StepShape
from labcode.course.code_tasks import Attempt, task
from labcode.course.evidence.budgets import keys_seen
from labcode.course.exercises import exercise
from labcode.scheduler.contiguous import FirstFit
from labcode.scheduler.kv_cache import Paged, positions_needed
from labcode.scheduler.request import Request

CHUNKS = [SeqWork(new, 2000 + 200 * i) for i, new in enumerate((200, 200, 200, 100))]  # exercise 10.1
LENGTHS, LONG_BLOCK, MORE = (94, 190, 288), 32, 3  # exercise 10.2


@exercise("10.1a", 0)
def pairs_of_chunks() -> float:
    """Query-key pairs of 700 tokens behind a history of 2,000, in chunks of 200."""
    return float(sum(map(keys_seen, CHUNKS)))


@exercise("10.1b", 0)
def positions_read_again() -> float:
    """Positions that its chunks read beyond those that one chunk would read."""
    return float(sum(work.past for work in CHUNKS) - CHUNKS[0].past)


def blocks_of(more: int) -> int:
    """Return the blocks that the three sequences of exercise 10.2 hold with `more` tokens each."""
    memory = Paged(64 * LONG_BLOCK, LONG_BLOCK)
    for i, length in enumerate(LENGTHS):
        memory.try_admit(Request(i, length + more, 10), length + more)
    return 64 - memory.free_blocks


@exercise("10.2a", 0)
def blocks_after_three() -> float:
    """Blocks of 32 after three more tokens each, from 94, 190 and 288."""
    return float(blocks_of(MORE))


@exercise("10.2b", 0)
def mebibytes_added() -> float:
    """MiB that the three tokens each have taken from the pool."""
    return float(blocks_of(MORE) - blocks_of(0)) * LONG_BLOCK * 64 / 1024


@exercise("10.3", 0.01)
def largest_chunk_behind_a_history() -> float:
    """Prompt tokens that 64 decodes at 2,000 positions leave within 25 ms, after 6,000 tokens of the same prompt."""
    cost = paper("llama3-8b", "a100-80")

    def fits(chunk: int) -> bool:
        return cost.step_time(StepShape.of([SeqWork(chunk, 6000)], 64, 64 * 2001)) <= 0.025

    return float(max(chunk for chunk in range(1, 2192) if fits(chunk)))


@exercise("10.4a", 0)
def admitted_now() -> float:
    """Requests with prompts of 100 that a pool of 40 blocks of 16 takes in at once."""
    memory = Paged(40 * 16, 16)
    return float(sum(memory.try_admit(Request(i, 100, 200), 100) for i in range(40)))


@exercise("10.4b", 0)
def admitted_whole() -> float:
    """How many of them can be promised to finish."""
    whole = math.ceil(positions_needed(Request(0, 100, 200)) / 16)
    return float(40 // whole)


@exercise("10.5a", 0)
def free_in_all() -> float:
    """Tokens that are free in the first-fit pool of exercise 10.5."""
    return float(_holes().free_tokens)


@exercise("10.5b", 0)
def free_in_one_piece() -> float:
    """The longest request that can still be placed there, tokens."""
    return float(_holes().largest_hole())


def _holes() -> FirstFit:
    """Return the pool of exercise 10.5 after the second and the fourth have left."""
    memory = FirstFit(1000, lambda request: request.prompt)
    people = [Request(i, size, 1) for i, size in enumerate((200, 150, 300, 250))]
    for request in people:
        memory.try_admit(request, request.prompt)
    memory.free(people[1])
    memory.free(people[3])
    return memory


class Pages:
    """A paged manager in twenty lines: what exercise 10.build asks for."""

    def __init__(self, blocks: int, block: int) -> None:
        self.block, self.free_blocks = block, blocks
        self.held: dict[int, int] = {}

    def grow(self, request: int, positions: int) -> bool:
        """Give `request` the blocks that `positions` tokens need beyond those it has, all of them or none."""
        more = -(-positions // self.block) - self.held.get(request, 0)
        if more > self.free_blocks:
            return False
        if more > 0:
            self.held[request] = self.held.get(request, 0) + more
            self.free_blocks -= more
        return True

    def free(self, request: int) -> None:
        """Take all blocks of `request` back; of somebody who has none nothing."""
        self.free_blocks += self.held.pop(request, 0)


@task("10.build", limit=10.0)
def build_pages(attempt: Attempt) -> None:
    """pages(blocks, block): an object with grow(request, positions) -> bool, free(request) and free_blocks."""
    pages = attempt(64, 16)
    _hold(attempt, pages, "grow", ("A", 257), True, 64 - 17)
    _hold(attempt, pages, "grow", ("B", 255), True, 64 - 33)
    _hold(attempt, pages, "grow", ("A", 258), True, 64 - 33)
    _hold(attempt, pages, "grow", ("C", 1024), False, 64 - 33)  # all or nothing
    _hold(attempt, pages, "grow", ("B", 257), True, 64 - 34)
    _hold(attempt, pages, "free", ("A",), None, 64 - 17)
    _hold(attempt, pages, "free", ("A",), None, 64 - 17)  # given back once
    rng = np.random.default_rng(10)
    for _ in range(20):
        blocks, block = int(rng.integers(1, 30)), int(rng.integers(1, 20))
        mine, pages = Pages(blocks, block), attempt(blocks, block)
        for _ in range(40):
            name = int(rng.integers(0, 4))
            if rng.random() < 0.25:
                mine.free(name)
                _hold(attempt, pages, "free", (name,), None, mine.free_blocks)
            else:
                positions = int(rng.integers(1, blocks * block // 2 + 3))
                given = mine.grow(name, positions)
                _hold(attempt, pages, "grow", (name, positions), given, mine.free_blocks)


def _hold(attempt: Attempt, pages: Any, method: str, args: tuple[Any, ...], wanted: bool | None, left: int) -> None:
    """Call a method of the reader's object; it has to return `wanted` and to leave so many blocks."""
    before = pages.free_blocks
    got = getattr(pages, method)(*args)
    call = f"{method}{args if len(args) > 1 else f'({args[0]!r})'} with {before} blocks free"
    attempt.require(wanted is None or got is wanted, f"{call} returned {got!r}, expected {wanted!r}")
    attempt.require(pages.free_blocks == left, f"{call} left {pages.free_blocks} blocks free, expected {left}")
