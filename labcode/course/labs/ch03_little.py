"""Chapter 3: Little's law as an area, with an observation window that the reader moves."""

from __future__ import annotations

from functools import cache

import numpy as np

from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction
from labcode.labkit.words import counted
from labcode.queueing import little, staircase
from labcode.simulate import simulate
from labcode.workload import chat

HAND = ((0.5, 1.0, 2.5, 3.0, 4.5, 6.0, 6.5, 8.5), (3.5, 2.0, 5.5, 4.0, 7.0, 11.0, 7.5, 9.5))
PATHS = ("drawn by hand", "a run of the simulator")
END = 12.0


@cache
def path(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Arrivals and departures (s), in order of arrival, at most twenty requests within about 12 s."""
    if name == PATHS[0]:
        return np.array(HAND[0]), np.array(HAND[1])
    table = simulate(chat(n=18, rate=1.8, seed=4), max_bs=256, memory="unlimited").requests
    return table.arrival.to_numpy(), table.finished.to_numpy()


def compute(start: float, length: float, source: str) -> Result:
    """Area, mean number and the two boundary terms of the window [start, start + length]."""
    arrivals, departures = path(source)
    end = start + length
    seen = little(arrivals, departures, (start, end))
    times, count = staircase(arrivals, departures)
    inside = np.unique(np.concatenate(([start], times[(times > start) & (times < end)], [end])))
    held = np.append(0, count)[np.searchsorted(times, inside, side="right")]
    held[-1] = held[-2]
    # An area is drawn along straight lines: every step is given by both of its ends.
    edge_x, edge_y = np.repeat(inside, 2)[1:-1], np.repeat(held[:-1], 2)
    stairs = Panel(
        "stairs",
        "Requests present",
        Axis("Time", "s", limits=(0.0, 16.0)),
        Axis("Requests in the system"),
        (
            Series("number present", "step", (0.0, *times), (0, *count), role="baseline"),
            Series("area in the window", "area", tuple(edge_x), tuple(edge_y), role="ours"),
        ),
        marks=(Mark("vline", start, "window opens"), Mark("vline", end, "window closes")),
        text=f"The area is {seen.area:.2f} request-seconds, the mean number {seen.mean_number:.2f}.",
    )
    rows = np.arange(1, len(arrivals) + 1)

    def bars(left: np.ndarray, right: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """One line from left to right in each row, with a gap after it; a row that ends before it begins is a gap."""
        x = np.stack((left, right, right), axis=1)
        y = np.where((right > left)[:, None], np.stack((rows, rows, np.full(len(rows), np.nan)), axis=1), np.nan)
        return tuple(x.ravel()), tuple(y.ravel())

    whole = bars(arrivals, departures)
    cut = bars(np.maximum(arrivals, start), np.minimum(departures, end))
    stays = Panel(
        "stays",
        "Stays, and their part in the window",
        Axis("Time", "s", limits=(0.0, 16.0)),
        Axis("Request"),
        (
            Series("whole stay", "line", *whole, role="muted"),
            Series("inside the window", "line", *cut, role="ours"),
        ),
        marks=(Mark("vline", start, "window opens"), Mark("vline", end, "window closes")),
        text=f"{counted(seen.touching, 'requests')} with time inside; there before: "
        f"{seen.present_at_start}; staying on: "
        f"{seen.present_at_end}.",
    )
    product = seen.rate * seen.mean_time if seen.arrived else 0.0
    names = ("mean number", "rate × time", "+ before", "− after")
    values = (seen.mean_number, product, seen.carried_in / length, -seen.carried_out / length)
    books = Panel(
        "books",
        "Both sides of Little's law",
        Axis("Term"),
        Axis("Requests"),
        (Series("this window", "bar", names, values, role="ours"),),
        marks=(Mark("hline", seen.mean_number, f"mean number {seen.mean_number:.2f}"),),
        text=f"{product:.2f} + {seen.carried_in / length:.2f} - {seen.carried_out / length:.2f} = "
        f"{seen.mean_number:.2f}.",
    )
    return Result(
        (stairs, stays, books),
        f"Window of {length:g} s: mean number {seen.mean_number:.2f}, rate × mean time {product:.2f}; "
        f"the edges account for the {seen.gap:+.2f} between them.",
    )


EXACT = "they agree exactly"
EDGES = "they differ by what was there before and what stays on"
CHANCE = "they differ by chance; nothing accounts for it"


def _right(result: Result) -> str:
    """Return whether the two sides differ, and whether the edges account for all of it."""
    mean, product, before, after = result.panel("books").series[0].y
    if abs(mean - product) < 1e-9:
        return EXACT
    return EDGES if abs(product + before + after - mean) < 1e-9 else CHANCE


LAB = Lab(
    "ch03-little",
    "Little's law is an area",
    (
        Control("start", "Window opens at", (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0), 2.0, "s", "{:g}".format),
        Control("length", "Length of the window", (1.0, 2.0, 3.0, 4.0, 6.0, 8.0), 4.0, "s", "{:g}".format),
        Control("source", "Sample path", PATHS, PATHS[0]),
    ),
    compute,
    predict=Prediction(
        "Mean number = rate × mean time holds in the long run. You watch for four seconds only: what do the two sides "
        "of the law do?",
        (EXACT, EDGES, CHANCE),
        right=_right,
        why=lambda result: f"Rate × time, what was there before, what stays on: {result.panel('books').text}",
    ),
    scaled_by=("length",),
    numbers=("arithmetic", "paper"),
)
