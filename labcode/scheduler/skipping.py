"""Stop at the head of the line, or look past it: the choice in Orca's `Select` (Algorithm 1), made
exchangeable.

Orca stops at the first request whose reservation does not fit.  This discipline looks further and offers the
first request in order of arrival that does fit.  It knows the memory manager, which the plain orders of
:mod:`labcode.scheduler.policies` do not.
"""

from __future__ import annotations

from labcode.scheduler.memory import ReservationMemory
from labcode.workload import Request


class SkippingQueue:
    """A line in order of arrival that lets whoever fits pass those who do not.

    Parameters
    ----------
    memory : ReservationMemory
        The same object that the engine gets.
    patience : float
        Seconds after which the head of the line may no longer be passed; infinity lets it be passed for ever,
        0 is Orca's rule.
    """

    def __init__(self, memory: ReservationMemory, patience: float = float("inf")) -> None:
        if not patience >= 0:
            raise ValueError(f"patience = {patience!r}: must be at least 0")
        self.memory, self.patience = memory, patience
        self.line: list[Request] = []
        self._offered: Request | None = None

    def _next(self, now: float) -> int:
        """Return the place in the line of who comes next: the first that fits, or the head if nobody does."""
        if now - self.line[0].arrival >= self.patience:
            return 0
        room = self.memory.capacity - self.memory.reserved
        fits = (k for k, r in enumerate(self.line) if self.memory.need(r.prompt, r.output) <= room)
        return next(fits, 0)

    def push(self, request: Request, now: float) -> None:
        """Let `request` join the line at its place by arrival."""
        k = len(self.line)
        while k and self.line[k - 1].id > request.id:
            k -= 1
        self.line.insert(k, request)

    def peek(self, now: float) -> Request:
        """Return who comes next, without removing it."""
        self._offered = self.line[self._next(now)]
        return self._offered

    def pop(self, now: float) -> Request:
        """Remove and return whom `peek` offered: by now the engine has reserved for it, and asking again
        would differ."""
        request = self._offered or self.peek(now)
        self.line.remove(request)
        self._offered = None
        return request

    def __len__(self) -> int:
        return len(self.line)
