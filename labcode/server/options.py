"""What a server can be told: the simulator's options under the simulator's names, and limits that only a server has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from labcode.checks import integer, number, one_of, positive
from labcode.model import Llama
from labcode.scheduler import Memory, Scheduler, memory
from labcode.scheduler.admission import bounded_queue, fits_context
from labcode.scheduler.fair import DeficitRoundRobin, VirtualTokenCounter
from labcode.scheduler.scheduler import EXPIRY
from labcode.scheduler.waiting import WaitingQueue, as_queue, earliest_deadline, first_come, shortest_predicted
from labcode.simulate import budgets_of

#: Orders that go by what a server knows; its prediction of a length is the sender's limit.
ORDERS: dict[str, Callable[[], WaitingQueue]] = {
    "fcfs": lambda: as_queue(first_come),
    "sjf": lambda: as_queue(shortest_predicted),
    "deadline": lambda: as_queue(earliest_deadline),
    "drr": DeficitRoundRobin,
    "vtc": VirtualTokenCounter,
}


@dataclass(frozen=True)
class Options:
    """Options of a server.

    Attributes
    ----------
    max_bs, memory, capacity, watermark, order, prefill, token_budget, expire
        As of :func:`labcode.simulate`; `capacity` in tokens.  ``memory="shared"`` is not offered: the model keeps a
        cache for each request.
    max_waiting : int
        Requests that may wait; whoever comes then gets 429.
    deadline : float or None
        Seconds after its arrival at which a request is ended, if it does not say itself.
    max_tenants : int
        Names that the header ``X-Tenant`` may bring; each costs memory for good.
    max_tokens, default_tokens : int
        The most output tokens that a request may ask for, and what it gets if it does not ask.
    max_body : int
        Bytes of a request's body.
    body_timeout : float
        Seconds within which a body must have come.
    output_buffer : int
        Tokens that wait for a client that reads slowly; then its request pauses.
    stall_timeout : float
        Seconds after which a client that takes nothing loses its connection.
    drain_timeout : float
        Seconds that requests have to finish once the server has been told to stop.
    """

    max_bs: int = 32
    memory: str = "paged:16"
    capacity: int = 32_768
    watermark: float = 0.01
    order: str = "fcfs"
    prefill: str = "mixed"
    token_budget: int | None = None
    expire: str = "always"
    max_waiting: int = 256
    deadline: float | None = None
    max_tenants: int = 64
    max_tokens: int = 1024
    default_tokens: int = 64
    max_body: int = 1 << 20
    body_timeout: float = 30.0
    output_buffer: int = 64
    stall_timeout: float = 10.0
    drain_timeout: float = 30.0

    def __post_init__(self) -> None:
        one_of("order", self.order, ORDERS)
        one_of("expire", self.expire, EXPIRY)
        integer("max_waiting", self.max_waiting, at_least=0)
        for name in ("capacity", "max_tenants", "max_tokens", "default_tokens", "max_body", "output_buffer"):
            integer(name, getattr(self, name))
        if self.deadline is not None:
            positive("deadline", self.deadline)
        for name in ("body_timeout", "stall_timeout"):
            positive(name, getattr(self, name))
        if number("drain_timeout", self.drain_timeout) < 0:
            raise ValueError(f"drain_timeout = {self.drain_timeout!r}: must be at least 0")
        if self.memory.startswith("shared"):
            raise ValueError(f"memory = {self.memory!r}: the model keeps a cache for each request, nothing is shared")
        budgets_of(self.max_bs, self.prefill, self.token_budget)
        self._memory()

    def scheduler(self, model: Llama) -> Scheduler:
        """Return a fresh scheduler for `model`."""
        return Scheduler(
            self._memory(),
            ORDERS[self.order](),
            budgets_of(self.max_bs, self.prefill, self.token_budget),
            checks=(fits_context(model.config.max_context), bounded_queue(self.max_waiting)),
            expire=self.expire,
        )

    def _memory(self) -> Memory:
        paged = self.memory.startswith("paged")
        return memory(self.memory, self.capacity, self.watermark if paged else 0.0)
