"""Runs as something that moves: requests from the queue into seats and out, under one clock.

A `Flow` is data: for every request of every lane when it came, got its seat, received each token and left.
`flow_picture` draws the state at one time; the page plays it (`book/assets/labs-flow.js`), and so does a kernel.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labcode.labkit.panel import said
from labcode.labkit.watch import Watched, seats_of

if TYPE_CHECKING:
    from labcode.results.run import Run

DIGITS = 4  # Of times in s: the page counts in ten-thousandths.


@dataclass(frozen=True)
class Life:
    """One request of a lane: times in s, lengths in tokens.

    Parameters
    ----------
    arrival, admitted, left : float
        When it came, got its seat, and gave it back (with static batching later than its last token).
    tokens : tuple of float
        When each token came, ascending.
    prompt, held : int
        Prompt tokens, and tokens of KV cache that are taken for it while it is seated; 0: as many as are written.
    seat : int
        Number of its seat, from 0.
    stays : tuple of (float, float, int)
        When it sat in which seat, if it was preempted and came back: start, end (s), seat.  () is one stay, from
        `admitted` to `left` in `seat`.
    chunks : tuple of (float, int)
        When (s) how many of its tokens had been processed, if its prompt was not processed in one step.
    """

    arrival: float
    admitted: float
    left: float
    tokens: tuple[float, ...]
    prompt: int
    held: int
    seat: int
    stays: tuple[tuple[float, float, int], ...] = ()
    chunks: tuple[tuple[float, int], ...] = ()

    def stay(self, t: float) -> tuple[float, int] | None:
        """Return since when (s) and in which seat it sits at time `t` (s), None if it does not."""
        for start, end, seat in self.stays or ((self.admitted, self.left, self.seat),):
            if start <= t < end:
                return start, seat
        return None


@dataclass(frozen=True)
class Lane:
    """One engine: its name, its seats, its pool, and what became of the requests.

    Parameters
    ----------
    name : str
    seats : int
    blocks, block : int
        Blocks in the pool, and tokens in a block.
    lives : tuple of Life
        In order of arrival.
    """

    name: str
    seats: int
    blocks: int
    block: int
    lives: tuple[Life, ...]

    @property
    def end(self) -> float:
        """When the last seat is given back, s."""
        return max(life.left for life in self.lives)


@dataclass(frozen=True)
class Flow:
    """Lanes under one clock, with the same requests.

    Parameters
    ----------
    title : str
    lanes : tuple of Lane
    still : float
        The moment that is shown where nothing can move, s.
    """

    title: str
    lanes: tuple[Lane, ...]
    still: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", said("Flow title", self.title))
        if len({tuple(life.arrival for life in lane.lives) for lane in self.lanes}) != 1:
            raise ValueError(f"Flow {self.title!r}: lanes need the same arrivals, and at least one lane is needed")
        if not 0 <= self.still <= self.end:
            raise ValueError(f"Flow {self.title!r}: still = {self.still!r}: must be from 0 to {self.end}")

    @property
    def end(self) -> float:
        """When everything is over, s."""
        return max(lane.end for lane in self.lanes)

    def events(self) -> tuple[float, ...]:
        """Return every time at which something changes, ascending, s."""
        lives = [life for lane in self.lanes for life in lane.lives]
        moments = {t for v in lives for t in (v.arrival, v.admitted, v.left, *v.tokens)}
        moments |= {t for v in lives for start, end, _ in v.stays for t in (start, end)}
        return tuple(sorted(moments | {t for v in lives for t, _ in v.chunks}))

    def in_words(self, t: float) -> str:
        """Return the state at time `t` (s) as a sentence for each lane."""
        return " ".join(sentence(lane, t) for lane in self.lanes)


def _rounded(t: float) -> float:
    return round(float(t), DIGITS)


def lane_of(
    run: Run,
    name: str,
    seats: int,
    block: int,
    held: Callable[[int, int], int] | None = None,
    whole: bool = False,
    watched: Watched | None = None,
) -> Lane:
    """Return a run as a lane.

    Parameters
    ----------
    run : Run
        All requests finished.
    name : str
    seats, block : int
    held : callable, optional
        ``held(prompt, output)``, the tokens that the run's memory policy reserves; without it
        pages, as they are filled.
    whole : bool
        Whether seats are given back only when a whole batch is done, as static batching does.
    watched : Watched, optional
        The run's executor, which knows of preemptions and chunks.

    Raises
    ------
    ValueError
        If a request did not finish, or more are seated than there are seats.
    """
    table, load = run.requests, run.load
    if not (table["outcome"] == "finished").all():
        raise ValueError("run: every request must have finished")
    arrival, admitted, finished = (table[name].to_numpy() for name in ("arrival", "admitted", "finished"))
    left = [
        float(finished[admitted == at].max()) if whole else float(end)
        for at, end in zip(admitted, finished, strict=True)
    ]
    if watched is None:
        stays = [(float(admitted[i]), left[i], i) for i in range(len(load))]
    else:
        stays = [(start, end, i) for i, several in sorted(watched.closed(run.record).items()) for start, end in several]
    places: dict[int, list[tuple[float, float, int]]] = {}
    for (start, end, i), seat in zip(stays, seats_of(stays, seats), strict=True):
        places.setdefault(i, []).append((_rounded(start), _rounded(end), seat))
    steps = {} if watched is None else watched.chunks
    lives = tuple(
        Life(
            _rounded(arrival[i]),
            _rounded(admitted[i]),
            _rounded(left[i]),
            tuple(_rounded(t) for t in run.token_times(i)),
            int(load.prompt[i]),
            0 if held is None else held(int(load.prompt[i]), int(load.output[i])),
            places[i][-1][2],
            tuple(places[i]) if len(places[i]) > 1 else (),
            tuple((_rounded(t), tokens) for t, tokens in steps[i]) if len(steps.get(i, ())) > 1 else (),
        )
        for i in range(len(load))
    )
    return Lane(name, seats, run.record.capacity // block, block, lives)


# What a lane shows at a time ---------------------------------------------------------------------------------------


def counts(lane: Lane, t: float) -> tuple[int, int, int, int]:
    """Return how many requests wait, run, sit finished in their seats, and are gone at time `t` (s)."""
    seated = [life for life in lane.lives if life.stay(t)]
    waiting = sum(life.arrival <= t < life.left for life in lane.lives) - len(seated)
    gone = sum(life.left <= t for life in lane.lives)
    idle = sum(life.tokens[-1] <= t for life in seated)
    return waiting, len(seated) - idle, idle, gone


def sentence(lane: Lane, t: float) -> str:
    """Return in words what stands in a lane at time `t` (s): who waits, runs and has gone, and the tokens so far."""
    waiting, running, idle, gone = counts(lane, t)
    tokens = sum(bisect_right(life.tokens, t) for life in lane.lives)
    still = f", {idle} finished and still seated" if idle else ""
    return (
        f"{lane.name}: {waiting} waiting, {running} running{still}, {gone} of {len(lane.lives)} gone, {tokens} tokens."
    )


def compact(flow: Flow) -> dict[str, Any]:
    """Return a flow as the page reads it: whole ten-thousandths of a second, a token as the number of its step."""

    def ticks(t: float) -> int:
        return round(t * 10**DIGITS)

    lanes = []
    for lane in flow.lanes:
        steps = sorted({ticks(t) for life in lane.lives for t in life.tokens})
        number = {step: i for i, step in enumerate(steps)}
        lives = []
        for life in lane.lives:
            runs: list[int] = []  # First step and how many in a row, again and again.
            for i in (number[ticks(t)] for t in life.tokens):
                if runs and i == runs[-2] + runs[-1]:
                    runs[-1] += 1
                else:
                    runs += [i, 1]
            whole = (ticks(life.arrival), ticks(life.admitted), ticks(life.left))
            more = [
                [[ticks(start), ticks(end), seat] for start, end, seat in life.stays],
                [[ticks(t), tokens] for t, tokens in life.chunks],
            ]
            lives.append([*whole, life.prompt, life.held, life.seat, runs, *(more if any(more) else [])])
        gaps = [b - a for a, b in itertools.pairwise([0, *steps])]
        lanes.append(
            {"name": lane.name, "seats": lane.seats, "blocks": lane.blocks, "block": lane.block, "steps": gaps,
             "lives": lives}
        )  # fmt: skip
    return {"title": flow.title, "still": ticks(flow.still), "lanes": lanes}


def most_tokens(lanes: Sequence[Lane]) -> int:
    """Return the most tokens of any request."""
    return max(len(life.tokens) for lane in lanes for life in lane.lives)
