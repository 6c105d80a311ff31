"""Who is let in at the door.  Every check is a function of a request and the scheduler; every refusal has a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from labcode.checks import integer
from labcode.scheduler.request import Refusal, Request

if TYPE_CHECKING:
    from labcode.scheduler.scheduler import Scheduler

#: ``check(request, scheduler, now)`` -> why not, or None.
Check = Callable[[Request, "Scheduler", float], Refusal | None]


def fits_pool(request: Request, scheduler: Scheduler, now: float) -> Refusal | None:
    """Refuse what can never fit into the pool, even alone."""
    reason = scheduler.memory.refusal(request)
    return Refusal("pool", reason) if reason else None


def fits_budget(request: Request, scheduler: Scheduler, now: float) -> Refusal | None:
    """Refuse a prompt that exceeds the token budget of a step and may not be cut."""
    budgets = scheduler.budgets
    if budgets.token_budget is not None and budgets.whole_prompts and request.prompt > budgets.token_budget:
        return Refusal(
            "budget",
            f"prompt of {request.prompt} tokens exceeds token_budget = {budgets.token_budget}, and "
            f"prefill = {budgets.prefill!r} does not cut it",
        )
    return None


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
