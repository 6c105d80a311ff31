"""Queues that are fair to tenants: deficit round robin, and the virtual token counter.

Both keep one line a tenant, first come, first served within it, and an account a tenant.  What a request costs is said
by a `Tariff`.  A request is *booked* with a charge when it is let in, and charged by what is really done for it: what
goes beyond the booking is charged as it happens, what was booked too much is given back when the request ends.  So the
difference between a prediction and the truth stays in the account of the tenant whose request it was.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping
from dataclasses import dataclass

from labcode.checks import non_negative, positive
from labcode.scheduler.request import Request
from labcode.scheduler.waiting import WaitingQueue


@dataclass(frozen=True)
class Tariff:
    """What is charged: a fixed rule, since the cost of a shared step cannot be divided in one true way.

    Attributes
    ----------
    request : float
        For a request when it is let in for the first time.
    position : float
        For each position computed: of the prompt, of a token that is fed back, and of either computed again.
    token : float
        For each token that comes out.
    history : float
        For each cached position that a step reads on behalf of the request, its new ones included.
    """

    request: float = 0.0
    position: float = 0.0
    token: float = 0.0
    history: float = 0.0

    def __post_init__(self) -> None:
        for name in ("request", "position", "token", "history"):
            non_negative(f"Tariff.{name}", getattr(self, name))
        if not (self.request or self.position or self.token or self.history):
            raise ValueError("Tariff: all four prices are 0; at least one must be above 0")

    def work(self, new: int, past: int, tokens: int) -> float:
        """Return the charge for `new` positions on top of `past` cached ones that gave `tokens` tokens.

        As many tokens as positions are that many decode steps, each reading one position more; else it is one step.
        """
        read = new * (past + 1) + new * (new - 1) // 2 if tokens == new else past + new
        return self.position * new + self.token * tokens + self.history * read

    def expected(self, request: Request, output: float | None = None) -> float:
        """Return the whole charge of `request` for `output` tokens, by default those expected."""
        output = max(1.0, request.expected if output is None else output)
        further = output - 1
        read = request.prompt + further * request.prompt + further * (further + 1) / 2
        positions = request.prompt + further
        return self.request + self.position * positions + self.token * output + self.history * read

    def known(self, request: Request) -> float:
        """Return the part of the charge that is known beforehand: that of the request and its prompt."""
        return self.request + self.position * request.prompt + self.history * request.prompt


#: One vote a request.
BY_REQUEST = Tariff(request=1.0)
#: Output tokens only, as in exercise 31.9 of the textbook chapter.
BY_OUTPUT = Tariff(token=1.0)
#: 1 for a prompt token, 2 for an output token: the prices of Sheng et al. 2024.
BY_TOKENS = Tariff(position=1.0, token=1.0)


@dataclass
class _Booking:
    """What was booked for a request that is let in, and what was charged for it so far."""

    booked: float
    charged: float = 0.0


class TenantQueue(WaitingQueue):
    """One line a tenant; a subclass says whose turn it is.

    Parameters
    ----------
    tariff : Tariff
    weights : mapping of str to float
        Shares of the tenants; who is not named has 1.

    Attributes
    ----------
    charged : dict of str to float
        What each tenant has been charged so far, bookings included.
    """

    def __init__(self, tariff: Tariff = BY_TOKENS, weights: Mapping[str, float] | None = None) -> None:
        self.tariff = tariff
        self.weights = {name: positive(f"weights[{name!r}]", w) for name, w in (weights or {}).items()}
        self.charged: dict[str, float] = {}
        self.lines: dict[str, list[Request]] = {}  # tenants who have somebody waiting, in the order they came back
        self._inside: dict[int, _Booking] = {}

    def weight(self, tenant: str) -> float:
        """Return the share of `tenant`, above 0."""
        return self.weights.get(tenant, 1.0)

    # What a subclass says -------------------------------------------------------------------------------------

    def turn(self) -> str:
        """Return whose turn it is, of those in `lines`; asked again, it gives the same answer."""
        raise NotImplementedError

    def booking(self, request: Request) -> float:
        """Return what is charged when `request` is let in."""
        raise NotImplementedError

    def joined(self, tenant: str) -> None:
        """Hear that `tenant`, of whom nobody waited, has somebody waiting again (it is in `lines` already)."""

    def left(self, tenant: str) -> None:
        """Hear that nobody of `tenant` waits any longer."""

    def charge(self, tenant: str, cost: float) -> None:
        """Charge `cost` to `tenant`; below 0 it is given back."""
        self.charged[tenant] = self.charged.get(tenant, 0.0) + cost

    # What a scheduler asks ------------------------------------------------------------------------------------

    def push(self, request: Request, now: float) -> None:
        """Let `request` join its tenant's line, by arrival: one that was preempted comes to the front."""
        line = self.lines.get(request.tenant)
        if line is None:
            self.lines[request.tenant] = [request]
            self.joined(request.tenant)
        else:
            bisect.insort(line, request, key=lambda other: (other.arrival, other.id))

    def peek(self, now: float) -> Request:
        """Return who comes next, without removing it."""
        return self.lines[self.turn()][0]

    def pop(self, now: float) -> Request:
        """Remove and return who comes next, and book its charge; who comes in again was booked before."""
        tenant = self.turn()
        request = self.lines[tenant][0]
        if request.id not in self._inside:
            booking = self._inside[request.id] = _Booking(self.booking(request), self.tariff.request)
            self.charge(tenant, booking.booked)
        self._take_out(request)
        return request

    def served(self, request: Request, positions: int, tokens: int, past: int) -> None:
        """Charge what a step did for `request`, as far as it goes beyond the booking."""
        booking = self._inside.get(request.id)
        if booking is None:
            return
        over = max(booking.booked, booking.charged)
        booking.charged += self.tariff.work(positions, past, tokens)
        if booking.charged > over:
            self.charge(request.tenant, booking.charged - over)

    def ended(self, request: Request) -> None:
        """Give back what was booked and not used; take the request out if it still waits."""
        booking = self._inside.pop(request.id, None)
        if booking is not None and booking.booked > booking.charged:
            self.charge(request.tenant, booking.charged - booking.booked)
        if any(other.id == request.id for other in self.lines.get(request.tenant, ())):
            self._take_out(request)

    def __len__(self) -> int:
        """Return how many wait."""
        return sum(map(len, self.lines.values()))

    def _take_out(self, request: Request) -> None:
        line = self.lines[request.tenant]
        line[:] = [other for other in line if other.id != request.id]
        if not line:
            del self.lines[request.tenant]
            self.left(request.tenant)


class DeficitRoundRobin(TenantQueue):
    """Credit that grows by weight · quantum a round and pays for what is let in (Shreedhar and Varghese 1996).

    A tenant whose credit does not cover its first request waits for later rounds and keeps what it has.  Nobody waits
    in time for that: rounds in which nobody could pay are gone through at once.

    Parameters
    ----------
    quantum : float
        Q, in units of the tariff: what a tenant of weight 1 gets in a round.
    tariff, weights
        As for `TenantQueue`.
    carry : float
        The most credit that a tenant keeps while nobody of it waits; 0 is the original rule.  A debt is always kept.

    Attributes
    ----------
    credit : dict of str to float
        D, by tenant.
    """

    def __init__(
        self,
        quantum: float = 512.0,
        tariff: Tariff = BY_TOKENS,
        weights: Mapping[str, float] | None = None,
        carry: float = 0.0,
    ) -> None:
        super().__init__(tariff, weights)
        self.quantum, self.carry = positive("quantum", quantum), non_negative("carry", carry)
        self.credit: dict[str, float] = {}
        self._round: list[str] = []  # whose turn is when; the first has its credit for this visit already

    def booking(self, request: Request) -> float:
        """Return the predicted charge."""
        return self.tariff.expected(request)

    def charge(self, tenant: str, cost: float) -> None:
        """Take `cost` from the credit of `tenant`."""
        super().charge(tenant, cost)
        self.credit[tenant] = self.credit.get(tenant, 0.0) - cost

    def joined(self, tenant: str) -> None:
        """Put `tenant` at the end of the round; alone in it, it is visited at once."""
        self.credit.setdefault(tenant, 0.0)
        self._round.append(tenant)
        if len(self._round) == 1:
            self._grant(tenant)

    def left(self, tenant: str) -> None:
        """Take `tenant` out of the round, with a bounded rest of its credit."""
        first = self._round[0] == tenant
        self._round.remove(tenant)
        self.credit[tenant] = min(self.credit[tenant], self.carry)
        if first and self._round:
            self._grant(self._round[0])

    def turn(self) -> str:
        """Go round until somebody's credit covers its first request."""
        while not self._pays(self._round[0]):
            self._skip_rounds()
            self._round.append(self._round.pop(0))
            self._grant(self._round[0])
        return self._round[0]

    def _grant(self, tenant: str, rounds: int = 1) -> None:
        self.credit[tenant] += rounds * self.weight(tenant) * self.quantum

    def _missing(self, tenant: str) -> float:
        """Return by how much the credit falls short of the first request's charge (one let in before is paid)."""
        request = self.lines[tenant][0]
        price = 0.0 if request.id in self._inside else self.booking(request)
        return price - self.credit[tenant]

    def _pays(self, tenant: str) -> bool:
        return self.lines[tenant][0].id in self._inside or self._missing(tenant) <= 0

    def _skip_rounds(self) -> None:
        """Go through whole rounds in which nobody could pay."""
        if any(self._pays(tenant) for tenant in self._round):
            return
        needed = (self._missing(tenant) / (self.weight(tenant) * self.quantum) for tenant in self._round)
        rounds = math.ceil(min(needed)) - 1
        if rounds > 0:
            for tenant in self._round:
                self._grant(tenant, rounds)


class VirtualTokenCounter(TenantQueue):
    """Whose counter is smallest comes next (Sheng et al. 2024).

    A counter adds up what was done for a tenant, over its weight: the prompt when a request is let in, tokens as they
    come out; nothing is predicted.  Who comes back after a pause has its counter lifted to the smallest of those who
    wait (or to the last who left, if nobody does), so that nobody saves up service by staying away.

    Attributes
    ----------
    counter : dict of str to float
    """

    def __init__(self, tariff: Tariff = BY_TOKENS, weights: Mapping[str, float] | None = None) -> None:
        super().__init__(tariff, weights)
        self.counter: dict[str, float] = {}
        self._last_left = ""

    def booking(self, request: Request) -> float:
        """Return what is known: the charge of the prompt."""
        return self.tariff.known(request)

    def charge(self, tenant: str, cost: float) -> None:
        """Add `cost` over its weight to the counter of `tenant`."""
        super().charge(tenant, cost)
        self.counter[tenant] = self.counter.get(tenant, 0.0) + cost / self.weight(tenant)

    def joined(self, tenant: str) -> None:
        """Lift the counter of one who comes back."""
        others = [self.counter[other] for other in self.lines if other != tenant]
        level = min(others) if others else self.counter.get(self._last_left, 0.0)
        self.counter[tenant] = max(self.counter.get(tenant, 0.0), level)

    def left(self, tenant: str) -> None:
        """Remember who left last."""
        self._last_left = tenant

    def turn(self) -> str:
        """Return who has the smallest counter; ties go to whoever has waited longest in `lines`."""
        return min(self.lines, key=self.counter.__getitem__)
