"""Whole runs of another simulator, Vidur, beside ours: the same requests, the same step times, two schedulers.

The peer's runs are not part of this project.  `compared` needs the folder that holds them; what it found is recorded
in ``peer_runs.csv``, and a test holds the record to the computation wherever the folder is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd

from labcode import workload
from labcode.checks import one_of
from labcode.cost import StepShape
from labcode.cost.measured import MeasuredCost
from labcode.results.metrics import percentile
from labcode.simulate import simulate

PAGES = {"memory": "paged:16", "watermark": 0.01}

#: Vidur's scheduler and the rate of the run -> the same rules in our words.
RUNS: dict[str, dict[str, object]] = {
    "orca_qps8": {"memory": "oracle", "prefill": "mixed"},
    "vllm_qps8": {**PAGES, "prefill": "prefill_first", "token_budget": "padded:4096"},
    "sarathi_qps2": {**PAGES, "prefill": "chunked", "token_budget": 512},
    "sarathi_qps8": {**PAGES, "prefill": "chunked", "token_budget": 512},
}

#: One rule switched at a time: (run, what is other, options).  ``longer`` and ``kv`` change the step times.
SWITCHES: tuple[tuple[str, str, dict[str, object]], ...] = (
    ("orca_qps8", "every step 0.1 % longer", {"longer": 0.001}),
    ("vllm_qps8", "no budget for a batch of prompts", {"token_budget": None}),
    ("vllm_qps8", "a budget of 4096 that counts the sum of the prompts", {"token_budget": 4096}),
    ("sarathi_qps8", "whole prompts instead of chunks", {"prefill": "mixed", "token_budget": None}),
    ("sarathi_qps8", "chunks of 1024", {"token_budget": 1024}),
    ("sarathi_qps8", "contexts not rounded up to 64", {"kv": 1}),
    ("sarathi_qps8", "no watermark", {"watermark": 0.0}),
)

BLOCKS = 30_208


@dataclass(frozen=True)
class Longer:
    """A cost whose every step takes a share more than another's."""

    cost: MeasuredCost
    share: float

    def step_time(self, shape: StepShape) -> float:
        """Return the time of a step in seconds."""
        return (1 + self.share) * self.cost.step_time(shape)


def recorded() -> pd.DataFrame:
    """Return what `compared` found when it last ran: a row for each run, and for each rule switched."""
    return pd.read_csv(str(files("labcode.course.evidence") / "peer_runs.csv"))


def compared(folder: Path) -> pd.DataFrame:
    """Return how far our whole runs are from Vidur's.

    Parameters
    ----------
    folder : Path
        With ``vidur_results_*.csv``, ``vidur_trace_*.csv`` and ``vidur_predicted_*.csv``.

    Returns
    -------
    DataFrame
        ``run``, ``other`` (the rule that is switched, or "the same rules"), ``requests``, ``mean`` (of the latencies,
        ours / Vidur's - 1), ``median`` and ``p95`` (of the absolute relative differences, request by request).
    """
    whole: list[tuple[str, str, dict[str, object]]] = [(name, "the same rules", {}) for name in RUNS]
    return pd.DataFrame([distance(folder, name, other, options) for name, other, options in (*whole, *SWITCHES)])


def distance(folder: Path, name: str, other: str, options: dict[str, object]) -> dict[str, object]:
    """Return the row of one comparison; see `compared`."""
    one_of("name", name, RUNS)
    options = {**RUNS[name], **options}
    parts = ("compute", "attn_decode", "attn_prefill")
    compute, decode, prefill = (folder / f"vidur_predicted_{part}_ms_per_layer.csv" for part in parts)
    cost = MeasuredCost.from_csv(compute, decode, prefill, layers=32)
    cost = replace(cost, round_kv=int(str(options.pop("kv", cost.round_kv))))
    longer = float(str(options.pop("longer", 0.0)))
    trace = pd.read_csv(folder / f"vidur_trace_uniform_{name.split('_')[1]}.csv")
    theirs = pd.read_csv(folder / f"vidur_results_{name}.csv")
    load = workload.from_arrays(trace["arrival_s"], trace["prompt_tokens"], trace["output_tokens"])
    run = simulate(
        load,
        gpu="a100-80",
        max_bs=128,
        capacity=BLOCKS * 16,
        cost=Longer(cost, longer) if longer else cost,
        **options,  # type: ignore[arg-type]
    )
    # Vidur's file leaves out its warm-up and its tail; the arrival says whose row it is.
    ours = run.requests.iloc[np.searchsorted(trace["arrival_s"], theirs["arrival_s"])].reset_index(drop=True)
    if not (ours["prompt_tokens"] == theirs["prompt_tokens"]).all():
        raise ValueError(f"folder = {folder}: requests of the results are not those of the trace")
    latency, latencies = ours["finished"] - ours["arrival"], theirs["completed_s"] - theirs["arrival_s"]
    apart = abs(latency / latencies - 1).to_numpy()
    return {
        "run": name,
        "other": other,
        "requests": len(theirs),
        "mean": latency.mean() / latencies.mean() - 1,
        "median": percentile(apart, 50),
        "p95": percentile(apart, 95),
    }
