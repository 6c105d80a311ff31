"""Little's law by its area: on any set of residence intervals and any observation window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from labcode.checks import number


@dataclass(frozen=True)
class LittleArea:
    """What a window sees of a set of residence intervals.

    Attributes
    ----------
    start, end : float
        The window (s).
    area : float
        Integral of the number present over the window (request-seconds), which is the same as the sum of
        the parts of all intervals inside the window.
    mean_number : float
        area / (end - start).
    arrived, departed, present_at_start, present_at_end, touching : int
        Requests that arrive in [start, end), depart in (start, end], are present at either edge, or
        have any positive time inside.
    unfinished : int
        Requests that arrived in the window and have no departure time.
    rate : float
        arrived / (end - start) (1/s).
    mean_time : float
        Mean *whole* residence (s) of those that arrived in the window, wherever they ended; NaN if there is
        none or if one of them is unfinished.
    carried_in, carried_out : float
        The boundary terms (request-seconds): time inside the window of requests that came before it, and
        time after the window of requests that came in it (NaN if one is unfinished).
    """

    start: float
    end: float
    area: float
    mean_number: float
    arrived: int
    departed: int
    present_at_start: int
    present_at_end: int
    touching: int
    unfinished: int
    rate: float
    mean_time: float
    carried_in: float
    carried_out: float

    @property
    def length(self) -> float:
        """Length of the window (s)."""
        return self.end - self.start

    @property
    def gap(self) -> float:
        """mean_number - rate * mean_time = (carried_in - carried_out) / length: what the edges leave over."""
        return (self.carried_in - self.carried_out) / self.length


def _intervals(arrivals: ArrayLike, departures: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    a, c = np.asarray(arrivals, dtype=float), np.asarray(departures, dtype=float)
    if a.ndim != 1 or a.shape != c.shape:
        raise ValueError(f"arrivals {a.shape} and departures {c.shape}: two flat lists of one length are needed")
    if not np.all(np.isfinite(a)):
        raise ValueError(f"arrivals[{int(np.flatnonzero(~np.isfinite(a))[0])}]: a finite time is needed")
    backwards = np.flatnonzero(c < a)
    if len(backwards):
        i = int(backwards[0])
        raise ValueError(f"departures[{i}] = {c[i]}: lies before arrivals[{i}] = {a[i]}")
    return a, c


def little(arrivals: ArrayLike, departures: ArrayLike, window: tuple[float, float] | None = None) -> LittleArea:
    """Measure Little's quantities of the intervals [arrival, departure) on a window.

    For every finite window, without any assumption,

        area = sum over requests of |[arrival, departure) intersected with window|
        mean_number = rate * mean_time + (carried_in - carried_out) / length

    and Little's law is the statement that the last term vanishes as the window grows (Little 1961; the
    area argument is Stidham 1974's).

    Parameters
    ----------
    arrivals, departures : array_like, shape (n,)
        Seconds, in any order.  NaN as a departure is a request still present at the end of the record.
    window : (start, end), optional
        Default: from the first arrival to the last known time.

    Raises
    ------
    ValueError
        If the lists differ in length, an arrival is not finite, a departure lies before its arrival, or the
        window is empty.
    """
    a, c = _intervals(arrivals, departures)
    if window is None:
        if not len(a):
            raise ValueError("arrivals is empty: a window is needed then")
        window = (float(a.min()), float(np.nanmax(np.concatenate((a, c)))))
    start, end = number("window start", window[0]), number("window end", window[1])
    if not start < end:
        raise ValueError(f"window = ({start}, {end}): the start must lie before the end")
    open_ended = np.where(np.isnan(c), np.inf, c)
    inside = np.maximum(0.0, np.minimum(open_ended, end) - np.maximum(a, start))
    area = float(inside.sum())
    here = (a >= start) & (a < end)
    unfinished = int(np.isnan(c[here]).sum())
    arrived = int(here.sum())
    return LittleArea(
        start=start,
        end=end,
        area=area,
        mean_number=area / (end - start),
        arrived=arrived,
        departed=int(((c > start) & (c <= end)).sum()),
        present_at_start=int(((a < start) & (open_ended > start)).sum()),
        present_at_end=int(((a < end) & (open_ended > end)).sum()),
        touching=int((inside > 0).sum()),
        unfinished=unfinished,
        rate=arrived / (end - start),
        mean_time=float((c[here] - a[here]).mean()) if arrived else float("nan"),
        carried_in=float(inside[a < start].sum()),
        carried_out=float(np.maximum(0.0, c[here] - end).sum()),
    )


def staircase(arrivals: ArrayLike, departures: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Number present over time: `count[k]` holds from `times[k]` to `times[k + 1]`.

    Returns
    -------
    times, count : ndarray
        Distinct event times in order (s), and the number present just after each.
    """
    a, c = _intervals(arrivals, departures)
    events = np.concatenate((a, c[~np.isnan(c)]))
    change = np.concatenate((np.ones(len(a)), -np.ones(len(events) - len(a))))
    times, which = np.unique(events, return_inverse=True)
    return times, np.cumsum(np.bincount(which, weights=change, minlength=len(times))).astype(int)
