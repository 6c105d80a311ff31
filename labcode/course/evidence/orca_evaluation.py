"""Orca's end-to-end experiment (Yu et al. 2022, section 6.2) on a paper machine: row L33 of the ledger.

A 175B model in two inter-layer partitions of eight A100-40GB each (their table 1).  Both systems get the same
requests: prompts U(32, 512), outputs U(1, 128), Poisson arrivals, nobody stops early.  What is compared is
the *normalised latency*, the time from arrival to the whole answer per output token, at its median; and the
target is the paper's: twice what a request alone needs (128 prompt tokens, 32 output tokens; on their machine
that was 190 ms).

Their baseline is FasterTransformer behind a scheduler that takes up to `max_bs` waiting requests.  Its three
handicaps can be switched on one by one:

- whole batch in, whole batch out, and every answer waits for the batch (always);
- two partitions, of which one batch without micro-batches keeps one busy at a time (``stages=2``; the paper
found the
  settings without micro-batches the best);
- the first iteration treats all prompts as if they were as long as the shortest, and the rest of the longer
prompts goes
  in one token an iteration (``shortest_prefix=True``; section 6.2 says so).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from labcode import workload
from labcode.checks import integer, positive
from labcode.cost import CostModel, StepShape, paper
from labcode.cost.hardware import SeqWork, gpu, kv_capacity
from labcode.cost.leap import SAME_INSTANT
from labcode.results.metrics import percentile
from labcode.simulation.algorithm1 import OrcaScheduler
from labcode.workload import Workload

MODEL, GPU, GPUS = "gpt3-175b", "a100-40", 16
MAX_CONTEXT = 2048
FT_SIZES = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Machine:
    """Sixteen GPUs in `stages` inter-layer partitions.

    Attributes
    ----------
    stages : int
        1: one ideal device of sixteen; 2: as in the paper.
    """

    stages: int = 2

    @property
    def cost(self) -> CostModel:
        """Time of an iteration that passes through all stages: at any moment it has ``16/stages`` GPUs to
        itself."""
        return paper(MODEL, gpu(f"{GPUS // integer('stages', self.stages)}x{GPU}"))

    @property
    def slots(self) -> int:
        """KV slots beside the weights, in tokens."""
        return kv_capacity(MODEL, f"{GPUS}x{GPU}")


def normalised(load: Workload, finished: np.ndarray) -> np.ndarray:
    """Return arrival to end per output token, s, shape (n,)."""
    return (finished - load.arrival) / load.output


def orca(load: Workload, max_bs: int, machine: Machine) -> np.ndarray:
    """Return when Algorithm 1 finishes each request, s; as many batches in flight as there are stages."""
    return OrcaScheduler(load, machine.cost, max_bs, machine.slots, machine.stages).serve().finished


def faster_transformer(load: Workload, max_bs: int, machine: Machine, shortest_prefix: bool = True) -> np.ndarray:
    """Return when the baseline finishes each request, s.

    An idle engine takes up to `max_bs` waiting requests, and the batch returns as a whole.  KV cache is
    allocated for 2048 tokens a sequence, which bounds `max_bs`.

    Raises
    ------
    ValueError
        If `max_bs` sequences of 2048 tokens do not fit.
    """
    most = machine.slots // MAX_CONTEXT
    max_bs = integer("max_bs", max_bs, at_most=most)
    cost, arrival, head, now = machine.cost, load.arrival, 0, 0.0
    finished = np.empty(len(load))
    while head < len(load):
        now = max(now, float(arrival[head]))
        waiting = int(np.searchsorted(arrival, now + SAME_INSTANT, "right"))
        batch = slice(head, min(waiting, head + max_bs))
        prompt, output = load.prompt[batch], load.output[batch]
        first = int(prompt.min() if shortest_prefix else prompt.max())
        # Everyone starts at the same position; whoever has a longer prompt feeds the rest of it in token by
        # token.
        steps = int((np.maximum(prompt - first, 0) + output).max()) - 1
        size = len(prompt)
        now += cost.step_time(StepShape.of([SeqWork(first)] * size))
        if steps:
            _, now = cost.advance(StepShape.of((), size, size * (first + 1)), now, steps)
        finished[batch] = now
        head = batch.stop
    return finished


def lone_target(machine: Machine, multiple: float = 2.0) -> float:
    """Return a latency target: `multiple` times the normalised time of a request that has the machine to itself, s.

    The paper takes twice the time of its engine with 128 prompt tokens, which generates 32 tokens (figure 9c).
    """
    alone = workload.fixed(n=1, prompt=128, output=32)
    return positive("multiple", multiple) * float(normalised(alone, orca(alone, 1, machine))[0])


def largest_rate(
    serve: Callable[[Workload], np.ndarray],
    load: Workload,
    target: float,
    low: float = 0.02,
    high: float = 64.0,
    ratio: float = 1.02,
) -> float:
    """Return the largest rate (requests/s) whose median normalised latency is within `target`, to a factor of
    `ratio`.

    0 if even `low` is too much; the median is taken to grow with the rate.
    """
    positive("target", target)

    def meets(rate: float) -> bool:
        at = load.at_rate(rate)
        return percentile(normalised(at, serve(at)), 50) <= target

    if not meets(low):
        return 0.0
    if meets(high):
        return high
    while high / low > ratio:
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if meets(middle) else (low, middle)
    return low


@lru_cache(maxsize=64)
def _orca_rate(n: int, seed: int, stages: int, max_bs: int, target: float) -> float:
    """Return Orca's largest rate; kept, since the switches of the baseline do not touch it."""
    load = workload.orca_paper(n=n, rate=1.0, seed=seed)
    return largest_rate(partial(orca, max_bs=max_bs, machine=Machine(stages)), load, target)


def compare(
    n: int = 1500,
    seed: int = 0,
    stages: int = 2,
    shortest_prefix: bool = True,
    ft_sizes: tuple[int, ...] = FT_SIZES,
    orca_sizes: tuple[int, ...] = (128,),
    multiple: float = 2.0,
) -> dict[str, float]:
    """L33: rates within the target, by batch size, and the ratio of the best of each.

    Returns
    -------
    dict
        ``target_s``; ``ft_1``, ``ft_2`` ... and ``orca_128`` ... (requests/s); ``ft_best``, ``orca_best``,
        ``ratio``.
    """
    machine, load = Machine(stages), workload.orca_paper(n=n, rate=1.0, seed=seed)
    target = lone_target(machine, multiple)
    rates = {"target_s": target}
    for size in ft_sizes:
        baseline = partial(faster_transformer, max_bs=size, machine=machine, shortest_prefix=shortest_prefix)
        rates[f"ft_{size}"] = largest_rate(baseline, load, target)
    for size in orca_sizes:
        rates[f"orca_{size}"] = _orca_rate(n, seed, stages, size, target)
    rates["ft_best"] = max(rates[f"ft_{size}"] for size in ft_sizes)
    rates["orca_best"] = max(rates[f"orca_{size}"] for size in orca_sizes)
    rates["ratio"] = rates["orca_best"] / rates["ft_best"]
    return rates
