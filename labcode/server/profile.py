"""A server's steps as a table: what :mod:`labcode.cost.calibration` fits a cost model to."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from labcode.cost import StepShape
from labcode.cost.calibration import Sample

COLUMNS = ["n_decode", "decode_kv", "new", "seqs", "pairs", "kv", "seconds"]


def write_samples(path: str | Path, samples: Iterable[Sample]) -> None:
    """Write a row a step, the sums of its shape and its seconds; nobody ever finds half of the table."""
    rows = [[*shape[1:], seconds] for shape, seconds in samples]
    half = Path(path).with_name(Path(path).name + ".part")
    pd.DataFrame(rows, columns=COLUMNS).to_csv(half, index=False)
    half.replace(path)


def read_samples(path: str | Path) -> list[Sample]:
    """Return the steps of a table; the prefills are known by their sums only."""
    table = pd.read_csv(path)
    sums = table[COLUMNS[:-1]].astype(int).itertuples(index=False, name=None)
    return [(StepShape((), *row), seconds) for row, seconds in zip(sums, table["seconds"].tolist(), strict=True)]
