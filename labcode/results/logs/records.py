"""What the readers of tools' result files share: entries that may lack a part, and the table of requests.

An entry that lacks a part is no reason to refuse the rest: what is there is taken, what is not is NaN, and the
summary says how many lack what. An entry that contradicts itself is refused, by name.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from labcode.checks import integer, non_negative
from labcode.results.outcomes import OUTCOMES
from labcode.workload.table import read_text

NAN = float("nan")

#: Parts that an entry may lack, as the notes of a summary name them.
NO_START = "a start"
NO_FIRST = "a time to first token"
NO_BETWEEN = "times between tokens"
NO_END = "an end"
NO_OUTPUT = "a number of output tokens"
NO_PROMPT = "a number of prompt tokens"


@dataclass(frozen=True)
class Entry:
    """One request as a load generator wrote it down; times in seconds, NaN where the file does not say.

    A time to first token of 0, and 0 s for several tokens, are what tools write for "not seen" (an answer that came
    as a whole, a clock that is too coarse). Both count as not seen.

    Attributes
    ----------
    start : float
        When it was sent, on the generator's clock.
    ttft, span, e2e : float
        From the start to the first token, from the first to the last, from the start to the end.
    prompt, output, chunks : float
        Tokens in and out, and the pieces that these came in.
    gaps : tuple of float
        From piece to piece.
    """

    name: str
    outcome: str
    reason: str = ""
    start: float = NAN
    ttft: float = NAN
    span: float = NAN
    e2e: float = NAN
    prompt: float = NAN
    output: float = NAN
    chunks: float = NAN
    gaps: tuple[float, ...] = ()

    def row(self) -> dict[str, Any]:
        """Return the row of the table of requests, `EventLog.requests`."""
        ttft = self.ttft if self.ttft > 0 else NAN
        e2e = self.e2e if self.e2e > 0 and self.outcome == "finished" else NAN
        tpot = self.span / (self.output - 1) if self.output > 1 and self.span > 0 else NAN
        return {
            "arrival": self.start,
            "admitted": NAN,
            "first_token": self.start + ttft,
            "finished": self.start + e2e,
            "prompt_tokens": self.prompt,
            "output_tokens": self.output,
            "outcome": self.outcome,
            "reason": self.reason,
            "ttft": ttft,
            "tpot": tpot,
            "itl_max": max(self.gaps) if self.gaps and len(self.gaps) + 1 == self.chunks == self.output else NAN,
            "waited": NAN,
            "chunks": self.chunks,
            "tenant": "",
            "lacks": "; ".join(self.lacks(ttft, tpot, e2e)),
        }

    def lacks(self, ttft: float, tpot: float, e2e: float) -> list[str]:
        """Return the names of what a complete entry would have and this one has not."""
        done = self.outcome == "finished"
        came = (done and self.output != 0) or ttft > 0 or self.output > 0  # so that there were tokens
        missing = {
            NO_START: math.isnan(self.start),
            NO_FIRST: came and math.isnan(ttft),
            NO_BETWEEN: came and self.output != 1 and math.isnan(tpot),
            NO_END: done and math.isnan(e2e),
            NO_OUTPUT: came and math.isnan(self.output),
            NO_PROMPT: done and math.isnan(self.prompt),
        }
        return [name for name, is_missing in missing.items() if is_missing]


def requests_table(entries: Sequence[Entry]) -> pd.DataFrame:
    """Return the table of requests as `EventLog` describes it, in order of submission (unknown ones last)."""
    frame = pd.DataFrame([e.row() for e in entries], index=pd.Index([e.name for e in entries], name="request"))
    frame["outcome"] = pd.Categorical(frame["outcome"], categories=list(OUTCOMES))
    return frame.iloc[by_start(entries)]


def intervals_table(entries: Sequence[Entry]) -> pd.DataFrame:
    """Return the gaps between pieces as `EventLog` describes them; 1 token each where pieces and tokens are as many."""
    rank = np.empty(len(entries), dtype=np.int64)
    rank[by_start(entries)] = np.arange(len(entries))
    rows = [
        (rank[i], gap, 1.0 if entry.chunks == entry.output else NAN)
        for i, entry in enumerate(entries)
        for gap in entry.gaps
    ]
    return pd.DataFrame(rows, columns=["request", "seconds", "tokens"]).astype(
        {"request": np.int64, "seconds": np.float64, "tokens": np.float64}
    )


def by_start(entries: Sequence[Entry]) -> np.ndarray:
    """Return the numbers of the entries in order of their starts, shape (n,)."""
    return np.argsort([entry.start for entry in entries], kind="stable")


def load_json(source: str | Path | Mapping[str, Any], name: str) -> tuple[str, Mapping[str, Any]]:
    """Return (name, content) of a JSON file that holds an object, or of a mapping that was read already."""
    if isinstance(source, Mapping):
        return name, source
    if not isinstance(source, (str, Path)):
        raise ValueError(f"{name} = {type(source).__name__}: the path of a JSON file or a mapping is needed")
    path = Path(source)
    text = read_text(path)
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path.name}: not JSON ({error})") from None
    if not isinstance(content, Mapping):
        raise ValueError(f"{path.name}: a JSON object is needed, not {type(content).__name__}")
    return path.name, content


def is_missing(value: Any) -> bool:
    """Say whether a file leaves a value open: null, or not a number."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def seconds(where: str, value: Any) -> float:
    """Return a time or duration of at least 0 (NaN if missing); raise a `ValueError` that says where it stood."""
    return NAN if is_missing(value) else non_negative(where, value)


def count(where: str, value: Any) -> float:
    """Return a number of tokens of at least 0 (NaN if missing); raise a `ValueError` that says where it stood."""
    return NAN if is_missing(value) else float(integer(where, value, at_least=0, at_most=2**53))


def text_of(where: str, value: Any) -> str:
    """Return a text ("" if missing); raise a `ValueError` that says where it stood."""
    if is_missing(value):
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{where} = {value!r}: a text is needed")
    return value


def list_of(where: str, value: Any) -> Sequence[Any]:
    """Return a list; raise a `ValueError` that says where it stood."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ValueError(f"{where} = {str(value)[:40]}: a list is needed")
    return value
