"""Lab of chapter 11: a client that reads more slowly than the engine writes."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from labcode.course.evidence.clients import EVENT, KIB, slow_clients
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.simulation.buffers import fill_time
from labcode.simulation.streams import Backpressure, StreamRun

WRITTEN = 12 * KIB
ACTIONS = ("no limit", "pause", "pause, 5 s at most", "cancel")
POINTS = 80


@lru_cache(maxsize=128)
def served(read: float, capacity: int, action: str, slow: int) -> StreamRun:
    """Serve ten clients, of whom `slow` read at `read` KiB/s, with buffers of `capacity` KiB."""
    patience = 5.0 if action == "pause, 5 s at most" else float("inf")
    name = {"no limit": "buffer", "cancel": "cancel"}.get(action, "pause")
    return slow_clients(Backpressure(name, capacity * KIB, EVENT, 0.5, patience), read * KIB, slow).run_


def held(run: StreamRun, slow: int, times: np.ndarray) -> tuple[float, ...]:
    """Return the KiB in a slow client's buffer at `times` (s); those of the others are empty."""
    stamps, levels = np.array(run.buffered).T
    return tuple((np.interp(times, stamps, levels, right=0.0) / KIB / slow).tolist())


def waits(run: StreamRun, slow: int) -> tuple[float, ...]:
    """Return when each of the clients that keep up had its whole answer, s."""
    return tuple(stream.ended for stream in run.streams[slow:])


def compute(read: float, capacity: int, action: str, slow: int) -> Result:
    """Serve ten equal requests in four places."""
    run, free = served(read, capacity, action, slow), served(12, capacity, "pause", slow)
    full = fill_time(WRITTEN, read * KIB, capacity * KIB)
    first = run.streams[0]
    times = np.linspace(0, 40, POINTS)
    fluid = tuple(np.minimum(times * (WRITTEN / KIB - read), capacity if action != "no limit" else np.inf).tolist())
    marks = [Mark("hline", capacity, f"{capacity} KiB")] + ([Mark("vline", full, "fluid: full")] if full < 40 else [])
    level = Panel(
        "level",
        "Bytes waiting for one slow client",
        Axis("Time", "s", limits=(0, 40)),
        Axis("In its buffer", "KiB"),
        (
            Series("simulated", "line", tuple(times.tolist()), held(run, slow, times)),
            Series("fluid, filling only", "line", tuple(times.tolist()), fluid, role="baseline"),
        ),
        tuple(marks),
        f"At {read:g} KiB/s it is full after {full:.3g} s as a fluid; the most there ever was is "
        f"{first.buffer.peak / KIB:.0f} KiB.",
    )
    clients = tuple(range(1, len(run.streams) - slow + 1))
    mine, theirs = waits(run, slow), waits(free, slow)
    later = float(np.mean(mine) - np.mean(theirs))
    others = Panel(
        "others",
        "When the others have their answers",
        Axis("Client that keeps up, in order"),
        Axis("Whole answer after", "s", limits=(0, 160)),
        (
            Series("with slow clients", "line", clients, mine),
            Series("pinned: everybody keeps up", "line", clients, theirs, role="baseline"),
        ),
        (),
        f"On average {abs(later):.1f} s {'later' if later >= 0 else 'earlier'} than if everybody kept up.",
    )
    ends = {stream.outcome for stream in run.streams[:slow]}
    return Result(
        (level, others),
        f"The slow client's stream is {' or '.join(sorted(ends))} after {first.ended:.0f} s, with event "
        f"{first.acknowledged} of {first.events} acknowledged and {first.paused:.0f} s of pauses; the others have "
        f"their answers after {np.mean(mine):.0f} s on average.",
    )


LAB = Lab(
    "ch11-buffer",
    "A slow client and its buffer",
    (
        Control("read", "The slow client reads", (0, 2, 4, 8, 12), 8, "KiB/s"),
        Control("capacity", "Buffer", (16, 64), 64, "KiB"),
        Control("action", "When it is full", ACTIONS, "pause"),
        Control("slow", "Slow clients of ten", (1, 3), 1),
    ),
    compute,
    predict=Prediction(
        "Three of ten clients read at 2 KiB/s, their answers are written at 12 KiB/s, and a full buffer pauses its "
        "request, which keeps its place, one of four. How much later, on average, do the seven others have their "
        "answers?",
        ("hardly: the pause costs the engine nothing", "some seconds", "half a minute or more"),
        right=lambda result: graded(
            float(
                np.mean(result.panel("others").curve("with slow clients").y)
                - np.mean(result.panel("others").curve("pinned: everybody keeps up").y)
            ),
            (2.0, "hardly: the pause costs the engine nothing"),
            (20.0, "some seconds"),
            beyond="half a minute or more",
        ),
        why=lambda result: (
            f"{result.panel('others').text} A pause frees the processor and not the place: the others share "
            "what is left."
        ),
        reveal={"read": 2, "slow": 3, "capacity": 64, "action": "pause"},
    ),
    numbers=("arithmetic",),
)
