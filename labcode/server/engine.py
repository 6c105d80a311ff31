"""The third driver of the scheduler: an event loop.  The first two are the simulator and the mini model's replay.

Only the event loop touches the scheduler; only one thread runs the model, and only while the loop waits for it.  So
nothing needs a lock: between two steps everything is at rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from labcode.cost import StepShape
from labcode.model.executor import ModelExecutor
from labcode.scheduler import Plan, Refusal, Request, Results, Scheduler
from labcode.scheduler.states import TERMINAL, State
from labcode.simulation.clock import FOREVER, step_shape

STOPPING = "the server is shutting down"
DOES_NOT_READ = "its client has taken nothing for {seconds:g} s"


class Refused(Exception):
    """A request was not taken in; `refusal` says why, `retry_after` when to come again (s; None: never)."""

    def __init__(self, refusal: Refusal, retry_after: float | None) -> None:
        super().__init__(refusal.reason)
        self.refusal, self.retry_after = refusal, retry_after


class Observer(Protocol):
    """Hears what happens; see :mod:`labcode.server.metrics`."""

    def token(self, stream: Stream, since_arrival: float, since_last: float | None) -> None:
        """Hear that a token came out, and how long after the request and after its last token (s)."""

    def ended(self, outcome: str, seconds: float) -> None:
        """Hear that a request ended, after so many seconds."""

    def step(self, shape: StepShape, seconds: float) -> None:
        """Hear that a step was carried out."""


class Stream:
    """One request's answer on its way from the model to whoever reads it.

    Attributes
    ----------
    outcome : State or None
        How it ended; None while it runs.
    reason : str
        Why, if it did not finish.
    sent : int
        Tokens that have been taken out of the buffer.
    """

    def __init__(self, engine: Engine, request: Request) -> None:
        self.engine, self.request = engine, request
        self.id = request.id
        self.tokens: deque[int] = deque()
        self.outcome: State | None = None
        self.reason = ""
        self.made = self.sent = 0
        self.last: float | None = None
        self.ready = asyncio.Event()

    async def take(self) -> list[int]:
        """Return all tokens that wait, at least one; [] once the answer has ended and everything was taken."""
        while not self.tokens and self.outcome is None:
            self.ready.clear()
            await self.ready.wait()
        taken = list(self.tokens)
        self.tokens.clear()
        self.sent += len(taken)
        self.engine.drained(self)
        return taken

    def close(self, outcome: State = State.CANCELLED, reason: str = "") -> None:
        """Say that nobody reads any more; nothing happens if the answer has ended."""
        self.engine.abandon(self, outcome, reason)


class Engine:
    """Drives a scheduler with a model.

    Parameters
    ----------
    scheduler : Scheduler
    executor : ModelExecutor
    output_buffer : int
        Tokens that may wait in a stream before its request pauses (one more in flight may join them).
    observer : Observer, optional
    clock : callable
        Seconds since some moment, never going back.

    Attributes
    ----------
    outcomes : Counter of str
        How many requests have ended, and how; with those in `streams` they add up to all that came.
    samples : deque of (StepShape, float)
        The last steps and the seconds from one plan to the next: what :mod:`labcode.cost.calibration` wants.
    stopping : bool
        Whether new requests are refused.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        executor: ModelExecutor,
        output_buffer: int = 64,
        observer: Observer | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.scheduler, self.executor = scheduler, executor
        self.output_buffer, self.observer = output_buffer, observer
        self.clock, self.origin = clock, clock()
        self.streams: dict[int, Stream] = {}
        self.outcomes: Counter[str] = Counter()
        self.samples: deque[tuple[StepShape, float]] = deque(maxlen=20_000)
        self.stopping = False
        self.came = 0
        self._ends: deque[float] = deque(maxlen=64)
        self._gone: list[int] = []
        self._wake = asyncio.Event()

    def now(self) -> float:
        """Return the time since the engine was made, in seconds."""
        return self.clock() - self.origin

    # What handlers of requests call ---------------------------------------------------------------------------

    def submit(
        self,
        prompt: list[int],
        max_tokens: int,
        deadline: float | None = None,
        tenant: str = "",
        ignore_eos: bool = False,
    ) -> Stream:
        """Take a request in and return its stream.

        Parameters
        ----------
        deadline : float, optional
            Seconds from now.

        Raises
        ------
        Refused
            By an admission check, or because the server stops.
        """
        now, number = self.now(), self.came
        self.came += 1
        if self.stopping:
            self.outcomes[State.REFUSED.value] += 1
            raise Refused(Refusal("stopping", STOPPING), 1.0)
        request = Request(
            number, len(prompt), max_tokens, now, None if deadline is None else now + deadline, tenant,
        )  # fmt: skip
        refusal = self.scheduler.add(request, now)
        self._settle()
        if refusal is not None:
            raise Refused(refusal, self.retry_after() if refusal.kind in ("queue", "quota", "deadline") else None)
        self.executor.add(number, prompt, ignore_eos)
        stream = self.streams[number] = Stream(self, request)
        self._wake.set()
        return stream

    def retry_after(self) -> float:
        """Return when a place in the queue should be free, s: one end is enough, at the pace of the last ones."""
        if len(self._ends) < 2:
            return 1.0
        return max(1.0, (self.now() - self._ends[0]) / len(self._ends))

    def drained(self, stream: Stream) -> None:
        """Let a request go on whose buffer was emptied."""
        state = self.scheduler.requests.get(stream.id)
        if state is not None and state.state is State.PAUSED:
            self.scheduler.resume(stream.id)
            self._wake.set()

    def abandon(self, stream: Stream, outcome: State, reason: str) -> None:
        """End a request that nobody reads any more."""
        if outcome is State.TIMED_OUT:
            self.scheduler.time_out(stream.id, self.now(), reason)
        else:
            self.scheduler.cancel(stream.id, self.now())
        self._settle()
        self._wake.set()

    def stop(self) -> None:
        """Refuse new requests from now on; `run` returns when the last one has ended."""
        self.stopping = True
        self._wake.set()

    def give_up(self) -> None:
        """End everybody who is left: the time to finish is over."""
        self.scheduler.update(Plan(), Results(failed=dict.fromkeys(self.streams, STOPPING)), self.now())
        self._settle()
        self._wake.set()

    # The loop -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until `stop` was called and nobody is left."""
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, "model") as thread:
            while self.streams or not self.stopping:
                self._drop_gone()
                self._wake.clear()
                start = self.now()
                plan = self.scheduler.schedule(start)
                self._settle()
                if not plan:
                    self.executor.release(plan)
                    if not plan.preempted:
                        await self._sleep(self.scheduler.wake_at() - start)
                    continue
                shape = step_shape(plan)
                try:
                    results, _ = await loop.run_in_executor(
                        thread, self.executor.execute, plan, start, 1, FOREVER,
                    )  # fmt: skip
                except Exception as error:
                    results = Results(failed=dict.fromkeys(members(plan), f"the model failed: {error}"))
                self._after(plan, results)
                # Whoever has a token sends it before the model takes the processor again.
                await asyncio.sleep(0)
                seconds = self.now() - start
                self.samples.append((shape, seconds))
                if self.observer is not None:
                    self.observer.step(shape, seconds)
            self._drop_gone()

    async def _sleep(self, seconds: float) -> None:
        """Wait until something happens, or `seconds` have passed."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), None if seconds == FOREVER else max(0.0, seconds))

    def _after(self, plan: Plan, results: Results) -> None:
        """Account for a step: tokens to their streams, the buffers' limits, the ends."""
        now = self.now()
        # Tokens first: who finishes now is forgotten by the executor a moment later.
        self.scheduler.update(plan, Results(), now)
        for number in members(plan):
            stream = self.streams.get(number)
            if stream is not None and number not in results.failed:
                self._emit(stream, self.executor.output(number)[stream.made :], now)
        self.scheduler.update(Plan(), Results(results.finished, results.failed), now)
        self._settle()
        for number in members(plan):
            stream, state = self.streams.get(number), self.scheduler.requests.get(number)
            full = stream is not None and len(stream.tokens) >= self.output_buffer
            if full and state is not None and state.state is State.DECODING:
                self.scheduler.pause(number)

    def _emit(self, stream: Stream, tokens: list[int], now: float) -> None:
        for token in tokens:
            stream.tokens.append(token)
            stream.made += 1
            if self.observer is not None:
                since = None if stream.last is None else now - stream.last
                self.observer.token(stream, now - stream.request.arrival, since)
            stream.last = now
        if tokens:
            stream.ready.set()

    def _settle(self) -> None:
        """Close the streams of those who have ended, and forget them: a server's memory is finite."""
        ended, now = self.scheduler.ended, self.now()
        for state in ended:
            assert state.state in TERMINAL
            self.outcomes[state.state.value] += 1
            self._ends.append(now)
            if self.observer is not None:
                self.observer.ended(state.state.value, now - state.request.arrival)
            stream = self.streams.pop(state.id, None)
            if stream is not None:
                stream.outcome, stream.reason = state.state, state.reason
                stream.ready.set()
            self.scheduler.forget(state.id)
            self._gone.append(state.id)
        ended.clear()

    def _drop_gone(self) -> None:
        """Let the executor forget those who have ended; never while the model runs."""
        for number in self._gone:
            self.executor.drop(number)
        self._gone.clear()


def members(plan: Plan) -> list[int]:
    """Return who computes something in a plan."""
    return [work.request.id for work in plan.prefill] + [state.id for state in plan.decode]
