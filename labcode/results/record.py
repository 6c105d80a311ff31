"""What a run leaves behind: one flat row a request, one a segment, and where each token's time is found.

A *segment* is a step with prefill, or the longest run of decode steps of the same sequences without a pause.  It does
not depend on how the steps were taken (one by one, many at once, compiled).  Token times are not stored.  Decode
steps are numbered through the run; a *span* says that a request got one token at the end of a prefill and
`count` more at the decode steps `first`, `first + 1`, ...  A request has one span, and one more for every
time that it was preempted and came back, or left out of a decode step.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from labcode.results.outcomes import FINISHED, REFUSED, UNFINISHED

SEGMENT_COLUMNS = (
    ("start", np.float64),  # s
    ("end", np.float64),  # s
    ("steps", np.int64),  # steps in the segment; more than 1 only without prefill
    ("n_prefill", np.int32),  # sequences that process prompt tokens
    ("prefill_tokens", np.int64),  # how many prompt tokens, all together
    ("n_decode", np.int32),  # sequences that get a token in each step
    ("n_idle", np.int32),  # finished sequences that keep their seat and are computed all the same
    ("decode_kv", np.int64),  # positions which the first step's decodes (idle ones too) read and write
    ("kv_used", np.int64),  # tokens written to the cache at the end
    ("kv_reserved", np.int64),  # tokens taken in the pool at the end
    ("waiting", np.int32),  # requests that have arrived and hold no seat, at the start
)

NAMES = [name for name, _ in SEGMENT_COLUMNS]
START, END, STEPS = (NAMES.index(name) for name in ("start", "end", "steps"))

#: Columns that say how a segment begins; the others say how it ends.
KEPT = tuple(NAMES.index(name) for name in ("start", "decode_kv", "waiting"))


#: What a record and a recorder hold by request.
PER_REQUEST = ("admitted", "first_token", "last_token", "finished", "outcome", "preemptions", "recomputed")


@dataclass
class Record:
    """The raw outcome of a run, as arrays over n requests, m segments and k spans."""

    admitted: NDArray[np.float64]  # (n,) s, NaN if never
    first_token: NDArray[np.float64]  # (n,) s
    last_token: NDArray[np.float64]  # (n,) s
    finished: NDArray[np.float64]  # (n,) s; later than the last token only if an answer waits for its batch
    outcome: NDArray[np.int8]  # (n,) index into OUTCOMES
    preemptions: NDArray[np.int32]  # (n,)
    recomputed: NDArray[np.int64]  # (n,) tokens
    segments: dict[str, NDArray]  # columns of SEGMENT_COLUMNS, each (m,)
    span_request: NDArray[np.int64]  # (k,)
    span_time: NDArray[np.float64]  # (k,) s, end of the prefill that gave the span's first token
    span_first: NDArray[np.int64]  # (k,) number of the decode step that gave the next one
    span_count: NDArray[np.int64]  # (k,) tokens from decode steps
    reasons: dict[int, str] = field(default_factory=dict)
    capacity: int = 0


class Recorder:
    """Collects a run's rows as it goes; `record` turns them into arrays."""

    def __init__(self, requests: int, capacity: int) -> None:
        self.capacity = capacity
        self.admitted = np.full(requests, np.nan)
        self.first_token = np.full(requests, np.nan)
        self.last_token = np.full(requests, np.nan)
        self.finished = np.full(requests, np.nan)
        self.outcome = np.full(requests, UNFINISHED, dtype=np.int8)
        self.preemptions = np.zeros(requests, dtype=np.int32)
        self.recomputed = np.zeros(requests, dtype=np.int64)
        self.reasons: dict[int, str] = {}
        self.rows: list[tuple] = []
        self.spans: list[tuple[int, float, int, int]] = []
        self._members: object = None

    def resize(self, requests: int) -> None:
        """Make room for so many requests in all, or cut room off (a replica does not know how many it will get)."""
        fresh = Recorder(max(0, requests - len(self.outcome)), self.capacity)
        for name in PER_REQUEST:
            setattr(self, name, np.append(getattr(self, name), getattr(fresh, name))[:requests])

    def refuse(self, request: int, reason: str) -> None:
        """Note that a request was never admitted, and why."""
        self.end(request, REFUSED, reason)

    def end(self, request: int, outcome: int, reason: str = "") -> None:
        """Note an outcome other than "finished", and why."""
        self.outcome[request] = outcome
        self.reasons[request] = reason

    def admit(self, request: int, now: float) -> None:
        """Note when a request got its place; coming back after a preemption does not count."""
        if np.isnan(self.admitted[request]):
            self.admitted[request] = now

    def token(self, request: int, now: float) -> None:
        """Note the end of a prefill, which gives a token."""
        if np.isnan(self.first_token[request]):
            self.first_token[request] = now

    def finish(self, request: int, now: float) -> None:
        """Note that a request is done."""
        if np.isnan(self.last_token[request]):
            self.last_token[request] = now
        self.finished[request] = now
        self.outcome[request] = FINISHED

    def segment(self, row: tuple, members: object = None) -> None:
        """Write a segment down (the values of `SEGMENT_COLUMNS`), or make the last one longer.

        Parameters
        ----------
        members : object, optional
            Equal for two rows of decode steps of the same sequences; None: never the same as another.
        """
        last = self.rows[-1] if self.rows else None
        if last is not None and members is not None and members == self._members and last[END] == row[START]:
            first, grown = last, list(row)
            for column in KEPT:
                grown[column] = first[column]
            grown[STEPS] = first[STEPS] + row[STEPS]
            self.rows[-1] = tuple(grown)
        else:
            self.rows.append(row)
        self._members = members

    def record(self) -> Record:
        """Return everything as arrays."""
        columns = list(zip(*self.rows, strict=True)) or [()] * len(SEGMENT_COLUMNS)
        segments = {
            name: np.array(column, dtype=dtype) for (name, dtype), column in zip(SEGMENT_COLUMNS, columns, strict=True)
        }
        spans = list(zip(*self.spans, strict=True)) or [()] * 4
        return Record(
            self.admitted,
            self.first_token,
            self.last_token,
            self.finished,
            self.outcome,
            self.preemptions,
            self.recomputed,
            segments,
            np.array(spans[0], dtype=np.int64),
            np.array(spans[1], dtype=float),
            np.array(spans[2], dtype=np.int64),
            np.array(spans[3], dtype=np.int64),
            self.reasons,
            self.capacity,
        )
