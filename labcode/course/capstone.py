"""The capstone: a reader's scheduler, audited at every step and scored on three workloads against the book's policies.

A policy is a function ``build(capacity) -> Scheduler``: a waiting queue, budgets, a memory manager and preemption put
together, or a subclass of `Scheduler` with a `schedule` of its own.  It sees what senders say (limits, tenants) and a
predictor that is off by a log-normal factor.  Whoever finds the true lengths nevertheless is found out: a second run,
in which only the future differs, must begin with the same decisions.

``python -m labcode.course.capstone FOLDER`` makes one table of the score cards that a lecturer has collected.
"""

from __future__ import annotations

import inspect
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from labcode import workload
from labcode.cost import paper
from labcode.course.audit import AuditedLoop, Broken, foreseen
from labcode.course.code_tasks import finishes
from labcode.results.metrics import SLO, percentile
from labcode.results.run import Run
from labcode.scheduler import Budgets, Request, Scheduler
from labcode.scheduler.kv_cache import Paged, Reservation, positions_needed
from labcode.scheduler.waiting import WaitingQueue
from labcode.simulation.clock import FOREVER, PaperClock
from labcode.simulation.requests import declared_limits, requests_of
from labcode.workload import Workload
from labcode.workload.prediction import predict

Build = Callable[[int], Scheduler]

CAPACITY = 48_000  # tokens of KV cache: it runs out
PLACES = 256
GOAL = SLO(ttft=2.0, tpot=0.08)
PREDICTOR = "lognormal:0.5"
LIMIT = 60.0  # seconds of the reader's machine for a workload
MODEL, GPU = "llama3-8b", "a100-40"


def workloads() -> dict[str, Workload]:
    """Return the three workloads: chat above what can be kept up, a tenant in bursts, and one that stays hidden."""
    rng = np.random.default_rng(14)
    even = workload.chat(n=300, rate=16.0, seed=41)
    bursts = workload.chat(n=300, rate=7.0, seed=42, arrivals="on_off:0.3:40")
    heavy = rng.random(300) < 0.25
    bursts = replace(bursts, prompt=np.where(heavy, np.minimum(4 * bursts.prompt, 6000), bursts.prompt))
    hidden = workload.azure_conv(n=300, rate=9.0, seed=int(rng.integers(1 << 30)), arrivals="gamma:0.4")
    hidden = replace(hidden, max_tokens=np.where(hidden.output <= 512, 512, 2048))
    names = np.array(["ada", "ben", "cleo", "dan"])
    return {
        "chat": replace(even, tenant=names[rng.integers(0, 4, 300)]),
        "bursts": replace(bursts, tenant=np.where(heavy, "batch", names[rng.integers(0, 3, 300)])),
        "hidden": replace(hidden, tenant=names[rng.choice(4, 300, p=[0.55, 0.25, 0.15, 0.05])]),
    }


@dataclass(frozen=True)
class Score:
    """One policy on one workload.

    Attributes
    ----------
    goodput : float
        Requests/s within the SLO, over the time from the first arrival to the last token.
    ttft_p99 : float
        Seconds; infinite if that many never got a token.
    worst_tenant : float
        Smallest share of a tenant's requests within the SLO.
    wasted : int
        Positions that were computed and lost, and tokens of requests that never finished.
    """

    goodput: float
    ttft_p99: float
    worst_tenant: float
    wasted: int


#: What is better: more (1) or less (-1).
BETTER = {"goodput": 1, "ttft_p99": -1, "worst_tenant": 1, "wasted": -1}
WORDS = {
    "goodput": "goodput (requests/s)",
    "ttft_p99": "P99 TTFT (s)",
    "worst_tenant": "worst tenant within the SLO (share)",
    "wasted": "wasted tokens",
}


def score(run: Run) -> Score:
    """Return the four numbers of a run."""
    table, met = run.requests, GOAL.met(run.requests)
    length = float(
        np.nanmax(table["finished"].to_numpy(), initial=table["arrival"].iloc[-1]) - table["arrival"].iloc[0]
    )
    tenants = [met[(table["tenant"] == one).to_numpy()].mean() for one in np.unique(table["tenant"])]
    lost = (table["outcome"] != "finished").to_numpy() & table["first_token"].notna().to_numpy()
    wasted = int(table["recomputed_tokens"].sum()) + int(run.load.prompt[lost].sum())
    waits = table["ttft"].fillna(math.inf).to_numpy()
    return Score(float(met.sum() / length), percentile(waits, 99), float(min(tenants)), wasted)


def serve(build: Build, load: Workload) -> Run:
    """Run a policy over a workload under audit.

    Raises
    ------
    Broken
        If an invariant does not hold.
    ValueError
        If `build` returns no fresh scheduler.
    """
    return _serve(build, load)[0]


def _serve(
    build: Build, load: Workload, output: Sequence[int] | None = None, stop_at: float = FOREVER
) -> tuple[Run, list[tuple[float, str]]]:
    """Return the run and its decisions; `output` are other true lengths than the workload's, which nobody is told."""
    scheduler = build(CAPACITY)
    if not isinstance(scheduler, Scheduler) or scheduler.requests:
        raise ValueError(f"build: returned {scheduler!r}; a fresh Scheduler, or a subclass of it, is needed")
    requests = requests_of(load, predict(load, PREDICTOR, seed=7), declared=True)
    price = paper(MODEL, GPU)
    clock = PaperClock(load.output.tolist() if output is None else list(output), price)
    loop = AuditedLoop(scheduler, requests, clock, CAPACITY, PLACES, stop_at)
    return Run(load, loop.run(), price), loop.decisions


def serve_without_foresight(build: Build, load: Workload) -> Run:
    """Run a policy as `serve` does, and again with another future; both have to begin alike.

    In the second run the answers of those who are not done when half of the requests are get other lengths, drawn by
    lot within the senders' limits (longer ones, for who has begun); limits and predictions are the same.

    Raises
    ------
    Broken
        If an invariant does not hold, or the decisions depend on the future.
    """
    run, decisions = _serve(build, load)
    ends = run.record.finished
    until = percentile(ends, 50)
    if not math.isfinite(until):
        return run
    limits = declared_limits(load, declared=True)
    least = np.where(run.record.first_token <= until, load.output, 1)
    others = np.where(ends <= until, load.output, np.random.default_rng(3).integers(least, limits, endpoint=True))
    found = foreseen(decisions, _serve(build, load, others.tolist(), until)[1], until)
    if found:
        raise Broken(found)
    return run


def fcfs(capacity: int) -> Scheduler:
    """First come, first served, pages, prompts whole."""
    return Scheduler(Paged(capacity, 16, 0.01), budgets=Budgets(PLACES))


def declared(capacity: int) -> Scheduler:
    """Orca's: first come, first served, prompt and the sender's limit reserved."""
    return Scheduler(Reservation(capacity, positions_needed), budgets=Budgets(PLACES))


def shortest(capacity: int) -> Scheduler:
    """Shortest predicted output first, pages, chunks."""
    return Scheduler(Paged(capacity, 16, 0.01), lambda r: r.expected, Budgets(PLACES, "chunked", 512))


class InTime(WaitingQueue):
    """Who can still have a first token in time, least work first; then those who cannot, first come first.

    It gives nothing to who is late already while somebody else can be served in time: the last are not starved for
    ever, since arrivals end, but they pay.
    """

    def __init__(self, patience: float) -> None:
        self.patience, self.line = patience, list[Request]()

    def _next(self, now: float) -> Request:
        hopeful = [r for r in self.line if now - r.arrival <= self.patience]
        if hopeful:
            return min(hopeful, key=lambda r: (r.prompt + 2 * r.expected, r.id))
        return min(self.line, key=lambda r: (r.arrival, r.id))

    def push(self, request: Request, now: float) -> None:
        """Let `request` join the queue."""
        self.line.append(request)

    def peek(self, now: float) -> Request:
        """Return who comes next."""
        return self._next(now)

    def pop(self, now: float) -> Request:
        """Remove and return who comes next."""
        request = self._next(now)
        self.line.remove(request)
        return request

    def __len__(self) -> int:
        return len(self.line)


def example(capacity: int) -> Scheduler:
    """The example: in time first, chunks, a watermark against preemption, and as many places as tokens come in time."""
    return Scheduler(Paged(capacity, 16, 0.10), InTime(0.8 * (GOAL.ttft or 1.0)), Budgets(96, "chunked", 512))


POLICIES: dict[str, Build] = {"fcfs": fcfs, "declared": declared, "shortest": shortest}


@dataclass(frozen=True)
class Card:
    """A score card: the reader's policy and the book's, by workload.

    Attributes
    ----------
    name : str
    scores : dict of str to dict of str to Score
        Workload -> policy -> its numbers.
    violation : str
        What was found, or "".
    source : str
        The policy's own code, as far as Python can show it: whoever collects cards can judge it again.
    """

    name: str
    scores: dict[str, dict[str, Score]]
    violation: str = ""
    source: str = ""

    @property
    def beats_fcfs(self) -> bool:
        """Whether the goodput is above that of first come, first served on every workload."""
        if self.violation:
            return False
        return all(each[self.name].goodput > each["fcfs"].goodput for each in self.scores.values())

    def table(self) -> pd.DataFrame:
        """Return a table, a row a workload and policy."""
        rows = {(load, name): asdict(one) for load, each in self.scores.items() for name, one in each.items()}
        return pd.DataFrame(rows).T.rename_axis(["workload", "policy"]).rename(columns=WORDS)

    def traded(self) -> str:
        """Say what the policy won and what it gave up against first come, first served, workload by workload."""
        if self.violation:
            return f"Not scored: {self.violation}"
        parts = []
        for load, each in self.scores.items():
            won: list[str] = []
            gave: list[str] = []
            for key, sign in BETTER.items():
                mine, base = getattr(each[self.name], key), getattr(each["fcfs"], key)
                if not math.isclose(mine, base, rel_tol=0.02, abs_tol=1e-9):
                    (won if sign * (mine - base) > 0 else gave).append(f"{WORDS[key]} {base:.3g} -> {mine:.3g}")
            parts.append(f"{load}: won {'; '.join(won) or 'nothing'}. Gave up {'; '.join(gave) or 'nothing'}.")
        return "\n".join(parts)

    def plot(self) -> Figure:
        """Draw the four numbers of every policy by workload; the title says what was traded."""
        figure = Figure(figsize=(10, 6.5))
        axes = figure.subplots(2, 2)
        loads = list(self.scores)
        policies = list(next(iter(self.scores.values()), {}))
        for axis, key in zip(axes.flat, BETTER, strict=True):
            for k, (policy, hatch) in enumerate(zip(policies, ("", "//", "..", "xx", "--"), strict=False)):
                heights = [getattr(self.scores[load][policy], key) for load in loads]
                where = np.arange(len(loads)) + (k - (len(policies) - 1) / 2) * 0.8 / len(policies)
                finite = [height if math.isfinite(height) else 0.0 for height in heights]
                axis.bar(where, finite, 0.8 / len(policies), hatch=hatch, edgecolor="white", label=policy)
            axis.set_xticks(range(len(loads)), loads)
            axis.set_ylabel(WORDS[key])
        axes[0, 0].legend()
        figure.suptitle(self.traded(), fontsize=8)
        figure.tight_layout()
        return figure

    def save(self, path: str | Path) -> Path:
        """Write the card as one JSON file, for whoever collects them; return where."""
        scores = {
            load: {
                policy: {k: v if math.isfinite(v) else None for k, v in asdict(one).items()}
                for policy, one in x.items()
            }
            for load, x in self.scores.items()
        }
        card: dict[str, Any] = {
            "name": self.name,
            "beats_fcfs": self.beats_fcfs,
            "violation": self.violation,
            "traded": self.traded(),
            "scores": scores,
            "source": self.source,
        }
        path = Path(path)
        path.write_text(json.dumps(card, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return path


def judge(build: Build, name: str = "yours", limit: float = LIMIT) -> Card:
    """Audit and score a policy on the three workloads, beside the book's.

    Parameters
    ----------
    build : callable
        ``build(capacity)`` -> a fresh `Scheduler` for a pool of that many tokens.
    name : str
        How the card calls it; not one of the book's.
    limit : float
        Seconds that a workload may take on this machine.

    Raises
    ------
    ValueError
        If `build` cannot be called, or the name is taken.
    """
    if not callable(build):
        raise ValueError(f"build = {build!r}: a function from capacity to a Scheduler is needed")
    if name in POLICIES:
        raise ValueError(f"name = {name!r}: that is one of the book's: {', '.join(POLICIES)}")
    scores: dict[str, dict[str, Score]] = {}
    try:
        source = inspect.getsource(build)
    except (OSError, TypeError):
        source = ""
    for title, load in workloads().items():
        found: dict[str, Any] = {}

        def work(load: Workload = load, found: dict[str, Any] = found) -> None:
            try:
                found["score"] = score(serve_without_foresight(build, load))
            except Broken as broken:
                found["violation"] = str(broken)
            except Exception as error:
                found["violation"] = f"{type(error).__name__}: {error}"

        if not finishes(work, limit):
            return Card(name, {}, f"{title}: not done after {limit:g} s", source)
        if "score" not in found:
            return Card(name, {}, f"{title}: {found.get('violation', 'no score')}", source)
        scores[title] = {name: found["score"]} | {known: score(serve(one, load)) for known, one in POLICIES.items()}
    return Card(name, scores, source=source)


if __name__ == "__main__":
    from labcode.course.score_cards import main

    sys.exit(main(sys.argv[1:]))
