"""What the readers of tools' result files share: checks of JSON, and the table of requests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from labcode.checks import integer, non_negative
from labcode.results.logs.log import OUTCOMES


@dataclass(frozen=True)
class Measured:
    """One request as a load generator wrote it down, times in seconds on the generator's clock.

    `ttft` runs from `start` to the first token and `span` from the first to the last; both are NaN where no
    output came. `chunks` is NaN where the tool did not count the pieces.
    """

    name: str
    start: float
    ttft: float
    span: float
    prompt: float
    output: float
    outcome: str
    reason: str = ""
    chunks: float = float("nan")
    itl_max: float = float("nan")


def load_json(source: str | Path | Mapping[str, Any], name: str) -> tuple[str, Mapping[str, Any]]:
    """Return (name, content) of a JSON file that holds an object, or of a mapping that was read already."""
    if isinstance(source, Mapping):
        return name, source
    if not isinstance(source, (str, Path)):
        raise ValueError(f"{name} = {type(source).__name__}: the path of a JSON file or a mapping is needed")
    path = Path(source)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path.name}: not JSON ({error})") from None
    if not isinstance(content, Mapping):
        raise ValueError(f"{path.name}: a JSON object is needed, not {type(content).__name__}")
    return path.name, content


def requests_table(records: Sequence[Measured]) -> pd.DataFrame:
    """Return the table of requests as `EventLog` describes it, in order of submission."""
    nan = float("nan")

    def row(r: Measured) -> dict[str, Any]:
        return {
            "arrival": r.start,
            "admitted": nan,
            "first_token": r.start + r.ttft,
            "finished": r.start + r.ttft + r.span if r.outcome == "finished" else nan,
            "prompt_tokens": r.prompt,
            "output_tokens": r.output,
            "outcome": r.outcome,
            "reason": r.reason,
            "ttft": r.ttft,
            "tpot": r.span / (r.output - 1) if r.output > 1 else nan,
            "itl_max": r.itl_max,
            "waited": nan,
            "chunks": r.chunks,
            "tenant": "",
        }

    frame = pd.DataFrame([row(r) for r in records], index=pd.Index([r.name for r in records], name="request"))
    frame["outcome"] = pd.Categorical(frame["outcome"], categories=list(OUTCOMES))
    return frame.iloc[np.argsort(frame["arrival"].to_numpy(), kind="stable")]


def seconds(where: str, value: Any) -> float:
    """Return a time or duration of at least 0; raise a `ValueError` that says where it stood."""
    return non_negative(where, value)


def count(where: str, value: Any) -> int:
    """Return a number of tokens of at least 0; raise a `ValueError` that says where it stood."""
    return integer(where, value, at_least=0)
