"""Who runs next.  No clock, no future, no arrays of times.

`scheduler` the round · `states` a request's states and the ways between them · `request` what is known of a request, a
plan, its results · `waiting` orders of the queue · `kv_cache` one pool of blocks · `admission` who is let in ·
`budgets` places, tokens, time · `preemption` victim and action.
"""

from labcode.scheduler.budgets import Budgets
from labcode.scheduler.kv_cache import Memory
from labcode.scheduler.managers import memory
from labcode.scheduler.preemption import Preemption
from labcode.scheduler.request import Plan, Refusal, Request, RequestState, Results
from labcode.scheduler.scheduler import Scheduler
from labcode.scheduler.states import State

__all__ = [
    "Budgets",
    "Memory",
    "Plan",
    "Preemption",
    "Refusal",
    "Request",
    "RequestState",
    "Results",
    "Scheduler",
    "State",
    "memory",
]
