"""What chapter 10 shows of budgets: chunks counted step by step, blocks token by token, allocators, shared prefixes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labcode import workload
from labcode.checks import one_of
from labcode.cost import CostModel, SeqWork, StepShape, linear
from labcode.cost.calibration import StepTimeEstimate
from labcode.cost.calibration import estimate as estimate_margin
from labcode.cost.hardware import kv_capacity
from labcode.experiments.cost_table import Values, change, under_costs
from labcode.experiments.saturation import Saturated, saturated
from labcode.results.run import Run
from labcode.scheduler import Budgets, Memory, Plan, Request, Results
from labcode.scheduler.contiguous import Buddy, FirstFit
from labcode.scheduler.kv_cache import Need, positions_needed, power_of_two
from labcode.simulate import simulate
from labcode.simulation.clock import PaperClock
from labcode.workload import Workload

#: The page example of the textbook chapter (section 31.3): 64 KiB a token, blocks of 16, 64 MiB.
TOKEN_BYTES, BLOCK, POOL_BYTES = 64 * 1024, 16, 64 * 1024**2
POOL = POOL_BYTES // TOKEN_BYTES


@dataclass
class Watch:
    """A cost that remembers every step's shape; by itself a step takes a second.

    Attributes
    ----------
    cost : CostModel
        What the steps take.
    shapes : list of StepShape
        The steps so far.
    """

    cost: CostModel = field(default_factory=lambda: linear(1.0, 0.0))
    shapes: list[StepShape] = field(default_factory=list)

    def step_time(self, shape: StepShape) -> float:
        """Return how long a step takes, in seconds."""
        self.shapes.append(shape)
        return self.cost.step_time(shape)


class Stepwise:
    """An executor whose steps take a second and are each recorded apart.

    Parameters
    ----------
    output : sequence of int
        True lengths, in tokens.
    """

    def __init__(self, output: Sequence[int]) -> None:
        self.clock = PaperClock(output, linear(1.0, 0.0))

    def execute(self, plan: Plan, start: float, limit: int, until: float) -> tuple[Results, float]:
        """Carry `plan` out once."""
        return self.clock.execute(plan, start, 1, until)


def chunked_steps(prompt: int, chunk: int) -> list[SeqWork]:
    """Return the chunks in which the engine prefills a prompt of `prompt` tokens, one a step."""
    watch = Watch()
    load = workload.from_arrays([0.0], [prompt], [1])
    budgets = Budgets(1, "chunked", chunk)
    simulate(load, model="llama3.1-8b", memory="unlimited", cost=watch, budgets=budgets, step_by_step=True)
    return [work for shape in watch.shapes for work in shape.prefill]


def keys_seen(work: SeqWork) -> int:
    """Return the query-key pairs of a chunk, counted: the r-th new query sees the history and r new keys."""
    return sum(len(range(work.past + r)) for r in range(1, work.new + 1))


def chunk_table(prompt: int, chunks: Iterable[int], costs: dict[str, CostModel]) -> pd.DataFrame:
    """Return what a prompt costs in chunks: steps, pairs, positions read again, and the time alone (ms) by cost."""
    rows = {}
    for chunk in chunks:
        works = chunked_steps(prompt, chunk)
        row: dict[str, float] = {
            "steps": len(works),
            "pairs": sum(map(keys_seen, works)),
            "history read again": sum(work.past for work in works),
        }
        for name, cost in costs.items():
            row[f"{name} (ms)"] = 1000 * sum(cost.step_time(StepShape.of([work])) for work in works)
        rows[chunk] = row
    return pd.DataFrame(rows).T.rename_axis("chunk")


def whole_step(cost: CostModel) -> Callable[[Sequence[tuple[int, int]]], float]:
    """Return an estimate for `Budgets`: seconds of a whole step of (new, past) pairs, by `cost`."""

    def estimate(works: Sequence[tuple[int, int]]) -> float:
        prefill = [SeqWork(new, past) for new, past in works if new > 1 or past == 0]
        decode = [past + 1 for new, past in works if new == 1 and past > 0]
        return cost.step_time(StepShape.of(prefill, len(decode), sum(decode)))

    return estimate


def calibrated(machine: CostModel, model: CostModel, coverage: float = 0.99, seed: int = 1) -> StepTimeEstimate:
    """Return an estimate by `model` that a share `coverage` of the machine's steps stays within.

    The steps are those of 150 long-context requests in chunks of up to 1,024 tokens on an A100, every fifth of them.
    """
    watch = Watch(machine)
    load = workload.long_context(150, 3.0, seed)
    simulate(load, gpu="a100-80", memory="oracle", cost=watch, prefill="chunked", token_budget=1024, step_by_step=True)
    return estimate_margin(model, [(shape, machine.step_time(shape)) for shape in watch.shapes[::5]], coverage)


def page_run(third: int | None = None, steps: int = 3, memory: str | Memory = "paged:16") -> Run:
    """Run the two sequences of 257 and 255 tokens; a third of 256, if it is wanted, comes after their prefill.

    Parameters
    ----------
    third : int, optional
        The most positions that the third may come to hold.
    steps : int
        Tokens that the first two get.
    """
    arrival, prompt, output = [0.0, 0.0], [257, 255], [steps, steps]
    if third is not None:
        arrival, prompt, output = [*arrival, 0.5], [*prompt, 256], [*output, third - 256 + 1]
    load = workload.from_arrays(arrival, prompt, output)
    return simulate(load, memory=memory, capacity=POOL, executor=Stepwise(load.output.tolist()))


def blocks_taken(run: Run) -> list[int]:
    """Return the blocks that are taken at the end of each step."""
    return [int(tokens) // BLOCK for tokens in run.steps.kv_reserved]


def whole_need(request: Request) -> int:
    """Return all the positions that a request may come to hold, in whole blocks (tokens)."""
    return -(-positions_needed(request) // BLOCK) * BLOCK


def final(request: Request) -> int:
    """Return what an oracle reserves, in tokens."""
    return positions_needed(request, request.expected)


def rounded_up(request: Request) -> int:
    """Return what `pow2` reserves, in tokens."""
    return positions_needed(request, power_of_two(request.expected))


#: How a reservation is placed: what stands for the memory, from the pool (tokens) and the policy's need.
PLACEMENTS: dict[str, Callable[[int, Need], Memory] | None] = {
    "anywhere": None,
    "first fit": FirstFit,
    "buddies": Buddy,
}


def fragmentation(seeds: int = 3, n: int = 1000, gpu: str = "a100-80", cost: str = "paper") -> pd.DataFrame:
    """Return what a saturated engine makes of the pool when every reservation lies in one piece: means over seeds.

    Shares of the pool that are written and held, and the drain rate over that of an oracle whose tokens lie anywhere.
    """
    pool = kv_capacity("llama3-8b", gpu)
    loads = [workload.long_context(n, 1.0, seed) for seed in range(seeds)]
    rows: dict[tuple[str, str], list[Saturated]] = {}
    for policy, need in (("oracle", final), ("pow2", rounded_up)):
        for name, make in PLACEMENTS.items():
            rows[policy, name] = [
                saturated(load, memory=policy if make is None else make(pool, need), gpu=gpu, cost=cost)
                for load in loads
            ]
    for watermark in (0.0, 0.01):
        rows["blocks", f"{watermark:.0%} kept free"] = [
            saturated(load, memory="paged:16", watermark=watermark, gpu=gpu, cost=cost) for load in loads
        ]
    ideal = np.mean([one.rate for one in rows["oracle", "anywhere"]])
    table = {
        key: {
            "written": np.mean([one.written for one in seen]),
            "held": np.mean([one.reserved for one in seen]),
            "pace": np.mean([one.rate for one in seen]) / ideal,
        }
        for key, seen in rows.items()
    }
    return pd.DataFrame(table).T.rename_axis(["reserved", "placed"])


def conversations() -> Workload:
    """Return the first 600 requests of Mooncake's conversation trace, with the hashes of their blocks of 512 tokens."""
    with as_file(files("labcode.course.evidence") / "data" / "mooncake_600.csv") as path:
        return workload.from_file(path)


def recorded_hits() -> pd.DataFrame:
    """Return the recorded shares of the whole excerpt of 5,000 requests: pool (tokens), share that is found."""
    with (files("labcode.course.evidence") / "data" / "mooncake_hits.csv").open() as file:
        return pd.read_csv(file)


def sharing_run(load: Workload, pool: int, share: bool = True, rate: float = 0.9) -> Run:
    """Serve conversations on one H100 with a pool of `pool` tokens, with or without shared prefixes."""
    memory = "shared:512" if share else "paged:512"
    return simulate(load.at_rate(rate), model="llama3.1-8b", memory=memory, watermark=0.01, capacity=pool)


def hit_share(run: Run) -> float:
    """Return which share of all prompt tokens was not computed because it was in the pool (no preemptions)."""
    return float(1 - run.steps.prefill_tokens.sum() / run.load.prompt.sum())


def hit_shares(load: Workload, pools: Iterable[int]) -> dict[int, float]:
    """Return the share of prompt tokens that pools of so many tokens give back."""
    return {pool: hit_share(sharing_run(load, pool)) for pool in pools}


def repeated(load: Workload, block: int = 512) -> float:
    """Return the share of prompt tokens that somebody computed before: what a pool without end would give back."""
    seen: set[int] = set()
    hits = 0
    for hashes, prompt in zip(load.prefix if load.prefix is not None else (), load.prompt, strict=True):
        known = next((i for i, one in enumerate(hashes) if one not in seen), len(hashes))
        hits += min(known, (int(prompt) - 1) // block) * block
        seen.update(hashes[: int(prompt) // block])
    return float(hits / load.prompt.sum())


# The other side of the chapter's comparisons: loads and pools on which they come out differently --------------------


def output_heavy(n: int, seed: int) -> Workload:
    """Return `n` requests with prompts of about 200 tokens and answers of about 1,000, log-normal with sigma 1.

    The senders' limit is 4,096 for all of them.  Arrival times do not matter: it is for a queue that is never empty.
    """
    rng = np.random.default_rng(seed)

    def lengths(mean: float, most: int) -> NDArray[np.int64]:
        return np.clip(rng.lognormal(np.log(mean) - 0.5, 1.0, n), 4, most).astype(np.int64)

    return workload.from_arrays(0.001 * np.arange(n), lengths(200, 4096), lengths(1000, 4000), max_tokens=[4096] * n)


#: Load and pool -> (what makes the load from a seed, options of `simulate`); without a size the pool is an A100's.
ELSEWHERE: dict[str, tuple[Callable[[int], Workload], dict[str, Any]]] = {
    "long context": (lambda seed: workload.long_context(1500, 1.0, seed), {}),
    "long context, 60,000 tokens": (lambda seed: workload.long_context(1500, 1.0, seed), {"capacity": 60_000}),
    "chat": (lambda seed: workload.chat(3000, 1.0, seed), {}),
    "chat, 64 places": (lambda seed: workload.chat(3000, 1.0, seed), {"max_bs": 64}),
    "chat, 30,000 tokens": (lambda seed: workload.chat(1500, 1.0, seed), {"capacity": 30_000}),
    "output-heavy, 60,000 tokens": (lambda seed: output_heavy(1500, seed), {"capacity": 60_000}),
}


def elsewhere(where: str, ways: Mapping[str, Mapping[str, Any]], seeds: int = 3) -> Values:
    """Return the drain rates of `ways` on the load and pool `where` of `ELSEWHERE`, under the three costs (A100)."""
    make, options = ELSEWHERE[str(one_of("where", where, list(ELSEWHERE)))]
    return under_costs(make, {name: {**options, **way} for name, way in ways.items()}, seeds=seeds)


def changes(rates: Mapping[str, Values], base: str) -> pd.DataFrame:
    """Return by how many per cent each setting differs from `base`: a row a load, columns (setting, cost)."""
    return pd.DataFrame(
        {
            where: {key: 100 * change(values, key[0], base, key[1]).mean for key in values if key[0] != base}
            for where, values in rates.items()
        }
    ).T


def over_costs(table: pd.DataFrame) -> pd.DataFrame:
    """Return `changes` with one column a setting: the least and the greatest under the costs, as a text."""
    names = table.columns.get_level_values(0).unique()
    return pd.DataFrame(
        {name: [f"{row.min():+z.0f} to {row.max():+z.0f}" for row in table[name].to_numpy()] for name in names},
        index=table.index,
    )
