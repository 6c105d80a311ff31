"""Coordinated omission on the real server, recorded: ``python -m labcode.course.evidence.omission`` measures again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pandas as pd

from labcode.course.evidence.real_server import busy, machine, server, today

RECORD = Path(__file__).with_name("omission.csv")
#: Requests/s, length of each test, beginning and length of the stall (s).
RATE, SECONDS, AT, STALL = 20.0, 20.0, 5.0, 2.0


def measured() -> pd.DataFrame:
    """Measure and return the tails, a row a view of the same stall."""
    from labcode.loadtest.exchange import Target
    from labcode.loadtest.omission import one_stall

    state = busy()
    with server("--model", "tiny") as running:
        target = Target(running.url, vocab=256)
        views = asyncio.run(one_stall(target, running.pid, RATE, SECONDS, AT, STALL))
    table = views.table().rename_axis("view").reset_index()
    how = f"{RATE:g} requests/s for {SECONDS:g} s, stall of {STALL:g} s at {AT:g} s"
    return table.assign(how=how, machine=machine(), load=state, date=today())


def recorded() -> pd.DataFrame:
    """Return the recorded measurement."""
    return pd.read_csv(RECORD).set_index("view")


if __name__ == "__main__":
    found = measured()
    found.to_csv(RECORD, index=False, float_format="%.4g")
    print(found.drop(columns=["how", "machine", "load", "date"]).to_string(index=False))
