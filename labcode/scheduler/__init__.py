"""Who runs next.  No clock, no future, no arrays of times.

`scheduler` the round · `states` a request's states and the ways between them · `request` what is known of a request, a
plan, its results · `waiting` orders of the queue · `kv_cache` one pool of blocks · `admission` who is let in ·
`budgets` places, tokens, time · `preemption` victim and action · `fair` queues for tenants · `lifecycle` events in any
order, a model of them.

Examples
--------
Drive it by hand.  The executor is a toy: every step gives a letter to whoever is due one, and an answer ends with "z".
The scheduler never sees the letters; it hears who has finished.

>>> from labcode.scheduler import Budgets, Request, Results, Scheduler, memory
>>> scheduler = Scheduler(memory("paged:4", 24), budgets=Budgets(max_bs=2))
>>> answers = {0: "hiz", 1: "okayz", 2: "z"}
>>> for number in answers:
...     refusal = scheduler.add(Request(number, prompt=6, max_tokens=8, arrival=number), now=number)
>>> refusal = scheduler.add(Request(3, prompt=20, max_tokens=8), now=2)
>>> print(refusal.kind, "-", refusal)
pool - needs 27 tokens of KV cache, the whole pool has 24
>>> now, said = 2.0, {number: "" for number in answers}
>>> while plan := scheduler.schedule(now):
...     due = [work.request for work in plan.prefill if work.yields] + list(plan.decode)
...     for state in due:
...         said[state.id] += answers[state.id][state.generated]
...     now += 0.5
...     done = [state.id for state in due if said[state.id].endswith("z")]
...     print(f"{now}: prefill {[w.request.id for w in plan.prefill]}, decode {[s.id for s in plan.decode]}, {said}")
...     scheduler.update(plan, Results(done), now)
2.5: prefill [0, 1], decode [], {0: 'h', 1: 'o', 2: ''}
3.0: prefill [], decode [0, 1], {0: 'hi', 1: 'ok', 2: ''}
3.5: prefill [], decode [0, 1], {0: 'hiz', 1: 'oka', 2: ''}
4.0: prefill [2], decode [1], {0: 'hiz', 1: 'okay', 2: 'z'}
4.5: prefill [], decode [1], {0: 'hiz', 1: 'okayz', 2: 'z'}
>>> [(state.id, state.state.value) for state in scheduler.ended]
[(3, 'refused'), (0, 'finished'), (2, 'finished'), (1, 'finished')]
>>> scheduler.cancel(1, now)
False
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
