"""From a shell: ``run`` simulates, ``serve`` serves the mini model, ``load`` tests a server, ``capacity`` says how many
GPUs a trace needs, ``ledger`` reproduces published figures.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from typing import Any

from labcode import workload
from labcode.cost.hardware import GPUS, MODELS
from labcode.cost.models import COSTS
from labcode.experiments import capacity_command
from labcode.loadtest import command as loadtest_command
from labcode.results.metrics import SLO
from labcode.server import command as server_command
from labcode.simulate import ENGINES, PREFILL_MODES, simulate
from labcode.workload import Workload

WORKLOADS = {
    "chat": workload.chat,
    "long_context": workload.long_context,
    "orca_paper": workload.orca_paper,
    "azure_conv": workload.azure_conv,
    "azure_code": workload.azure_code,
}


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(prog="python -m labcode", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="simulate a workload and print its summary")
    load = run.add_mutually_exclusive_group()
    load.add_argument("--workload", choices=WORKLOADS, default="chat", help="a built-in workload (chat)")
    load.add_argument(
        "--trace",
        metavar="FILE",
        help="a trace: Azure CSV, Mooncake JSON lines, or arrival_s,prompt_tokens,output_tokens",
    )
    run.add_argument("--n", type=int, default=None, help="requests (600; all of a trace)")
    run.add_argument("--rate", type=float, default=None, help="requests/s (16; a trace's own)")
    run.add_argument("--seed", type=int, default=0, help="of the workload and of prediction errors (0)")
    run.add_argument("--model", default="llama3-8b", help=f"one of {', '.join(MODELS)}")
    run.add_argument("--gpu", default="h100", help=f"one of {', '.join(GPUS)}, or several: 16xa100-40")
    run.add_argument("--engine", default="continuous", help=f"one of {', '.join(ENGINES)}")
    run.add_argument("--max-bs", type=int, default=256, help="places in the running batch (256)")
    run.add_argument(
        "--memory",
        default="max:8192",
        help='"max:TOKENS", declared, predicted, pow2, oracle, unlimited, "paged:TOKENS"',
    )
    run.add_argument("--order", default="fcfs", help='fcfs, sjf, "sjf:SIGMA", deadline, drr, vtc')
    run.add_argument("--prefill", default="mixed", help=f"one of {', '.join(PREFILL_MODES)}")
    run.add_argument("--watermark", type=float, default=0.0, help="share of the blocks that admission leaves free (0)")
    run.add_argument("--predictor", default="exact", help='exact, "lognormal:SIGMA", "pow2:SIGMA"')
    run.add_argument("--token-budget", default=None, help='new tokens a step, as in 512 or "padded:4096"')
    run.add_argument("--cost", default="paper", help=f"one of {', '.join(COSTS)}")
    run.add_argument("--slo-ttft", type=float, default=1.0, help="seconds (1.0)")
    run.add_argument("--slo-tpot", type=float, default=0.05, help="seconds (0.05)")
    run.add_argument("--json", action="store_true", help="print JSON instead of a table")
    run.add_argument("--requests", metavar="FILE", help="also write the table of requests as CSV")
    book = commands.add_parser(
        "ledger", help="compute every published figure that the book reproduces; exit 1 if one is off"
    )
    book.add_argument("--json", action="store_true", help="print JSON instead of a table")
    book.add_argument("--only", nargs="+", metavar="ID", help="these rows only, as in --only L14 C07")
    run.set_defaults(action=simulated)
    book.set_defaults(action=ledger)
    server_command.add_to(commands)
    loadtest_command.add_to(commands)
    capacity_command.add_to(commands)
    return top


def chosen_load(options: argparse.Namespace) -> Workload:
    """Return the workload that the command line asks for."""
    if options.trace is None:
        return WORKLOADS[options.workload](n=options.n or 600, rate=options.rate or 16.0, seed=options.seed)
    load = workload.from_file(options.trace)
    if options.n is not None:
        load = load.head(options.n)
    return load if options.rate is None else load.at_rate(options.rate)


def simulated(options: argparse.Namespace) -> int:
    """Simulate and print the summary; return the exit status."""
    for name in ("n", "rate"):
        value = getattr(options, name)
        if value is not None and not value > 0:
            raise ValueError(f"--{name} = {value!r}: must be above 0")
    slo = SLO(options.slo_ttft, options.slo_tpot)
    names = (
        "model",
        "gpu",
        "engine",
        "max_bs",
        "memory",
        "order",
        "prefill",
        "token_budget",
        "cost",
        "seed",
        "watermark",
        "predictor",
    )
    settings: dict[str, Any] = {name: getattr(options, name) for name in names}
    load = chosen_load(options)
    outcome = simulate(load, **settings)
    summary = outcome.summary(slo)
    if options.requests:
        outcome.requests.to_csv(options.requests)
    if options.json:
        print(json.dumps({key: None if math.isnan(value) else value for key, value in summary.items()}, indent=2))
        return 0
    where = f"{settings['engine']} on {settings['model']}, {settings['gpu']} (paper GPU)"
    print(f"{load.name}: {len(load)} requests, {where}\n")
    table = summary.table()
    table["value"] = ["no data" if math.isnan(value) else f"{value:,.6g}" for value in table["value"]]
    print(table.to_string(index_names=False))
    reasons = outcome.requests.loc[outcome.requests["outcome"] == "refused", "reason"].value_counts()
    for reason, count in reasons.head(5).items():
        print(f"refused {count}: {reason}")
    return 0


def ledger(options: argparse.Namespace) -> int:
    """Print the ledger; return 1 if a row is not ok."""
    from labcode.course import ledger as reproduce

    rows = reproduce.ledger(options.only)
    table = reproduce.table(rows)
    if options.json:
        print(json.dumps(table.to_dict("records"), indent=2, ensure_ascii=False))
    else:
        table["ok"] = ["ok" if row.ok else "OFF" for row in rows]
        print(table.to_string(index=False))
        print(f"\n{len(rows)} rows, {sum(not row.ok for row in rows)} off")
    return 0 if all(row.ok for row in rows) else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status (2 for bad input)."""
    options = parser().parse_args(arguments)
    try:
        status: int = options.action(options)
        return status
    except (ValueError, OSError, ImportError) as error:
        print(f"labcode: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
