"""A request, and a workload: many requests as sorted arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from labcode.checks import integer, number, positive
from labcode.workload.clock import check_resolution, origin_of

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Request:
    """One request as the server sees it, plus the output length that only an oracle knows.

    Parameters
    ----------
    id : int
        Row of the request in its workload, from 0.
    arrival : float
        Time of submission, s.
    prompt, output : int
        Tokens in, and tokens that will be generated if nobody stops it.
    max_tokens : int or None
        Cap on the output that the client declared, tokens; None: the server's own cap holds.
    tenant : str
        Who sent it; "" where nobody asks.
    deadline : float or None
        Absolute time after which the answer is worth nothing, s, on the clock of `arrival`.
    """

    id: int
    arrival: float
    prompt: int
    output: int
    max_tokens: int | None = None
    tenant: str = ""
    deadline: float | None = None

    def __post_init__(self) -> None:
        integer("id", self.id, at_least=0)
        if number("arrival", self.arrival) < 0:
            raise ValueError(f"arrival = {self.arrival!r}: must be at least 0")
        integer("prompt", self.prompt)
        integer("output", self.output)
        if self.max_tokens is not None:
            integer("max_tokens", self.max_tokens)
        if self.deadline is not None:
            number("deadline", self.deadline)


@dataclass(frozen=True, eq=False)
class Workload:
    """Requests in order of arrival, held as arrays of length n (read-only).

    Times that begin far from 0 (epoch times do) are kept relative to `origin`, deadlines alike, so that the same
    requests give the same numbers wherever their clock starts.

    Attributes
    ----------
    arrival : float64, shape (n,)
        Times of submission, s after `origin`; never decreasing.
    prompt, output : int64, shape (n,)
        Tokens in and tokens out; at least 1.
    max_tokens : int64, shape (n,), or None
        Declared caps on the output, tokens.
    tenant : str, shape (n,), or None
    deadline : float64, shape (n,), or None
        Absolute deadlines, s after `origin`; NaN where a request has none.
    cancel_at : float64, shape (n,), or None
        When each client goes away, s after `origin`; NaN for those who stay.
    prefix : object, shape (n,), or None
        For each request a tuple of whole numbers: hashes of its prompt's blocks of equal size, each over all tokens up
        to the block's end.  Prompts that begin alike begin with the same hashes.
    name : str
        Shown in tables and panels.
    nominal_rate : float or None
        Rate that the arrivals were drawn for, requests/s; None if the arrivals are simply given.
    unit_arrival : float64, shape (n,), or None
        The same arrivals at one request per second, from which `at_rate` starts, so that no rounding piles
        up.
    origin : float
        Where the clock of `arrival` and `deadline` starts, s on the clock of the times that were given: the first
        arrival's whole second if that is 1e6 s or later, and 0 otherwise.

    Raises
    ------
    ValueError
        If an array has another length, or a row holds a value that no request can have (the row is named, from 0);
        if arrivals are so far from 0 that microseconds are lost.
    """

    arrival: FloatArray
    prompt: IntArray
    output: IntArray
    max_tokens: IntArray | None = None
    tenant: NDArray[np.str_] | None = None
    deadline: FloatArray | None = None
    name: str = "workload"
    nominal_rate: float | None = None
    unit_arrival: FloatArray | None = field(default=None, repr=False)
    origin: float = 0.0
    cancel_at: FloatArray | None = None
    prefix: NDArray[np.object_] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        arrival = float_column("arrival", self.arrival)
        n = len(arrival)
        if n == 0:
            raise ValueError("arrival = []: a workload needs at least one request")
        refuse_rows("arrival", arrival, ~np.isfinite(arrival), "a finite time in seconds is needed")
        refuse_rows("arrival", arrival, arrival < 0, "must be at least 0")
        later = np.append(False, np.diff(arrival) < 0)
        refuse_rows("arrival", arrival, later, "arrivals must not go back in time; sort the rows")
        check_resolution("arrival", float(arrival[-1]))
        # Arrivals drawn for a rate begin where that rate has them.
        shift = origin_of(float(arrival[0])) if self.unit_arrival is None else 0.0
        columns: dict[str, np.ndarray | None] = {"arrival": arrival - shift}
        object.__setattr__(self, "origin", number("origin", self.origin) + shift)
        for key in ("prompt", "output", "max_tokens"):
            value = getattr(self, key)
            columns[key] = None if value is None and key == "max_tokens" else token_column(key, value)
        for key in ("deadline", "cancel_at"):
            if getattr(self, key) is not None:
                time = columns[key] = float_column(key, getattr(self, key))
                refuse_rows(key, time, np.isinf(time), "a time in seconds, or NaN for none")
                time -= shift
        if self.tenant is not None:
            columns["tenant"] = np.array(self.tenant, dtype=np.str_)
        if self.prefix is not None:
            columns["prefix"] = prefix_column(self.prefix)
        if self.unit_arrival is not None:
            columns["unit_arrival"] = float_column("unit_arrival", self.unit_arrival)
        if self.nominal_rate is not None:
            positive("nominal_rate", self.nominal_rate)
        for key, column in columns.items():
            if column is not None and column.shape != (n,):
                raise ValueError(f"{key}: {column.size} values in shape {column.shape} for {n} arrivals")
            if column is not None:
                column.flags.writeable = False
            object.__setattr__(self, key, column)

    def __len__(self) -> int:
        return len(self.arrival)

    def __repr__(self) -> str:
        return f"Workload({self.name!r}, n={len(self)}, rate={self.rate:.4g}/s)"

    @property
    def rate(self) -> float:
        """Mean arrival rate, requests/s.

        The rate that was asked for, where the arrivals were drawn for one; otherwise the rate of the given
        arrivals, (n - 1)/(last - first). NaN for a single request, infinite if all arrive at once.
        """
        if self.nominal_rate is not None:
            return self.nominal_rate
        gaps, length = len(self) - 1, float(self.arrival[-1] - self.arrival[0])
        if gaps == 0:
            return float("nan")
        return gaps / length if length > 0 else float("inf")

    def at_rate(self, rate: float) -> Workload:
        """Return the same requests, in the same order, arriving at another mean rate.

        Every arrival time is multiplied by old rate/new rate and nothing else changes: lengths, order and the
        pattern of the gaps stay (common random numbers), and a deadline stays as far behind its arrival as
        it was.

        Parameters
        ----------
        rate : float
            New mean rate, requests/s, above 0.

        Raises
        ------
        ValueError
            If `rate` is not a positive finite number, or the workload has no rate to start from.
        """
        rate = positive("rate", rate)
        unit = self.unit_arrival
        if unit is None:
            if not np.isfinite(self.rate):
                raise ValueError(f"rate = {rate!r}: cannot rescale {self.name!r}, whose own rate is {self.rate}")
            unit = self.arrival * self.rate
        arrival = stretched(unit, rate)
        later = {
            key: arrival + (time - self.arrival)
            for key in ("deadline", "cancel_at")
            if (time := getattr(self, key)) is not None
        }
        return replace(self, arrival=arrival, nominal_rate=rate, unit_arrival=unit, **later)

    def head(self, n: int) -> Workload:
        """Return the first `n` requests (all of them if there are fewer), n >= 1."""
        n = integer("n", n)
        lengths = ("prompt", "output", "max_tokens", "prefix")
        names = ("arrival", "unit_arrival", "tenant", "deadline", "cancel_at", *lengths)
        columns = {name: getattr(self, name) for name in names}
        return replace(self, **{name: column[:n] for name, column in columns.items() if column is not None})

    def take(self, rows: ArrayLike) -> Workload:
        """Return the requests `rows` (ascending) at their own times; the rate is theirs, not that of all.

        Parameters
        ----------
        rows : int array, shape (k,), or mask, shape (n,)
        """
        chosen = np.asarray(rows)
        names = ("arrival", "prompt", "output", "max_tokens", "tenant", "deadline", "cancel_at", "prefix")
        columns = {name: getattr(self, name) for name in names}
        taken = {name: column[chosen] for name, column in columns.items() if column is not None}
        return replace(self, **taken, nominal_rate=None, unit_arrival=None)

    def requests(self) -> list[Request]:
        """Return the requests one by one, ids 0 ... n-1."""
        return list(self)

    def __iter__(self) -> Iterator[Request]:
        for i in range(len(self)):
            cap = None if self.max_tokens is None else int(self.max_tokens[i])
            deadline = None if self.deadline is None or np.isnan(self.deadline[i]) else float(self.deadline[i])
            yield Request(
                i,
                float(self.arrival[i]),
                int(self.prompt[i]),
                int(self.output[i]),
                cap,
                "" if self.tenant is None else str(self.tenant[i]),
                deadline,
            )

    def to_frame(self) -> pd.DataFrame:
        """Return a table, a row a request: arrival (s after `origin`), prompt, output (tokens), what else is set.

        Prefix hashes, of which a prompt has many, are left out.
        """
        columns = {
            key: getattr(self, key)
            for key in ("arrival", "prompt", "output", "max_tokens", "tenant", "deadline", "cancel_at")
        }
        frame = pd.DataFrame({key: column for key, column in columns.items() if column is not None})
        return frame.rename_axis("id")


def stretched(unit: FloatArray, rate: float) -> FloatArray:
    """Return unit-rate arrival times at `rate` requests/s; raise a `ValueError` if they overflow or lose latencies."""
    with np.errstate(over="ignore"):
        arrival = unit / rate
    if not np.isfinite(arrival[-1]):
        raise ValueError(f"rate = {rate!r}: too small, arrival times overflow")
    check_resolution(f"rate = {rate!r}: too small, the last arrival", float(arrival[-1]))
    return arrival


def refuse_rows(name: str, values: np.ndarray, bad: NDArray[np.bool_], allowed: str) -> None:
    """Raise a `ValueError` that names the first row marked in `bad`, if there is one."""
    rows = np.flatnonzero(bad)
    if len(rows):
        row = int(rows[0])
        raise ValueError(f"{name} = {values[row]!s} in row {row} (rows count from 0): {allowed}")


def float_column(name: str, values: ArrayLike) -> FloatArray:
    """Return a fresh one-dimensional float64 copy of `values`."""
    try:
        column = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: numbers are needed ({error})") from None
    if column.ndim != 1:
        raise ValueError(f"{name}: one value a request is needed, not an array of shape {column.shape}")
    return column


def token_column(name: str, values: ArrayLike) -> IntArray:
    """Return a fresh one-dimensional int64 copy of `values`, each a whole number of tokens of at least 1."""
    given = np.asarray(values)
    if given.dtype.kind in "iu" and given.ndim == 1:
        refuse_rows(name, given, given < 1, "must be at least 1")
        return given.astype(np.int64)
    column = float_column(name, values)
    refuse_rows(name, column, ~(np.isfinite(column) & (column == np.floor(column))), "a whole number is needed")
    refuse_rows(name, column, (column < 1) | (column > 2**53), "must be at least 1 (and at most 2^53)")
    return column.astype(np.int64)


def prefix_column(values: Iterable[Iterable[int]]) -> NDArray[np.object_]:
    """Return a fresh object array that holds a tuple of ints for each request."""
    rows: list[tuple[int, ...]] = []
    for i, row in enumerate(values):
        try:
            rows.append(tuple(integer("hash", value, at_least=0) for value in row))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"prefix in row {i} (rows count from 0): a sequence of whole numbers of at least 0 is needed ({error})"
            ) from None
    column = np.empty(len(rows), dtype=object)
    for i, hashes in enumerate(rows):
        column[i] = hashes
    return column
