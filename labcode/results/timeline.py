"""What everybody did in every iteration of a run: the letters of the lecture's diagrams, and the KV cache
beneath.

=========  ==============================================================================================
letter     in this iteration the request ...
=========  ==============================================================================================
``P``      processes prompt tokens (after a preemption, the tokens it had generated as well)
``D``      decodes: one more token
``·``      has arrived and waits for a seat
``-``      has finished, but its seat stays taken until the batch ends
``=``      has a seat, and this step does nothing for it (prefill goes first, or the token budget is spent)
space      has not arrived, or has left
=========  ==============================================================================================

Iterations are numbered from 0.  Where every iteration takes one second and the engine never idles, iteration
k is the one that begins at time k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labcode.cost import StepShape
from labcode.cost.leap import SAME_INSTANT
from labcode.results.run import Run

PREFILL, DECODE, WAITING, IDLE, PAUSED, ABSENT = "P", "D", "·", "-", "=", " "
MEANING = {
    PREFILL: "prefill",
    DECODE: "decode",
    WAITING: "waiting for a seat",
    IDLE: "finished, seat still taken",
    PAUSED: "seated, nothing done",
}


class OneStep:
    """A cost model in which every step takes one second, whatever is in it: time is then the iteration
    number."""

    def step_time(self, shape: StepShape) -> float:
        """Return 1.0 s."""
        return 1.0


@dataclass(frozen=True)
class Timeline:
    """A run, iteration by iteration, for n requests and m iterations.

    Attributes
    ----------
    start, end : float64, shape (m,)
        When each iteration began and ended, s.
    letters : str, shape (n, m)
        What each request did; see the module.
    kv_used, kv_reserved : int64, shape (m,)
        Tokens written to the cache, and taken in the pool, at the end of each iteration.
    seats : int64, shape (m,)
        Seats taken in each iteration, useful or not.
    """

    start: NDArray[np.float64]
    end: NDArray[np.float64]
    letters: NDArray[np.str_]
    kv_used: NDArray[np.int64]
    kv_reserved: NDArray[np.int64]
    seats: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.start)

    def row(self, request: int) -> str:
        """Return the letters of one request as text, without the blanks at the end."""
        return "".join(self.letters[request]).rstrip()

    def text(self) -> str:
        """Return the diagram: a header of iteration numbers (last digits) and a line a request."""
        width = len(f"r{len(self.letters) - 1}")
        head = " " * (width + 2) + "".join(str(k % 10) for k in range(len(self)))
        rows = [f"{f'r{i}':<{width}}  {self.row(i)}" for i in range(len(self.letters))]
        return "\n".join([head, *rows])

    def count(self, letter: str) -> int:
        """Return how many cells hold `letter`."""
        return int((self.letters == letter).sum())


def timeline(run: Run, longest: int = 5000) -> Timeline:
    """Return what every request of `run` did in every iteration.

    Parameters
    ----------
    run : Run
        Of any engine.
    longest : int
        Refuse runs of more iterations than this: nobody could look at them.

    Raises
    ------
    ValueError
        If the run is too long, or if prompts came in chunks *and* requests were preempted, which a run's
        record does not hold apart.
    """
    seg = run.record.segments
    steps = seg["steps"]
    m = int(steps.sum())
    if m > longest:
        raise ValueError(
            f"run has {m} iterations: a timeline shows at most {longest}; cut the workload with load.head(n)"
        )
    segment = np.repeat(np.arange(len(steps)), steps)  # of each iteration
    last = np.cumsum(steps) - 1
    left = last[segment] - np.arange(m)  # iterations of the same segment still to come
    decoding = np.flatnonzero(seg["n_decode"][segment] > 0)  # decode step number -> iteration
    end = seg["end"][segment].astype(float)
    end[decoding] = run.decode_ends
    start = np.where(np.arange(m) == (last - steps + 1)[segment], seg["start"][segment], np.roll(end, 1))
    letters = np.full((len(run.load), m), ABSENT)
    _waiting_and_seated(run, start, end, letters)
    _tokens(run, segment, decoding, end, letters)
    _prefills(run, segment, letters)
    _idle_seats(run, segment, letters)
    n_decode = seg["n_decode"][segment].astype(np.int64)
    kv_used = seg["kv_used"][segment] - n_decode * left
    seats = np.isin(letters, [PREFILL, DECODE, IDLE, PAUSED]).sum(axis=0)
    return Timeline(start, end, letters, kv_used, seg["kv_reserved"][segment].copy(), seats)


def _waiting_and_seated(run: Run, start: NDArray, end: NDArray, letters: NDArray) -> None:
    """Mark everyone as waiting from arrival to seat, and as paused from then to the last token."""
    rec = run.record
    for i, arrival in enumerate(run.load.arrival):
        if rec.reasons.get(i):
            continue
        seat = np.inf if np.isnan(rec.admitted[i]) else rec.admitted[i]
        gone = np.inf if np.isnan(rec.last_token[i]) else rec.last_token[i]
        present = (start >= arrival - SAME_INSTANT) & (start < gone - SAME_INSTANT)
        letters[i, present] = WAITING
        letters[i, present & (start >= seat - SAME_INSTANT)] = PAUSED


def _tokens(run: Run, segment: NDArray, decoding: NDArray, end: NDArray, letters: NDArray) -> None:
    """Mark the iterations that gave a token: decodes, and the last iteration of every prefill."""
    rec, n_prefill = run.record, run.record.segments["n_prefill"]
    free_from = np.zeros(len(run.load), dtype=np.int64)  # iteration after the last one of a request's previous span
    for k in np.argsort(rec.span_time, kind="stable"):
        i, time, first, count = rec.span_request[k], rec.span_time[k], rec.span_first[k], rec.span_count[k]
        prefilled = int(np.flatnonzero((np.abs(end - time) <= SAME_INSTANT) & (n_prefill[segment] > 0))[0])
        if rec.preemptions[i]:
            # Between a preemption and the next prefill a request has no seat, whenever it was first admitted.
            row = letters[i, free_from[i] : prefilled]
            row[row == PAUSED] = WAITING
        letters[i, prefilled] = PREFILL
        cells = decoding[first : first + count]
        letters[i, cells] = DECODE
        free_from[i] = max(prefilled, int(cells[-1]) if count else 0) + 1


def _prefills(run: Run, segment: NDArray, letters: NDArray) -> None:
    """Mark the earlier chunks of prompts that took several iterations: seats fill in the order of
    admission."""
    rec, n_prefill = run.record, run.record.segments["n_prefill"][segment]
    missing = n_prefill - (letters == PREFILL).sum(axis=0)
    if not missing.any():
        return
    if rec.preemptions.any():
        raise ValueError("run: prompts in chunks and preemptions together; the record does not tell whose chunk it was")
    order = np.lexsort((np.arange(len(run.load)), rec.first_token, rec.admitted))
    for k in np.flatnonzero(missing):
        # Whoever ends a prompt here was admitted before those who get only a part, so the order decides.
        for i in order:
            if missing[k] and letters[i, k] == PAUSED and not (letters[i, :k] == DECODE).any():
                letters[i, k] = PREFILL
                missing[k] -= 1


def _idle_seats(run: Run, segment: NDArray, letters: NDArray) -> None:
    """Mark the seats that finished requests keep until their batch ends."""
    n_idle = run.record.segments["n_idle"][segment]
    if not n_idle.any():
        return
    for batch in np.unique(run.record.admitted[~np.isnan(run.record.admitted)]):
        members = np.flatnonzero(run.record.admitted == batch)
        works = [np.flatnonzero(np.isin(letters[i], [PREFILL, DECODE])) for i in members]
        ended = max((int(cells[-1]) for cells in works if len(cells)), default=-1)
        for i, cells in zip(members, works, strict=True):
            if len(cells):
                kept = np.arange(cells[-1] + 1, ended + 1)
                letters[i, kept[n_idle[kept] > 0]] = IDLE
