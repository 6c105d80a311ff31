"""The mini model under the engine's plans: one scheduler, two clocks.

`ModelExecutor` stands where `labcode.simulation.engine.PaperClock` stands otherwise. It carries every plan out
on the real model, so that tokens are really generated, and says how long the plan took: by the clock on the
wall, or by the cost model of a paper GPU. With the latter the schedule is the simulated one, decision for
decision, and what comes out of it can be held against each request generated alone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from labcode.checks import integer, one_of
from labcode.cost import as_cost
from labcode.cost.base import HasStepTime
from labcode.cost.leap import SAME_INSTANT
from labcode.model.cache import KVCache
from labcode.model.counters import Counter
from labcode.model.forward import Chunk, forward_ragged
from labcode.model.weights import Llama
from labcode.results.run import Run
from labcode.simulation.engine import PaperClock, Plan
from labcode.workload import Workload


def random_prompts(load: Workload, vocab: int, seed: int = 0) -> list[list[int]]:
    """Return random token ids for every request of `load`, as many as its prompt has tokens."""
    rng = np.random.default_rng(integer("seed", seed, at_least=0))
    return [rng.integers(0, vocab, int(length)).tolist() for length in load.prompt]


class ModelExecutor:
    """Carries plans out on a real model.

    Parameters
    ----------
    model : Llama
        The model.
    prompts : sequence of token sequences
        By the number of the request; as long as the workload says.
    clock : CostModel or "measured"
        What says how long a step takes: a cost model (the tokens are real, the time is on paper), or this
        machine.

    Attributes
    ----------
    outputs : list of list of int
        The tokens that each request has got so far.
    count : Counter
        What the model has computed.

    Raises
    ------
    ValueError
        If `clock` is neither; and by `execute` if a plan and the prompts do not fit together.
    """

    def __init__(self, model: Llama, prompts: Sequence[Sequence[int]], clock: HasStepTime | str = "measured") -> None:
        self.model = model
        self.prompts = [list(prompt) for prompt in prompts]
        if isinstance(clock, str):
            one_of("clock", clock, ("measured",))
        self.paper = None if isinstance(clock, str) else PaperClock(as_cost(clock))
        self.outputs: list[list[int]] = [[] for _ in prompts]
        self.count = Counter()
        self._caches: dict[int, KVCache] = {}

    def execute(self, plan: Plan, start: float, until: float) -> tuple[int, float]:
        """Run up to ``plan.steps`` steps, none that begins at or after `until`; return (steps, end in seconds)."""
        if self.paper is not None:
            steps, end = self.paper.execute(plan, start, until)
            for _ in range(steps):
                self._step(plan)
            return steps, end
        steps, end = 0, start
        while steps == 0 or (steps < plan.steps and end < until - SAME_INSTANT):
            began = time.perf_counter()
            self._step(plan)
            steps, end = steps + 1, end + time.perf_counter() - began
        return steps, end

    def drop(self, number: int) -> None:
        """Give back the cache of a request that is preempted; the engine calls it when that happens."""
        self._caches.pop(number, None)

    @property
    def cached(self) -> int:
        """Positions that the caches hold now, in tokens."""
        return sum(cache.length for cache in self._caches.values())

    def _step(self, plan: Plan) -> None:
        """Make one forward pass over everybody in the plan, and keep the tokens that come out."""
        batch: list[Chunk] = []
        receivers: list[int | None] = []  # who gets the token; nobody for a chunk that does not end its prompt
        for sequence, work in plan.prefill:
            request = sequence.request
            if work.past == 0:  # a new request, or one that was preempted and starts again
                self._caches[request.id] = KVCache(self.model)
            text = [*self._prompt(request.id, request.prompt), *self.outputs[request.id]]
            batch.append(Chunk(text[work.past : work.past + work.new], self._holding(request.id, work.past)))
            receivers.append(request.id if work.past + work.new == sequence.target else None)
        for number in plan.decode:
            batch.append(Chunk(self.outputs[number][-1:], self._caches[number]))
            receivers.append(number)
        tokens = forward_ragged(self.model, batch, self.count).argmax(axis=1)
        for receiver, token in zip(receivers, tokens.tolist(), strict=True):
            if receiver is not None:
                self.outputs[receiver].append(token)
        for sequence in [*(s for s, _ in plan.prefill), *plan.decode.values()]:
            if len(self.outputs[sequence.request.id]) == sequence.request.output:
                self._caches.pop(sequence.request.id, None)

    def _prompt(self, number: int, length: int) -> list[int]:
        if number >= len(self.prompts) or len(self.prompts[number]) != length:
            given = f"{len(self.prompts[number])} tokens" if number < len(self.prompts) else "nothing"
            raise ValueError(f"prompts[{number}]: {given} given, the workload says {length} tokens")
        return self.prompts[number]

    def _holding(self, number: int, past: int) -> KVCache:
        """Return the cache of a request, which the plan believes to hold `past` positions."""
        cache = self._caches[number]
        if cache.length != past:
            raise ValueError(f"request {number}: the plan counts on {past} cached positions, {cache.length} are there")
        return cache


def replay(run: Run, model: Llama, prompts: Sequence[Sequence[int]]) -> list[list[int]]:
    """Carry the recorded schedule of a finished run out on the model; return every request's tokens.

    The request-level engines make no plans, so their schedules are replayed from their records: each
    segment's prefills and decodes, all sequences of a step in one forward pass.

    Parameters
    ----------
    run : Run
        Any run whose prompts were prefilled whole and without preemptions.
    model : Llama
        The model.
    prompts : sequence of token sequences
        By the number of the request.

    Raises
    ------
    ValueError
        If the run was chunked or preempted somebody, or lengths do not fit.
    """
    record = run.record
    if record.preemptions.any() or len(set(record.span_request.tolist())) < len(record.span_request):
        raise ValueError("run: requests were preempted; give the engine a ModelExecutor instead")
    for i, (prompt, length) in enumerate(zip(prompts, run.load.prompt, strict=True)):
        if len(prompt) != length:
            raise ValueError(f"prompts[{i}]: {len(prompt)} tokens given, the workload says {length} tokens")
    s = record.segments
    outputs: list[list[int]] = [[] for _ in prompts]
    caches: dict[int, KVCache] = {}
    spans = list(
        zip(record.span_request.tolist(), record.span_time.tolist(), record.span_first.tolist(),
            record.span_count.tolist(), strict=True)
    )  # fmt: skip
    made = 0
    for k in range(len(s["start"])):
        joining = [i for i, at, _, _ in spans if at == s["end"][k]] if s["n_prefill"][k] else []
        if len(joining) != s["n_prefill"][k] or sum(len(prompts[i]) for i in joining) > s["prefill_tokens"][k]:
            raise ValueError("run: prompts were prefilled in chunks; give the engine a ModelExecutor instead")
        for _ in range(s["steps"][k]):
            decoding = [i for i, _, first, count in spans if first <= made < first + count] if s["n_decode"][k] else []
            caches.update({i: KVCache(model) for i in joining})
            batch = [Chunk(prompts[i], caches[i]) for i in joining]
            batch += [Chunk(outputs[i][-1:], caches[i]) for i in decoding]
            for i, token in zip([*joining, *decoding], forward_ragged(model, batch).argmax(axis=1), strict=True):
                outputs[i].append(int(token))
            made += bool(s["n_decode"][k])
    return outputs
