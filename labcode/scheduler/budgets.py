"""What bounds a round: places, new tokens, and time.  (Blocks are the memory's to give.)

The three ways in which prefill joins are three orders of handing out one budget:

=================  =====================================================================
``mixed``          every running decode, then whole prompts                     (Orca)
``prefill_first``  whole prompts; decodes only if there are none                (early vLLM)
``chunked``        every running decode, then as much of the prompts as fits    (Sarathi-Serve)
=================  =====================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from labcode.checks import integer, one_of
from labcode.scheduler.request import Plan, RequestState, Work

PREFILL_MODES = ("mixed", "prefill_first", "chunked")

#: Seconds that a step with these (new, past) pairs would take.
StepTimeEstimate = Callable[[Sequence[tuple[int, int]]], float]

NO_LIMIT = 1 << 60


@dataclass(frozen=True)
class Budgets:
    """The budgets of a round.

    Attributes
    ----------
    max_bs : int
        Places in the running batch.
    prefill : {"mixed", "prefill_first", "chunked"}
    token_budget : int or None
        New tokens in one step; None is no limit.  With whole prompts one that is longer is refused; a recomputation
        that has become longer runs as the only prefill of its step.
    padded : bool
        Count the prefills of a step as number of prompts times the longest (a rectangular tensor), as Vidur does.
    min_prefill, min_decode : int
        Tokens of the budget that are kept for prefill, and for decode, while somebody needs them.
    step_time : float or None
        Seconds that a step should not exceed, by `estimate`; only prefill is held back for it.
    estimate : callable or None
        ``estimate([(new, past), ...])`` -> seconds of the whole step (a step's cost is not a sum over its requests).
    """

    max_bs: int = 256
    prefill: str = "mixed"
    token_budget: int | None = None
    padded: bool = False
    min_prefill: int = 0
    min_decode: int = 0
    step_time: float | None = None
    estimate: StepTimeEstimate | None = None

    def __post_init__(self) -> None:
        integer("max_bs", self.max_bs)
        one_of("prefill", self.prefill, PREFILL_MODES)
        for name in ("min_prefill", "min_decode"):
            integer(name, getattr(self, name), at_least=0)
        if self.token_budget is not None:
            integer("token_budget", self.token_budget)
            if self.min_prefill + self.min_decode > self.token_budget:
                raise ValueError(
                    f"min_prefill + min_decode = {self.min_prefill + self.min_decode}: "
                    f"at most token_budget = {self.token_budget}"
                )
        elif self.min_prefill or self.min_decode or self.prefill == "chunked":
            raise ValueError("token_budget = None: chunks and minimum shares are shares of a token budget")
        if (self.step_time is None) != (self.estimate is None):
            raise ValueError("step_time and estimate go together: a bound, and what says how long a step takes")

    @property
    def whole_prompts(self) -> bool:
        """Whether a prompt is prefilled in one step."""
        return self.prefill != "chunked"


@dataclass
class Round:
    """A plan in the making, and what is left of the budgets."""

    budgets: Budgets
    places: int
    prefill: list[Work] = field(default_factory=list)
    decode: list[RequestState] = field(default_factory=list)
    admitted: list[RequestState] = field(default_factory=list)
    preempted: list[RequestState] = field(default_factory=list)
    swapped_in: list[Work] = field(default_factory=list)
    swapped_out: list[Work] = field(default_factory=list)
    prefill_tokens: int = 0
    longest: int = 0

    def tokens_left(self, kept: int = 0) -> int:
        """Return what is left of the token budget beside `kept` tokens for others."""
        budget = self.budgets.token_budget
        return NO_LIMIT if budget is None else budget - kept - len(self.decode) - self.prefill_tokens

    def share(self, state: RequestState, kept: int = 0) -> int:
        """Return how many new positions a prefill may have in this round; 0 if it must wait.

        Parameters
        ----------
        kept : int
            Tokens that are kept for the other phase.
        """
        need, left = state.known - state.computed, self.tokens_left(kept)
        if not self.budgets.whole_prompts:
            return self._in_time(state, min(need, left))
        if self.budgets.padded and self.budgets.token_budget is not None:
            padded = (len(self.prefill) + 1) * max(self.longest, need)
            left = need if padded <= self.budgets.token_budget - kept - len(self.decode) else 0
        if need <= left or (not self.prefill and state.generated):
            return need if self._in_time(state, need) == need else 0
        return 0

    def _in_time(self, state: RequestState, new: int) -> int:
        """Return the largest share up to `new` that the step-time budget allows; the first of a step gets some."""
        limit, estimate = self.budgets.step_time, self.budgets.estimate
        if limit is None or estimate is None or new <= 0:
            return new
        others = [(work.new, work.past) for work in self.prefill] + [(1, s.computed) for s in self.decode]

        def fits(share: int) -> bool:
            return estimate([*others, (share, state.computed)]) <= limit

        if fits(new):
            return new
        low, high = 0, new
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        if low == 0 and not others:
            return new if self.budgets.whole_prompts else 1
        return low

    def add_prefill(self, state: RequestState, new: int) -> None:
        """Give a request `new` positions of its prompt."""
        self.prefill.append(Work(state, new, state.computed))
        self.prefill_tokens += new
        self.longest = max(self.longest, new)

    def drop(self, state: RequestState) -> None:
        """Take a request's work back: it was preempted within the round."""
        self.decode = [other for other in self.decode if other is not state]
        self.admitted = [other for other in self.admitted if other is not state]
        for work in [work for work in self.prefill if work.request is state]:
            self.prefill.remove(work)
            self.prefill_tokens -= work.new
        self.preempted.append(state)

    def plan(self) -> Plan:
        """Return the finished plan."""
        return Plan(
            tuple(self.prefill),
            tuple(self.decode),
            tuple(self.admitted),
            tuple(self.preempted),
            tuple(self.swapped_in),
            tuple(self.swapped_out),
        )
