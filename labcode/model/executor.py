"""The mini model under the scheduler's plans: one scheduler, two clocks.

`ModelExecutor` stands where `labcode.simulation.clock.PaperClock` stands otherwise.  It carries every plan out on the
real model, so that tokens are really generated, and says how long the plan took: by the clock on the wall, or by the
cost model of a paper GPU.  With the latter the schedule is the simulated one, decision for decision, and what comes out
of it can be held against each request generated alone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from labcode.checks import integer, one_of
from labcode.cost import CostModel, StepShape, as_cost
from labcode.model.cache import KVCache
from labcode.model.counters import Counter
from labcode.model.forward import Chunk, forward_ragged
from labcode.model.weights import Llama
from labcode.results.run import Run
from labcode.scheduler.request import Plan, Results
from labcode.scheduler.scheduler import SAME_INSTANT
from labcode.simulation.clock import step_shape
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
    lengths : sequence of int, optional
        Tokens after which each answer ends; without it, the sender's limit.
    stop : int, optional
        Token that ends an answer (and is its last): a length that nobody knows beforehand.
    clock : CostModel or "measured"
        What says how long a step takes: a cost model (the tokens are real, the time is on paper), or this
        machine.

    Attributes
    ----------
    count : Counter
        What the model has computed.

    Raises
    ------
    ValueError
        If `clock` is neither; and by `execute` if a plan and the prompts do not fit together.
    """

    def __init__(
        self,
        model: Llama,
        prompts: Sequence[Sequence[int]],
        clock: CostModel | str = "measured",
        lengths: Sequence[int] | None = None,
        stop: int | None = None,
    ) -> None:
        self.model = model
        if isinstance(clock, str):
            one_of("clock", clock, ("measured",))
        self.cost = None if isinstance(clock, str) else as_cost(clock)
        self.lengths, self.stop = lengths, stop
        self.count = Counter()
        self._prompts: dict[int, list[int]] = {}
        self._outputs: dict[int, list[int]] = {}
        self._endless: set[int] = set()
        self._caches: dict[int, KVCache] = {}
        self._host: dict[int, KVCache] = {}  # of those who were preempted by swapping
        for number, prompt in enumerate(prompts):
            self.add(number, prompt)

    @property
    def outputs(self) -> list[list[int]]:
        """The tokens that each request has got so far, in the order in which they were added."""
        return list(self._outputs.values())

    def add(self, number: int, prompt: Sequence[int], endless: bool = False) -> None:
        """Make a request known: what it asks, and whether `stop` is no end for it."""
        self._prompts[number], self._outputs[number] = list(prompt), []
        if endless:
            self._endless.add(number)

    def drop(self, number: int) -> None:
        """Forget a request with all that it holds; one that is not known is no matter."""
        for table in (self._prompts, self._outputs, self._caches):
            table.pop(number, None)
        self._endless.discard(number)

    def output(self, number: int) -> list[int]:
        """Return the tokens that a request has got so far; [] for one that is not known."""
        return self._outputs.get(number, [])

    def execute(self, plan: Plan, start: float, limit: int, until: float) -> tuple[Results, float]:
        """Carry the plan out, up to `limit` times, no step beginning at or after `until`; return results and end."""
        self.release(plan)
        shape, steps, end = step_shape(plan), 0, start
        finished: list[int] = []
        while steps == 0 or (steps < limit and not finished and end < until - SAME_INSTANT):
            began = time.perf_counter()
            finished = self._step(plan)
            end += time.perf_counter() - began if self.cost is None else self.cost.step_time(shape)
            # The same sequences again: each finds one position more.
            shape = StepShape.of((), shape.n_decode, shape.decode_kv + shape.n_decode)
            steps += 1
        return Results(finished, steps=steps), end

    def release(self, plan: Plan) -> None:
        """Drop the caches of those whom the plan preempts."""
        for work in plan.swapped_out:
            self._host[work.request.id] = self._caches.pop(work.request.id)
        for state in plan.preempted:
            self._caches.pop(state.id, None)
        for work in plan.swapped_in:
            self._caches[work.request.id] = self._host.pop(work.request.id)

    @property
    def cached(self) -> int:
        """Positions that the caches hold now, in tokens."""
        return sum(cache.length for cache in self._caches.values())

    def _step(self, plan: Plan) -> list[int]:
        """Make one forward pass over everybody in the plan and keep the tokens; return whose answer ended."""
        batch: list[Chunk] = []
        receivers: list[int | None] = []  # who gets the token; nobody for a chunk that does not end its prompt
        for work in plan.prefill:
            request = work.request.request
            if work.past == 0:  # a new request, or one that was preempted and starts again
                self._caches[request.id] = KVCache(self.model)
            text = [*self._prompt(request.id, request.prompt), *self._outputs[request.id]]
            batch.append(Chunk(text[work.past : work.past + work.new], self._holding(request.id, work.past)))
            receivers.append(request.id if work.yields else None)
        for state in plan.decode:
            batch.append(Chunk(self._outputs[state.id][-1:], self._caches[state.id]))
            receivers.append(state.id)
        tokens = forward_ragged(self.model, batch, self.count).argmax(axis=1)
        finished = []
        limits = {state.id: state.request.max_tokens for state in plan.decode}
        limits |= {work.request.id: work.request.request.max_tokens for work in plan.prefill}
        for number, token in zip(receivers, tokens.tolist(), strict=True):
            if number is None:
                continue
            self._outputs[number].append(token)
            length = limits[number] if self.lengths is None else self.lengths[number]
            ended = token == self.stop and number not in self._endless
            if ended or len(self._outputs[number]) >= length:
                finished.append(number)
                self._caches.pop(number, None)
        return finished

    def _prompt(self, number: int, length: int) -> list[int]:
        prompt = self._prompts.get(number)
        if prompt is None or len(prompt) != length:
            given = "nothing" if prompt is None else f"{len(prompt)} tokens"
            raise ValueError(f"prompts[{number}]: {given} given, the workload says {length} tokens")
        return prompt

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
