"""What a scheduler knows of a request, what it decides in a round, and what it is told afterwards."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from labcode.checks import integer, number
from labcode.scheduler.states import RUNNING, TRANSITIONS, State


@dataclass(frozen=True, slots=True)
class Request:
    """What its sender says of a request, and what a predictor adds.  The true output length is not here.

    Parameters
    ----------
    id : int
        Unique in its scheduler.
    prompt : int
        Tokens of the prompt, at least 1.
    max_tokens : int
        The most tokens that the sender wants back, at least 1.
    arrival : float
        When it came, s.
    deadline : float or None
        Absolute time after which the answer is worth nothing, s.
    tenant : str
        Who sent it.
    priority : float
        The sender's own; smaller is more urgent.
    predicted : float or None
        Tokens of output that a predictor expects.
    prefix : tuple of int
        Hashes of the prompt's full KV blocks, each over all tokens up to its end; () if nobody shares.
    """

    id: int
    prompt: int
    max_tokens: int
    arrival: float = 0.0
    deadline: float | None = None
    tenant: str = ""
    priority: float = 0.0
    predicted: float | None = None
    prefix: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        integer("prompt", self.prompt)
        integer("max_tokens", self.max_tokens)
        number("arrival", self.arrival)

    @property
    def expected(self) -> float:
        """Tokens of output to count on: the prediction, or the sender's limit where nobody predicts."""
        return self.max_tokens if self.predicted is None else self.predicted


@dataclass(slots=True, eq=False)
class RequestState:
    """A request on its way.

    `known` positions are those whose tokens exist (prompt and generated); `computed` ones are in the KV cache.  A
    round gives a request some new positions so that the second number catches up with the first; the step in which
    it does yields the next token.  Prefill is far behind, decode is one behind.

    Attributes
    ----------
    id : int
        The request's number.
    generated : int
        Tokens that came out so far.
    computed : int
        Positions in the cache.
    preemptions, recomputed : int
        How often it lost its place, and how many computed positions it lost with it (tokens).
    reason : str
        Why it was refused, or failed.
    """

    request: Request
    state: State = State.WAITING
    generated: int = 0
    computed: int = 0
    preemptions: int = 0
    recomputed: int = 0
    reason: str = ""
    id: int = field(init=False)

    def __post_init__(self) -> None:
        self.id = self.request.id

    @property
    def known(self) -> int:
        """Positions whose tokens exist."""
        return self.request.prompt + self.generated

    @property
    def running(self) -> bool:
        """Whether it holds a place and blocks."""
        return self.state in RUNNING

    def move(self, to: State) -> None:
        """Change the state along `TRANSITIONS`.

        Raises
        ------
        ValueError
            If there is no such way: a terminal state is final.
        """
        if to not in TRANSITIONS[self.state]:
            raise ValueError(f"request {self.id}: from {self.state.value} there is no way to {to.value}")
        self.state = to


class Work(NamedTuple):
    """What one request does in a round: `new` positions on top of `past` cached ones (tokens)."""

    request: RequestState
    new: int
    past: int

    @property
    def yields(self) -> bool:
        """Whether the step gives this request a token: its computed positions catch up with the known ones."""
        return self.past + self.new == self.request.known


@dataclass(frozen=True, slots=True)
class Plan:
    """One round's decision: who computes what in the next step.

    Attributes
    ----------
    prefill : tuple of Work
        Whole prompts, or chunks of them.
    decode : tuple of RequestState
        Who gets one more token.
    admitted : tuple of RequestState
        Who took a place in this round.
    preempted : tuple of RequestState
        Who lost it.
    swapped_in, swapped_out : tuple of Work
        Whose cache moves between host and device before the step (`past` positions of it).
    """

    prefill: tuple[Work, ...] = ()
    decode: tuple[RequestState, ...] = ()
    admitted: tuple[RequestState, ...] = ()
    preempted: tuple[RequestState, ...] = ()
    swapped_in: tuple[Work, ...] = ()
    swapped_out: tuple[Work, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to compute."""
        return bool(self.prefill or self.decode)

    @property
    def new_tokens(self) -> int:
        """New positions of the step."""
        return len(self.decode) + sum(work.new for work in self.prefill)


@dataclass(frozen=True, slots=True)
class Results:
    """What the executor says of a plan.

    Attributes
    ----------
    finished : collection of int
        Whose answer ended: an end token came, or the length that only the executor knows.
    failed : mapping of int to str
        Whose step went wrong, and why.
    steps : int
        How many times in a row the plan was carried out (more than once only for a plan of decodes).
    """

    finished: Collection[int] = ()
    failed: Mapping[int, str] = field(default_factory=dict)
    steps: int = 1


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request was not taken in.

    Attributes
    ----------
    kind : str
        For counting: "context", "pool", "budget", "queue", "quota", "deadline", ...
    reason : str
        For people, with the numbers.
    """

    kind: str
    reason: str

    def __str__(self) -> str:
        return self.reason
