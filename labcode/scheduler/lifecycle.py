"""Cancellation without resurrection: requests, shared pages and events that may come in any order.

Several parties touch the same records: a client cancels, a device reports that a step is done, the scheduler preempts,
a transfer brings a cache back.  Each party takes its steps in its own order; between any two of them any other party
may take one.  This is a model of that, small enough to go through *all* interleavings (`explore`).  The rules:

* a state is changed by *compare and set*: only if it still is what the party believes;
* a reference is given back under the key (request, stay, page), once; whoever comes second reads the record;
* a page is reclaimed when nobody refers to it *and* no device operation on it is in flight (its fence is confirmed);
* a page that is handed out again has a new *generation*; an event that names an old one changes nothing.

Each rule can be switched off (`Rules`), and `explore` then finds the shortest way in which things go wrong.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

RUNNING, SWAPPED, LOADING, FINISHED, CANCELLED = "running", "swapped out", "loading", "finished", "cancelled"
ENDS = frozenset({FINISHED, CANCELLED})


@dataclass(frozen=True)
class Rules:
    """Which of the rules hold."""

    compare: bool = True
    keyed: bool = True
    stays: bool = True
    fences: bool = True
    generations: bool = True


@dataclass(frozen=True)
class Page:
    """One page of KV cache.

    Attributes
    ----------
    references : int
        What the counter says.
    generation : int
        How often the page was handed out.
    fenced : bool
        Whether the record says that a device operation is in flight.
    free : bool
        Whether it lies in the free list.
    holders : frozenset of (request, stay)
        Who really refers to it: the truth that the counter should match.
    touching : frozenset of str
        Which device operations really are in flight.
    """

    references: int
    generation: int = 1
    fenced: bool = True
    free: bool = False
    holders: frozenset[tuple[str, int]] = frozenset()
    touching: frozenset[str] = frozenset()


@dataclass(frozen=True)
class World:
    """Everything that the parties share, and how far each of them is."""

    states: tuple[tuple[str, str, int], ...]  # request, state, stay (how often it was let in)
    pages: tuple[Page, ...]
    released: frozenset[tuple[str, int, int]] = frozenset()  # (request, stay, page): the record of releases
    queue: tuple[str, ...] = ()
    progress: tuple[int, ...] = ()
    memory: tuple[int, ...] = ()  # what each party remembers: the stay that it ended, 0 for none
    note: str = field(default="", compare=False)  # what the last step did, in words

    def state(self, request: str) -> str:
        """Return the state of `request`."""
        return next(state for name, state, _ in self.states if name == request)

    def stay(self, request: str) -> int:
        """Return how often `request` was let in."""
        return next(stay for name, _, stay in self.states if name == request)

    def to(self, request: str, state: str, stay: int | None = None) -> World:
        """Return the world with another state of `request`."""
        rows = tuple((n, state, s if stay is None else stay) if n == request else (n, o, s) for n, o, s in self.states)
        return replace(self, states=rows)

    def with_page(self, number: int, **changes: Any) -> World:
        """Return the world with a page changed; it goes to the free list if nothing holds it any longer."""
        page = replace(self.pages[number], **changes)
        if page.references <= 0 and not page.fenced:
            page = replace(page, free=True)
        return replace(self, pages=(*self.pages[:number], page, *self.pages[number + 1 :]))


#: A step: (world, rules, what the party remembers) -> (world, what it remembers), or None if it cannot be taken yet.
Step = Callable[[World, Rules, int], tuple[World, int] | None]


@dataclass(frozen=True)
class Party:
    """Somebody who takes steps in a fixed order, between which others may come."""

    name: str
    steps: tuple[Step, ...]


def ends(request: str, to: str, believed: frozenset[str], stay: int | None = None) -> Step:
    """Return the step that brings `request` to its end by compare and set, for an event about one stay if given."""

    def step(world: World, rules: Rules, _: int) -> tuple[World, int]:
        state, now = world.state(request), world.stay(request)
        if rules.compare and (state not in believed or (rules.stays and stay not in (None, now))):
            return replace(world, note=f"{request} is {state} (stay {now}): rejected"), 0
        return replace(world.to(request, to), note=f"{request}: {state} → {to}"), now

    return step


def gives_back(request: str, number: int) -> Step:
    """Return the step that gives one reference back, if this party ended or interrupted the stay."""

    def step(world: World, rules: Rules, stay: int) -> tuple[World, int]:
        if not stay:
            return replace(world, note="nothing to do: the record says who gives back"), stay
        page, key = world.pages[number], (request, stay if rules.stays else 1, number)
        if rules.keyed and key in world.released:
            return replace(world, note=f"({request}, stay {stay}, page {number}) is given back already"), stay
        world = replace(world, released=world.released | {key}, note=f"{request}: page {number} given back")
        holders = page.holders - {(request, stay)}
        return world.with_page(number, references=page.references - 1, holders=holders), stay

    return step


def cancels(request: str, pages: range) -> Party:
    """Return a client that goes away; it gives back whatever the request may hold, under its keys."""
    return Party(f"cancel {request}", (_cancel(request), *(gives_back(request, p) for p in pages)))


def _cancel(request: str) -> Step:
    def step(world: World, rules: Rules, _: int) -> tuple[World, int]:
        state, stay = world.state(request), world.stay(request)
        if rules.compare and state in ENDS:
            return replace(world, note=f"{request} is {state}: read the record, change nothing"), 0
        return replace(world.to(request, CANCELLED), note=f"{request}: {state} → cancelled"), stay

    return step


def swaps_out(request: str, pages: range) -> Party:
    """Return the scheduler that preempts: the state, the references, the queue."""

    def interrupt(world: World, rules: Rules, _: int) -> tuple[World, int]:
        state = world.state(request)
        if rules.compare and state != RUNNING:
            return replace(world, note=f"{request} is {state}: not preempted"), 0
        return replace(world.to(request, SWAPPED), note=f"{request}: {state} → swapped out"), world.stay(request)

    def enqueue(world: World, rules: Rules, stay: int) -> tuple[World, int]:
        if not stay or (rules.compare and world.state(request) != SWAPPED):
            return replace(world, note=f"{request} is {world.state(request)}: not queued again"), stay
        return replace(world, queue=(*world.queue, request), note=f"{request} waits in the queue"), stay

    return Party(f"preempt {request}", (interrupt, *(gives_back(request, p) for p in pages), enqueue))


def swaps_in(request: str, pages: range) -> Party:
    """Return the scheduler that lets a request in again: state and pages in one step, then the transfer's end."""

    def admit(world: World, rules: Rules, _: int) -> tuple[World, int] | None:
        if request not in world.queue:
            return None
        state, stay = world.state(request), world.stay(request) + 1
        rest = tuple(name for name in world.queue if name != request)
        if rules.compare and state != SWAPPED:
            return replace(world, queue=rest, note=f"{request} is {state}: dropped from the queue"), 0
        world = replace(world.to(request, LOADING, stay), queue=rest, note=f"{request}: {state} → loading, stay {stay}")
        for number in pages:
            page = world.pages[number]
            new: dict[str, Any] = {"free": False, "references": page.references + 1}
            holders = page.holders | {(request, stay)}
            if page.free:  # its content is gone: a new generation, filled by a transfer
                new |= {"generation": page.generation + 1, "fenced": rules.fences, "references": 1}
                new |= {"touching": page.touching | {f"load {stay}"}}
            world = replace(
                world,
                pages=tuple(
                    replace(p, holders=holders, **new) if i == number else p for i, p in enumerate(world.pages)
                ),
            )
        return world, stay

    def loaded(world: World, rules: Rules, stay: int) -> tuple[World, int]:
        if not stay:
            return replace(world, note="no transfer was begun"), stay
        note = "the transfer is done: fences confirmed"
        for number in pages:
            page = world.pages[number]
            if f"load {stay}" in page.touching:
                world = world.with_page(number, fenced=False, touching=page.touching - {f"load {stay}"})
        if rules.compare and (world.state(request), world.stay(request)) != (LOADING, stay):
            return replace(world, note=f"{note}; {request} is {world.state(request)}: it does not run"), stay
        return replace(world.to(request, RUNNING), note=f"{note}; {request} runs again"), stay

    return Party(f"swap in {request}", (admit, loaded))


def reports(name: str, pages: range, generation: int = 1) -> Step:
    """Return the device's word that step 1 has done with the pages, as they were in `generation`."""

    def step(world: World, rules: Rules, memory: int) -> tuple[World, int]:
        seen = []
        for number in pages:
            page = world.pages[number]
            touching = page.touching - {name}
            if rules.generations and page.generation != generation:
                world = replace(world, pages=(*world.pages[:number], replace(page, touching=touching),
                                              *world.pages[number + 1 :]))  # fmt: skip
                seen.append(f"page {number} is of generation {page.generation} now")
            else:
                world = world.with_page(number, fenced=False, touching=touching)
                seen.append(f"fence of page {number} confirmed")
        return replace(world, note=f"{name}, generation {generation}: {', '.join(seen)}"), memory

    return step


def two_requests(rules: Rules = Rules(), pages: int = 2) -> tuple[World, tuple[Party, ...]]:
    """Return two requests that share `pages` pages, in the middle of step 1, and all that may happen to them.

    r0 is cancelled twice, preempted by swapping and let in again, and the report of step 1, which says that r0 has its
    last token, is late and comes twice; r1 finishes.
    """
    shared = range(pages)
    both = frozenset({("r0", 1), ("r1", 1)})
    page = Page(2, fenced=rules.fences, holders=both, touching=frozenset({"step 1"}))
    finish = ends("r0", FINISHED, frozenset({RUNNING}), stay=1)
    late = (reports("step 1", shared), finish, *(gives_back("r0", p) for p in shared))
    parties = (
        cancels("r0", shared),
        replace(cancels("r0", shared), name="cancel r0 again"),
        Party("finish r1", (ends("r1", FINISHED, frozenset({RUNNING})), *(gives_back("r1", p) for p in shared))),
        swaps_out("r0", shared),
        swaps_in("r0", shared),
        Party("late completion", late),
        Party("completion again", (reports("step 1", shared),)),
    )
    start = World((("r0", RUNNING, 1), ("r1", RUNNING, 1)), (page,) * pages)
    return replace(start, progress=(0,) * len(parties), memory=(0,) * len(parties)), parties


def moves(world: World, parties: tuple[Party, ...], rules: Rules) -> Iterator[tuple[int, World]]:
    """Yield what may happen next: which party, and the world after its step."""
    for k, party in enumerate(parties):
        done = world.progress[k]
        if done == len(party.steps):
            continue
        result = party.steps[done](world, rules, world.memory[k])
        if result is not None:
            after, remembered = result
            progress = (*world.progress[:k], done + 1, *world.progress[k + 1 :])
            memory = (*world.memory[:k], remembered, *world.memory[k + 1 :])
            yield k, replace(after, progress=progress, memory=memory)


def wrong(before: World, after: World) -> str:
    """Return what is wrong with a step, or nothing: the invariants."""
    for (name, old, _), (_, new, _) in zip(before.states, after.states, strict=True):
        if old in ENDS and new != old:
            return f"{name} was {old} and is {new}: a request that had ended came back"
    for number, page in enumerate(after.pages):
        if page.references != len(page.holders):
            return f"page {number}: the counter says {page.references}, {len(page.holders)} hold it"
        if page.free and page.holders:
            return f"page {number} is free while {len(page.holders)} hold it"
        if page.free and page.touching:
            return f"page {number} is free while the device works on it ({', '.join(sorted(page.touching))})"
    return ""


def leaks(world: World) -> str:
    """Return what is left over when nobody can take a step, or nothing."""
    if any(state not in ENDS for _, state, _ in world.states):
        return "somebody has not ended"
    kept = [str(number) for number, page in enumerate(world.pages) if not page.free]
    return f"everybody has ended, and page {' and '.join(kept)} is not free: a leak" if kept else ""


@dataclass(frozen=True)
class Explored:
    """What all interleavings came to.

    Attributes
    ----------
    worlds : int
        Different situations that were seen.
    interleavings : int
        Different orders of all steps (0 if something went wrong: the search stops there).
    failure : str
        What went wrong first, "" if nothing.
    trace : tuple of (str, World)
        The shortest way to it: whose step, and the world after it.
    """

    worlds: int
    interleavings: int
    failure: str = ""
    trace: tuple[tuple[str, World], ...] = ()


@cache
def explore(rules: Rules = Rules(), pages: int = 2) -> Explored:
    """Go through all interleavings of `two_requests`, breadth first, so that the first failure is a shortest one."""
    start, parties = two_requests(rules, pages)
    came: dict[World, tuple[World, int] | None] = {start: None}
    ways = {start: 1}  # in how many orders a situation can be reached
    finished, queue = 0, deque([start])
    while queue:
        world = queue.popleft()
        stuck = True
        for k, after in moves(world, parties, rules):
            stuck = False
            fault = wrong(world, after)
            if after not in came:
                came[after] = (world, k)
                ways[after] = 0
                queue.append(after)
            ways[after] += ways[world]
            if fault:
                return Explored(len(came), 0, fault, _trace(after, world, k, came, parties))
        if stuck:
            fault = leaks(world)
            if fault:
                before = came[world]
                assert before is not None
                return Explored(len(came), 0, fault, _trace(world, *before, came, parties))
            finished += ways[world]
    return Explored(len(came), finished)


def _trace(
    last: World, before: World, party: int, came: dict[World, tuple[World, int] | None], parties: tuple[Party, ...]
) -> tuple[tuple[str, World], ...]:
    path = [(parties[party].name, last)]
    step = came[before]
    while step is not None:
        path.append((parties[step[1]].name, before))
        before = step[0]
        step = came[before]
    return tuple(reversed(path))


def follow(names: tuple[str, ...], rules: Rules = Rules(), pages: int = 2) -> list[tuple[str, World, str]]:
    """Let parties take their steps in the given order; return each step's party, world after it, and what is wrong.

    A party that cannot take its step yet is passed over; what remains of the others follows in their own order.
    """
    world, parties = two_requests(rules, pages)
    log: list[tuple[str, World, str]] = []
    for name in (*names, *(party.name for party in parties for _ in party.steps)):
        for k, after in moves(world, parties, rules):
            if parties[k].name == name:
                log.append((name, after, wrong(world, after)))
                world = after
                break
    return log
