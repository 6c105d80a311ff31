"""``python -m labcode capacity``: a trace, a model and a GPU in; how many GPUs, and with which settings, out."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from labcode.cost.catalogue import GPUS, MODELS
from labcode.cost.hf_config import model_from_config
from labcode.experiments.capacity import plan_capacity
from labcode.results.metrics import SLO
from labcode.workload import from_file


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    plan = commands.add_parser("capacity", help="say how many GPUs a trace needs, and with which settings")
    plan.add_argument(
        "--trace",
        metavar="FILE",
        required=True,
        help="Azure or BurstGPT CSV, Mooncake JSON lines or CSV, or a CSV with arrival_s,prompt_tokens,output_tokens",
    )
    plan.add_argument("--model", default="llama3-8b", help=f"a config.json, or one of {', '.join(MODELS)}")
    plan.add_argument("--gpu", default="h100", help=f"one of {', '.join(GPUS)}")
    plan.add_argument("--rate", type=float, default=None, help="expected requests/s (the trace's own)")
    plan.add_argument("--n", type=int, default=None, help="only the first N requests")
    plan.add_argument("--slo-ttft", type=float, default=1.0, help="seconds (1.0)")
    plan.add_argument("--slo-tpot", type=float, default=0.05, help="seconds (0.05)")
    plan.add_argument("--attainment", type=float, default=0.9, help="share of the requests that must meet both (0.9)")
    plan.add_argument("--samples", type=int, default=5, help="resampled traces for the intervals (5)")
    plan.add_argument("--seed", type=int, default=0, help="of the resampling (0)")
    plan.add_argument("--report", metavar="FILE", help="also write a self-contained HTML page")
    plan.add_argument("--json", action="store_true", help="print JSON instead of text")
    plan.set_defaults(action=capacity)


def capacity(options: argparse.Namespace) -> int:
    """Print a capacity plan; return 1 if no number of GPUs will do."""
    if options.report and not Path(options.report).parent.is_dir():
        raise ValueError(f"report = {options.report!r}: the folder is not there")  # now, not after a minute's work
    load = from_file(options.trace)
    load = load if options.n is None else load.head(options.n)
    load = load if options.rate is None else load.at_rate(options.rate)
    model = MODELS[options.model] if options.model in MODELS else model_from_config(options.model)
    slo = SLO(options.slo_ttft, options.slo_tpot)
    found = plan_capacity(load, model, options.gpu, slo, options.attainment, samples=options.samples, seed=options.seed)
    if options.report:
        from labcode.experiments.capacity_report import write_report  # here, since it takes a second to import

        write_report(found, load, options.report)
    if options.json:
        print(json.dumps(found.to_json(), indent=2))
        return 0 if found.replicas else 1
    print(f"{found.verdict()}\n{found.headroom()}\n")
    print("One replica, requests/s within the SLO (95 % intervals over resampled traces):")
    for one in found.rated:
        chosen = "*" if one.setting == found.setting else " "
        print(f" {chosen} {one.cost:7s}{one.setting!s:62s}{one.rate:.2f}   (drain rate {one.drain:.2f})")
    if found.as_good:
        print("\nAs good, within 1 %:", *(f"- {one}" for one in found.as_good), sep="\n")
    print("\nAssumed:", *(f"- {note}" for note in found.assumptions), sep="\n")
    return 0 if found.replicas else 1
