"""Who is let in at the door.  Every check is a function of a request and the scheduler; every refusal has a reason.

==============  =====================================================================
kind            checks
==============  =====================================================================
``quota``       `tenant_quota`, `TokenQuota`: what a tenant may have under way, or use
``context``     `fits_context`: prompt and limit against the model
``budget``      `fits_budget`: a prompt against the tokens of a step
``pool``        `fits_pool`: what one request may grow to, against the whole pool
``memory``      `bounded_promise`: what all of them may grow to
``queue``       `bounded_queue`
``deadline``    `in_time`: wait + service + margin against the time that is left
==============  =====================================================================

Checks are asked in order and the first refusal counts.  A check that keeps an account (`TokenQuota`) stands last:
whom it lets pass has been charged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from labcode.checks import integer, non_negative, number, positive
from labcode.scheduler.request import Refusal, Request, RequestState
from labcode.scheduler.states import TERMINAL

if TYPE_CHECKING:
    from labcode.scheduler.scheduler import Scheduler

#: ``check(request, scheduler, now)`` -> why not, or None.
Check = Callable[[Request, "Scheduler", float], Refusal | None]


def fits_pool(request: Request, scheduler: Scheduler, now: float) -> Refusal | None:
    """Refuse what can never fit into the pool, even alone."""
    reason = scheduler.memory.refusal(request)
    return Refusal("pool", reason) if reason else None


def fits_budget(request: Request, scheduler: Scheduler, now: float) -> Refusal | None:
    """Refuse a prompt that exceeds what a step's token budget leaves to prompts, and may not be cut."""
    budgets = scheduler.budgets
    if budgets.token_budget is None or not budgets.whole_prompts:
        return None
    kept = budgets.min_decode if budgets.prefill == "prefill_first" else 0
    if request.prompt <= budgets.token_budget - kept:
        return None
    less = f" less min_decode = {kept}" if kept else ""
    return Refusal(
        "budget",
        f"prompt of {request.prompt} tokens exceeds token_budget = {budgets.token_budget}{less}, and "
        f"prefill = {budgets.prefill!r} does not cut it",
    )


def fits_context(longest: int) -> Check:
    """Return the check that prompt and limit stay within a model's context of `longest` tokens."""
    longest = integer("max_context", longest)

    def check(request: Request, scheduler: Scheduler, now: float) -> Refusal | None:
        if request.prompt + request.max_tokens <= longest:
            return None
        return Refusal(
            "context",
            f"prompt {request.prompt} + output {request.max_tokens} tokens exceed the model's context of {longest}",
        )

    return check


def bounded_queue(most: int) -> Check:
    """Return the check that at most `most` requests wait."""
    most = integer("most", most, at_least=0)

    def check(request: Request, scheduler: Scheduler, now: float) -> Refusal | None:
        if scheduler.waiting < most:
            return None
        return Refusal("queue", f"{scheduler.waiting} requests wait already, at most {most} may")

    return check


def under_way(scheduler: Scheduler) -> Iterator[RequestState]:
    """Yield everybody who waits or runs, but for who is being asked about (it has its state already)."""
    return (s for s in list(scheduler.requests.values())[:-1] if s.state not in TERMINAL)


def tenant_quota(most: int) -> Check:
    """Return the check that a tenant has at most `most` requests waiting or running."""
    most = integer("most", most)

    def check(request: Request, scheduler: Scheduler, now: float) -> Refusal | None:
        there = sum(state.request.tenant == request.tenant for state in under_way(scheduler))
        if there < most:
            return None
        return Refusal("quota", f"tenant {request.tenant!r} has {there} requests under way, at most {most} may be")

    return check


def bounded_promise(most: int) -> Check:
    """Return the check that all who wait or run, grown to their limits, need at most `most` positions (tokens)."""
    most = integer("most", most)

    def check(request: Request, scheduler: Scheduler, now: float) -> Refusal | None:
        promised = sum(s.request.prompt + s.request.max_tokens for s in under_way(scheduler))
        more = request.prompt + request.max_tokens
        if promised + more <= most:
            return None
        return Refusal("memory", f"{promised} tokens are promised, {more} more would exceed {most}")

    return check


class TokenQuota:
    """A token bucket for each tenant: `rate` tokens a second, of which up to `burst` can be saved.

    A request costs its prompt and its limit.  The account is charged when the check passes, so the check stands last.

    Parameters
    ----------
    rate : float
        Tokens/s that flow in.
    burst : float
        Tokens that the bucket holds; it is full at first.
    """

    def __init__(self, rate: float, burst: float) -> None:
        self.rate, self.burst = positive("rate", rate), positive("burst", burst)
        self.accounts: dict[str, tuple[float, float]] = {}  # tenant -> (tokens left, when that was so)

    def left(self, tenant: str, now: float) -> float:
        """Return the tokens that a tenant may use at `now` (s)."""
        tokens, since = self.accounts.get(tenant, (self.burst, now))
        return min(self.burst, tokens + self.rate * max(0.0, now - since))

    def __call__(self, request: Request, scheduler: Scheduler, now: float) -> Refusal | None:
        """Charge the request's tenant, or say when its account would do."""
        cost, left = request.prompt + request.max_tokens, self.left(request.tenant, now)
        if cost <= left + 1e-9:
            self.accounts[request.tenant] = (max(0.0, left - cost), now)
            return None
        words = f"tenant {request.tenant!r} has {left:.0f} tokens left and needs {cost}"
        never = f"; its bucket never holds more than {self.burst:g}"
        return Refusal("quota", words + (never if cost > self.burst else f": in {(cost - left) / self.rate:.3g} s"))


@dataclass(frozen=True, slots=True)
class Estimate:
    """What somebody expects of a request at its arrival.

    Attributes
    ----------
    wait, service : float
        Seconds until it takes a place, and from then to its last token.
    """

    wait: float
    service: float

    @property
    def total(self) -> float:
        """Both together, in seconds."""
        return self.wait + self.service


#: ``estimate(request, scheduler, now)`` -> Estimate.
Estimator = Callable[[Request, "Scheduler", float], Estimate]


def drain_estimate(rate: float, prefill: float, decode: float) -> Estimator:
    """Return the estimator for first come, first served: who waits goes in at the pace at which a full engine admits.

    wait = (waiting + 1)/rate, or 0 if a place is free and nobody waits; service = prefill · prompt + decode · expected
    output.  It looks at places only: with the pool full and nobody waiting it is too short by one departure.

    Parameters
    ----------
    rate : float
        Admissions/s of an engine whose queue is never empty; see :func:`labcode.experiments.saturation.drain_rate`.
    prefill, decode : float
        Seconds per token of the prompt, and of the answer, under the load that is meant.
    """
    rate, prefill, decode = positive("rate", rate), non_negative("prefill", prefill), non_negative("decode", decode)

    def estimate(request: Request, scheduler: Scheduler, now: float) -> Estimate:
        free = scheduler.open and not scheduler.waiting
        wait = 0.0 if free else (scheduler.waiting + 1) / rate
        return Estimate(wait, prefill * request.prompt + decode * request.expected)

    return estimate


def in_time(estimate: Estimator, margin: float = 0.0) -> Check:
    """Return the check W + S + margin <= deadline - now; who has no deadline passes.

    Parameters
    ----------
    estimate : callable
    margin : float
        Seconds for what the estimate misses; negative is daring.
    """
    margin = number("margin", margin)

    def check(request: Request, scheduler: Scheduler, now: float) -> Refusal | None:
        if request.deadline is None:
            return None
        expected, left = estimate(request, scheduler, now), request.deadline - now
        if expected.total + margin <= left:
            return None
        parts = f"wait {expected.wait:.3g} s + service {expected.service:.3g} s + margin {margin:.3g} s"
        return Refusal("deadline", f"{parts} exceed the {max(0.0, left):.3g} s that are left")

    return check
