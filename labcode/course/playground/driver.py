"""A run for the playground: settings in, what a record holds out, by the very scheduler and loop of the book.

Everything here is plain Python without arrays, so that it runs in a page as well (`bundle` puts it there); what it
returns for a setting is, to the last bit, what `labcode.simulate` returns for the call that `python_call` writes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from labcode.checks import integer, number, one_of, positive
from labcode.cost.hardware import as_gpu, as_model, kv_capacity
from labcode.cost.roofline import paper
from labcode.course.playground.draws import Generator, Table
from labcode.course.playground.lengths import KINDS, drawn
from labcode.labkit.watch import Watched
from labcode.scheduler.admission import fits_context
from labcode.scheduler.budgets import PREFILL_MODES, Budgets
from labcode.scheduler.fair import DeficitRoundRobin, VirtualTokenCounter
from labcode.scheduler.managers import memory
from labcode.scheduler.request import Plan, Request, Results
from labcode.scheduler.scheduler import Scheduler
from labcode.scheduler.waiting import KeyQueue, WaitingQueue
from labcode.simulation.loop import Loop

MOST_REQUESTS = 400
ORDERS = ("fcfs", "sjf", "drr", "vtc", "own")
Tables = tuple[Table, Table]


class Reporting(Watched):
    """A watched clock that says now and then how far it is."""

    report: Callable[[float, int], None] | None = None
    done = calls = 0

    def execute(self, plan: Plan, start: float, limit: int, until: float) -> tuple[Results, float]:
        """Carry `plan` out as the paper clock does."""
        results, end = super().execute(plan, start, limit, until)
        self.done += len(results.finished)
        self.calls += 1
        if self.report is not None and self.calls % 50 == 0:
            self.report(end, self.done)
        return results, end


def own_list(text: str) -> dict[str, list[Any] | None]:
    """Return the requests of a text: a line each, "arrival prompt output" and a tenant if there are any.

    Raises
    ------
    ValueError
        Naming the line (from 1), the value and what is allowed.
    """
    rows: list[tuple[float, int, int, str]] = []
    for at, line in enumerate(text.splitlines(), start=1):
        words = line.split("#")[0].replace(",", " ").split()
        if not words:
            continue
        if len(words) not in (3, 4):
            raise ValueError(f"requests, line {at}: {line.strip()!r}: three numbers are needed, arrival prompt output")
        try:
            arrival, prompt, output = float(words[0]), float(words[1]), float(words[2])
        except ValueError:
            raise ValueError(
                f"requests, line {at}: {line.strip()!r}: arrival, prompt and output must be numbers"
            ) from None
        here = f"requests, line {at}: "
        if not number(f"{here}arrival", arrival) >= 0 or (rows and arrival < rows[-1][0]):
            raise ValueError(f"{here}arrival = {words[0]}: at least 0, and not before the line above")
        lengths = integer(f"{here}prompt", prompt, 1, 1_000_000), integer(f"{here}output", output, 1, 1_000_000)  # type: ignore[arg-type]
        rows.append((arrival, *lengths, words[3] if len(words) == 4 else ""))
    if not 1 <= len(rows) <= MOST_REQUESTS:
        raise ValueError(f"requests: {len(rows)} lines with requests, from 1 to {MOST_REQUESTS} are allowed")
    columns: list[list[Any]] = [list(column) for column in zip(*rows, strict=True)]
    tenants = columns[3]
    if any(tenants) and not all(tenants):
        raise ValueError("requests: a tenant is named in some lines and not in others; name one in each, or in none")
    return {
        "arrival": columns[0],
        "prompt": columns[1],
        "output": columns[2],
        "tenant": tenants if any(tenants) else None,
    }


def load_of(settings: dict[str, Any], tables: Tables) -> dict[str, Any]:
    """Return arrival (s), prompt, output (tokens), declared limits and tenants of the requests that settings name."""
    kind = one_of("workload", settings["workload"], (*KINDS, "own"))
    if kind == "own":
        return {**own_list(settings["requests"]), "max_tokens": None}
    count = integer("n", settings["n"], 1, MOST_REQUESTS)
    rate, seed = positive("rate", settings["rate"]), integer("seed", settings["seed"], 0)
    process = one_of("arrivals", settings["arrivals"], ("poisson", "deterministic"))
    unit, at, gaps = [], 0.0, Generator(seed, (1,), *tables)
    for i in range(count):
        at = float(i) if process == "deterministic" else at + gaps.exponential()
        unit.append(at)
    equal = (integer("prompt", settings["prompt"]), integer("output", settings["output"])) if kind == "fixed" else None
    prompt, output, limits = drawn(str(kind), count, Generator(seed, (0,), *tables), equal)
    arrival = [time / rate for time in unit]
    if not math.isfinite(arrival[-1]) or arrival[-1] > 1e7:
        raise ValueError(f"rate = {rate!r}: too small, the last request would come after {arrival[-1]:.3g} s")
    return {"arrival": arrival, "prompt": prompt, "output": output, "max_tokens": limits, "tenant": None}


def own_order(source: str) -> Callable[[Request], float]:
    """Return the function ``order`` that a reader's source defines.

    Raises
    ------
    ValueError
        If there is none.  (What else is wrong with it is raised as it is.)
    """
    space: dict[str, Any] = {"math": math}
    exec(compile(source, "your code", "exec"), space)
    order = space.get("order")
    if not callable(order):
        raise ValueError("order: the code must define a function order(request)")
    return order


def queue_of(settings: dict[str, Any], load: dict[str, Any], requests: list[Request], tables: Tables) -> WaitingQueue:
    """Return a fresh queue for the order that settings name."""
    order = one_of("order", settings["order"], ORDERS)
    if order in ("drr", "vtc"):
        if load["tenant"] is None:
            raise ValueError(f"order = {order!r}: needs tenants; name one at the end of each line of your own requests")
        return VirtualTokenCounter() if order == "vtc" else DeficitRoundRobin(positive("quantum", settings["quantum"]))
    if order == "sjf":
        sigma, rng = number("sigma", settings["sigma"]), Generator(integer("order's seed", 0, 0), (), *tables)
        if sigma < 0:
            raise ValueError(f"sigma = {sigma!r}: at least 0 (0: the order knows the lengths)")
        keys = [output * math.exp(sigma * rng.normal()) if sigma else float(output) for output in load["output"]]
    elif order == "own":
        function = own_order(settings["code"])
        keys = [number(f"order(request {request.id})", function(request)) for request in requests]
    else:
        keys = list(load["arrival"])
    return KeyQueue(lambda request: keys[request.id])


def memory_of(settings: dict[str, Any], load: dict[str, Any], pool: int) -> Any:
    """Return a fresh memory manager as settings name it, and check their numbers."""
    kind = one_of("memory", settings["memory"], ("max", "paged", "declared", "oracle", "pow2", "unlimited"))
    if kind == "declared" and load["max_tokens"] is None:
        raise ValueError("memory = 'declared': the senders of this workload declare nothing")
    name = f"{kind}:{integer('memory_tokens', settings['memory_tokens'])}" if kind in ("max", "paged") else str(kind)
    watermark = number("watermark", settings["watermark"]) if kind == "paged" else 0.0
    return memory(name, pool, watermark)


def budgets_of(settings: dict[str, Any]) -> Budgets:
    """Return the budgets that settings name."""
    places = integer("max_bs", settings["max_bs"])
    mode = str(one_of("prefill", settings["prefill"], PREFILL_MODES))
    tokens = settings["token_budget"]
    if tokens is None:
        return (
            Budgets(places, mode, 512 if mode == "chunked" else None)
            if mode != "chunked" or places <= 512
            else Budgets(
                places, mode, integer("token_budget (512 unless you name one; a token for each of max_bs)", 512, places)
            )
        )
    return Budgets(places, mode, integer("token_budget (a token for each of max_bs sequences)", tokens, places))


def plain(column: Any) -> list[Any]:
    """Return a column of a record as a list of Python's own numbers; in a page it is one already."""
    return list(column.tolist() if hasattr(column, "tolist") else column)


def run(settings: dict[str, Any], tables: Tables, report: Callable[[float, int], None] | None = None) -> dict[str, Any]:
    """Serve the requests that settings name and return the record as plain lists.

    Parameters
    ----------
    settings : dict
        workload, n, rate, seed, arrivals, prompt, output, requests, model, gpu, max_bs, memory, memory_tokens,
        watermark, order, sigma, quantum, code, prefill, token_budget.
    tables : pair of tables
        Of the ziggurat, exponential and normal.
    report : callable, optional
        Hears now and then ``(time in s, requests finished)``.

    Raises
    ------
    ValueError
        If a setting is not allowed: names it, its value, and what is.
    """
    model, gpu = as_model(settings["model"]), as_gpu(settings["gpu"])
    pool, cost = kv_capacity(model, gpu), paper(model, gpu)
    budgets, load = budgets_of(settings), load_of(settings, tables)
    manager = memory_of(settings, load, pool)
    limits = load["output"]
    if settings["memory"] == "declared":
        limits = [max(asked, needed) for asked, needed in zip(load["max_tokens"], limits, strict=True)]
    tenants = load["tenant"] or [""] * len(limits)
    requests = [
        Request(i, prompt, limit, arrival, None, tenant, 0.0, float(output), ())
        for i, (prompt, limit, arrival, tenant, output) in enumerate(
            zip(load["prompt"], limits, load["arrival"], tenants, load["output"], strict=True)
        )
    ]
    queue = queue_of(settings, load, requests, tables)
    clock = Reporting(load["output"], cost)
    clock.report = report
    scheduler = Scheduler(manager, queue, budgets, checks=(fits_context(model.max_context),))
    record = Loop(scheduler, requests, clock, pool).run()
    segments = {name: plain(column) for name, column in record.segments.items()}
    roofs = cost.roofs
    lines = [
        [roofs.memory_time(n, kv), roofs.move_kv * n, roofs.compute_time(n, n, kv), roofs.attention * n]
        if steps > 1
        else None
        for steps, n, kv in zip(segments["steps"], segments["n_decode"], segments["decode_kv"], strict=True)
    ]
    names = ("admitted", "first_token", "last_token", "finished", "outcome", "preemptions", "recomputed")
    spans = ("span_request", "span_time", "span_first", "span_count")
    return {
        "load": load,
        "capacity": pool,
        "segments": segments,
        "lines": lines,
        "reasons": record.reasons,
        "stays": clock.closed(record),
        "chunks": clock.chunks,
        **{name: plain(getattr(record, name)) for name in (*names, *spans)},
    }


def as_json(value: Any) -> str:
    """Return plain data as JSON; what is not a number becomes null, floats keep every digit."""
    if isinstance(value, dict):
        return "{" + ",".join([f"{as_json(str(key))}:{as_json(item)}" for key, item in value.items()]) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join([as_json(item) for item in value]) + "]"
    if isinstance(value, str):
        quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        return f'"{quoted}"'
    if value is None or value != value:
        return "null"
    return repr(value)
