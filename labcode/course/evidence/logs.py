"""Numbers of the reproduction ledger that this package stands for (C01 and C10)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from labcode.results.logs.events import from_events
from labcode.results.metrics import SLO


def one_request() -> dict[str, float]:
    """Return TTFT, TPOT, end-to-end time and wait (s) of the lecture's request (ledger C01).

    It arrives at 0 s, first runs at 0.1 s, its first token comes at 0.3 s and the 31st at 0.9 s.
    """
    times = np.linspace(0.3, 0.9, 31)
    tokens = pd.DataFrame({"request": "r", "token": range(1, 32), "time_s": times})
    asked = pd.DataFrame({"request": ["r"], "submitted_s": [0.0], "prompt_tokens": [1], "admitted_s": [0.1]})
    row = from_events(tokens, asked).requests.iloc[0]
    return {
        "ttft": float(row["ttft"]),
        "tpot": float(row["tpot"]),
        "end_to_end": float(row["finished"] - row["arrival"]),
        "waited": float(row["waited"]),
    }


def thousand_requests() -> dict[str, float]:
    """Return the rates (requests/s) and shares of section 31.7's window (ledger C10).

    In 100 s, 1000 requests are submitted; 100 are refused, 50 fail, 850 succeed, and 700 of those meet the
    objective.
    """
    outcomes = ["refused"] * 100 + ["failed"] * 50 + ["finished"] * 850
    asked = pd.DataFrame(
        {
            "request": range(1000),
            "submitted_s": [0.09 * i for i in range(1000)],
            "prompt_tokens": 100,
            "outcome": outcomes,
        }
    )
    done = asked[asked["outcome"] == "finished"]
    # The first 700 get their only token after 0.5 s, the other 150 after 2 s: too late for a limit of 1 s.
    delay = [0.5] * 700 + [2.0] * 150
    tokens = pd.DataFrame({"request": done["request"], "token": 1, "time_s": done["submitted_s"] + delay})
    summary = from_events(tokens, asked, window=(0.0, 100.0)).summary(SLO(ttft=1.0))
    return {
        "submitted_per_s": summary["submitted_per_s"],
        "finished_per_s": summary["finished_per_s"],
        "goodput_per_s": summary["goodput_per_s"],
        "slo_of_finished": summary["slo_of_finished"],
        "slo_of_submitted": summary["slo_of_submitted"],
    }
