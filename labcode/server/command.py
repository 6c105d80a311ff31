"""``python -m labcode serve``."""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import MISSING, fields
from typing import Any

from labcode.checks import integer

HELP = {
    "max_bs": "seats in the running batch",
    "memory": '"paged:TOKENS", "max:TOKENS", declared, predicted, pow2, unlimited',
    "capacity": "tokens of KV cache",
    "watermark": "share of the pages that admission leaves free",
    "order": "fcfs, sjf (by the sender's limit), deadline, drr and vtc (fair to tenants, header X-Tenant)",
    "prefill": "mixed, prefill_first, chunked",
    "token_budget": "new tokens in a step",
    "expire": "whose deadlines count: never, waiting, always",
    "max_waiting": "requests that may wait; more are answered 429",
    "deadline": "seconds a request has if it does not say (header X-Deadline-Seconds)",
    "max_tenants": "names that the header X-Tenant may bring",
    "max_tokens": "the most output tokens that a request may ask for",
    "default_tokens": "output tokens of a request that does not ask",
    "max_body": "bytes of a request's body",
    "body_timeout": "seconds within which a body must come",
    "output_buffer": "tokens that wait for a slow client before its request pauses",
    "stall_timeout": "seconds after which a client that takes nothing is cut off",
    "drain_timeout": "seconds to finish in once the server is told to stop",
}

KINDS: dict[str, Any] = {"int": int, "float": float, "str": str, "int | None": int, "float | None": float}


def add_to(commands: Any) -> None:
    """Add the command to a command line."""
    serve = commands.add_parser("serve", help="serve the mini model over HTTP, as OpenAI's interface has it")
    serve.add_argument("--model", default="tiny", help="tiny, small, or smollm2 (extra smollm)")
    serve.add_argument("--seed", type=int, default=0, help="of the random weights (0)")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1: this machine only)")
    serve.add_argument("--port", type=int, default=8000, help="0 takes a free one (8000)")
    serve.add_argument("--threads", type=int, default=1, help="of numpy's linear algebra; more slow small models (1)")
    serve.add_argument("--profile", metavar="FILE", help="at the end, and on SIGUSR1, write what each step took")
    for name, kind, default in _options():
        said = "none" if default is None else default
        serve.add_argument(f"--{name.replace('_', '-')}", type=kind, default=default, help=f"{HELP[name]} ({said})")
    serve.set_defaults(action=run)


def _options() -> list[tuple[str, Any, Any]]:
    from labcode.server.options import Options

    assert all(field.default is not MISSING for field in fields(Options))
    return [(field.name, KINDS[str(field.type)], field.default) for field in fields(Options)]


def run(options: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; return the exit status."""
    try:
        from threadpoolctl import threadpool_limits

        from labcode.server.serve import serve
    except ImportError as problem:
        raise ValueError(f'{problem.name} is missing: pip install "labcode[server]"') from None
    from labcode.server.backend import backend
    from labcode.server.options import Options

    threads = integer("threads", options.threads)
    chosen = Options(**{name: getattr(options, name) for name, _, _ in _options()})
    served = backend(options.model, options.seed)

    def ready(address: str) -> None:
        print(f"{served.name} is served at {address}/v1 (Ctrl-C or SIGTERM stops it)", flush=True)

    # Two threads on a matrix this small wait for each other more than they compute, the more so where cores are busy.
    with threadpool_limits(limits=threads, user_api="blas"):
        asyncio.run(serve(served, chosen, options.host, options.port, ready, options.profile))
    return 0
