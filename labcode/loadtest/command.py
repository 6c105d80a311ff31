"""``python -m labcode load``."""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
from typing import Any

import numpy as np

from labcode.results.metrics import SLO
from labcode.workload import Workload, from_file, unit_arrivals
from labcode.workload.synthetic import assemble, streams


def add_to(commands: Any) -> None:
    """Add the command to a command line."""
    load = commands.add_parser("load", help="put load on a server with OpenAI's interface and measure it")
    load.add_argument("--url", default="http://127.0.0.1:8000", help="of the server, without /v1")
    load.add_argument("--model", default="", help="as the server calls it (its only one)")
    load.add_argument("--trace", metavar="FILE", help="arrivals and lengths from a trace; --rate rescales it")
    load.add_argument("--n", type=int, default=None, help="requests (100; all of a trace)")
    load.add_argument("--rate", type=float, default=None, help="requests/s (2; a trace's own)")
    load.add_argument(
        "--arrivals", default="poisson", help="poisson, gamma:BURSTINESS, on_off:SHARE:BURST, deterministic"
    )
    load.add_argument("--prompt-tokens", default="16:64", metavar="A:B", help="uniform in A ... B (16:64)")
    load.add_argument("--output-tokens", default="8:32", metavar="A:B", help="uniform in A ... B (8:32)")
    load.add_argument("--vocab", type=int, default=None, help="send random token ids below this, not words")
    load.add_argument("--users", type=int, default=None, help="a closed loop with so many users, not a schedule")
    load.add_argument("--think", type=float, default=0.0, help="mean think time of a user, s (0)")
    load.add_argument("--stop-at", type=float, default=None, help="end of the observation, s (when all have ended)")
    load.add_argument("--patience", type=float, default=300.0, help="seconds after which a client gives up (300)")
    load.add_argument("--no-counts", action="store_true", help="do not ask for the tokens in each chunk")
    load.add_argument("--api-key", default="", help="sent as a bearer token")
    load.add_argument("--seed", type=int, default=0, help="of arrivals, lengths and prompts (0)")
    load.add_argument("--slo-ttft", type=float, default=1.0, help="seconds (1.0)")
    load.add_argument("--slo-tpot", type=float, default=0.05, help="seconds (0.05)")
    load.add_argument("--json", action="store_true", help="print JSON, every request in it, instead of a table")
    load.set_defaults(action=run)


def between(name: str, text: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return `n` whole numbers, uniform in the range that "A:B" names (or all equal, for "A")."""
    low, _, high = text.partition(":")
    try:
        first, last = int(low), int(high or low)
    except ValueError:
        raise ValueError(f"--{name} = {text!r}: A or A:B, as in 16:64") from None
    if not 1 <= first <= last:
        raise ValueError(f"--{name} = {text!r}: A must be at least 1, B at least A")
    return rng.integers(first, last, n, endpoint=True)


def chosen(options: argparse.Namespace) -> Workload:
    """Return the workload that the command line asks for."""
    for name in ("n", "rate"):
        value = getattr(options, name)
        if value is not None and not value > 0:
            raise ValueError(f"--{name} = {value!r}: must be above 0")
    if options.trace:
        load = from_file(options.trace)
        load = load if options.n is None else load.head(options.n)
        return load if options.rate is None else load.at_rate(options.rate)
    n = options.n or 100
    lengths, gaps = streams(options.seed)
    prompt = between("prompt-tokens", options.prompt_tokens, n, lengths)
    output = between("output-tokens", options.output_tokens, n, lengths)
    return assemble("load", options.rate or 2.0, unit_arrivals(options.arrivals, n, gaps), prompt, output)


def run(options: argparse.Namespace) -> int:
    """Measure and print; return 0, or 1 if the result does not count."""
    try:
        import httpx

        from labcode.loadtest.closed_loop import closed_loop
        from labcode.loadtest.exchange import Target
        from labcode.loadtest.open_loop import open_loop
    except ImportError as problem:
        raise ValueError(f'{problem.name} is missing: pip install "labcode[server]"') from None
    from tqdm import tqdm

    load = chosen(options)
    target = Target(
        options.url,
        options.model,
        options.vocab,
        options.patience,
        not options.no_counts,
        options.api_key,
        options.seed,
    )
    with tqdm(total=len(load), unit="request", disable=not sys.stderr.isatty()) as bar:

        def progress(ended: int) -> None:
            bar.update(ended - bar.n)

        if options.users is None:
            test = open_loop(target, load, options.stop_at, progress)
        else:
            test = closed_loop(
                target, load, options.users, options.think, None, options.stop_at, options.seed, progress
            )  # fmt: skip
        try:
            measured = asyncio.run(test)
        except httpx.HTTPError as problem:
            raise OSError(f"{options.url} does not answer: {problem}") from None
    slo = SLO(options.slo_ttft, options.slo_tpot)
    if options.json:
        print(
            json.dumps(measured.report(slo, url=options.url, rate=load.rate, n=len(load), seed=options.seed), indent=1)
        )
    else:
        table = measured.summary(slo).table()
        table["value"] = ["no data" if math.isnan(value) else f"{value:,.6g}" for value in table["value"]]
        print(table.to_string(index_names=False))
    if measured.problem:
        print(f"labcode: not a valid result: {measured.problem}", file=sys.stderr)
        return 1
    return 0
