"""An engine whose clients read as they like: output buffers, pauses, and an end with a record for every stream.

Backpressure runs from the client's socket to the door: a full buffer pauses its request, a paused request keeps its
place and blocks, places that are taken let the queue grow, and a bounded queue refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from labcode.checks import integer, non_negative, one_of
from labcode.scheduler.kv_cache import Paged
from labcode.scheduler.request import Plan, Request, Results
from labcode.scheduler.scheduler import SAME_INSTANT, Scheduler
from labcode.scheduler.states import TERMINAL, State
from labcode.simulation.buffers import OutputBuffer
from labcode.simulation.clock import FOREVER, Executor

ACTIONS = ("buffer", "pause", "cancel")


@dataclass(frozen=True)
class Backpressure:
    """What happens when a client does not keep up.

    Attributes
    ----------
    action : {"buffer", "pause", "cancel"}
        Go on without any limit; stop generating until there is room again; end the request at once.
    capacity : int
        Bytes of a stream's buffer (no limit for "buffer").
    event : int
        Bytes of a token's event.
    resume : float
        A paused request goes on when the level is down to this share of the capacity, in [0, 1).
    patience : float
        Seconds that a stream may stay paused in one go, and that it may take to drain after its last token.
    """

    action: str = "pause"
    capacity: int = 65536
    event: int = 256
    resume: float = 0.5
    patience: float = FOREVER

    def __post_init__(self) -> None:
        one_of("action", self.action, ACTIONS)
        integer("capacity", self.capacity, at_least=integer("event", self.event))
        if not 0 <= self.resume < 1:
            raise ValueError(f"resume = {self.resume!r}: must be in [0, 1)")
        if not self.patience > 0:
            raise ValueError(f"patience = {self.patience!r}: must be above 0")


@dataclass
class Stream:
    """A request's way to its client.

    Attributes
    ----------
    outcome : str
        "complete": every event of a finished answer was acknowledged; "cut": it was generated whole, but not fetched
        in time; "cancelled": ended because the client did not keep up; else the scheduler's terminal state.
    ended : float
        When the outcome was known, s.
    paused : float
        Seconds for which it was paused.
    reason : str
    """

    id: int
    buffer: OutputBuffer
    outcome: str = "open"
    ended: float = float("nan")
    generated_at: float = float("nan")
    paused: float = 0.0
    reason: str = ""
    since: float | None = None  # paused since

    @property
    def events(self) -> int:
        """Events generated."""
        return self.buffer.written

    @property
    def acknowledged(self) -> int:
        """Number of the last event that the client has read whole."""
        return self.buffer.acknowledged


@dataclass
class StreamRun:
    """What came of it.

    Attributes
    ----------
    streams : list of Stream
        By request.
    log : list of (float, int, str)
        When (s), whose, what.
    buffered : list of (float, float)
        Time (s) and bytes in all buffers, after each step.
    """

    streams: list[Stream]
    log: list[tuple[float, int, str]] = field(default_factory=list)
    buffered: list[tuple[float, float]] = field(default_factory=list)

    @property
    def peak(self) -> float:
        """Most bytes in all buffers together."""
        return max((level for _, level in self.buffered), default=0.0)


class StreamLoop:
    """Drives a scheduler one step at a time and lets each client read at its own pace.

    Parameters
    ----------
    scheduler : Scheduler
        Fresh; its memory must not preempt, since who comes back from that yields a token whether there is room or not.
    requests : sequence of Request
        By arrival; the id is the place in the sequence.
    executor : Executor
    read : sequence of float
        Bytes/s that each client reads.
    policy : Backpressure
    """

    def __init__(
        self,
        scheduler: Scheduler,
        requests: Sequence[Request],
        executor: Executor,
        read: Sequence[float],
        policy: Backpressure,
    ) -> None:
        if isinstance(scheduler.memory, Paged):
            raise ValueError("scheduler.memory: pages preempt; streams need a memory that reserves")
        if len(read) != len(requests):
            raise ValueError(f"read has {len(read)} paces for {len(requests)} requests")
        capacity = FOREVER if policy.action == "buffer" else policy.capacity
        for pace in read:
            non_negative("read", pace)
        streams = [Stream(i, OutputBuffer(capacity, pace, policy.event)) for i, pace in enumerate(read)]
        self.scheduler, self.requests, self.executor, self.policy = scheduler, requests, executor, policy
        self.run_ = StreamRun(streams)
        self.now, self.arrived = 0.0, 0
        self.open: dict[int, Stream] = {}

    def run(self) -> StreamRun:
        """Serve until every stream has ended.  (A client that never reads ends by `patience`; see `wait`.)"""
        while True:
            self.arrivals()
            self.look_at_clients()
            plan = self.scheduler.schedule(self.now)
            self.note_ends()
            if plan:
                self.step(plan)
            elif not self.wait():
                return self.run_

    def arrivals(self) -> None:
        """Let requests come in up to now."""
        while self.arrived < len(self.requests):
            request = self.requests[self.arrived]
            if request.arrival > self.now + SAME_INSTANT:
                return
            self.open[request.id] = self.run_.streams[self.arrived]
            self.scheduler.add(request, request.arrival)
            self.arrived += 1

    def look_at_clients(self) -> None:
        """Let them read; resume who has room again, end what has waited too long, close what is drained."""
        for stream in list(self.open.values()):
            buffer = stream.buffer
            buffer.advance(self.now)
            state = self.scheduler.requests[stream.id].state
            if stream.since is not None and state is State.PAUSED:
                if self.now >= buffer.falls_to(self.policy.resume * buffer.capacity) - SAME_INSTANT:
                    self.unpause(stream, "resumed")
                    self.scheduler.resume(stream.id)
                elif self.now >= stream.since + self.policy.patience - SAME_INSTANT:
                    self.unpause(stream, "out of patience")
                    self.cancel(stream, f"paused for {self.policy.patience:g} s: its client does not keep up")
            elif state is State.FINISHED:
                if buffer.acknowledged == buffer.written:
                    self.close(stream, "complete", "every event acknowledged")
                elif self.now >= stream.generated_at + self.policy.patience - SAME_INSTANT:
                    self.close(stream, "cut", f"not fetched within {self.policy.patience:g} s of the last token")

    def step(self, plan: Plan) -> None:
        """Carry out a plan; every token becomes an event; whose buffer is full then is paused, or ended."""
        results, self.now = self.executor.execute(plan, self.now, 1, FOREVER)
        yielded = [state.id for state in plan.decode] + [work.request.id for work in plan.prefill if work.yields]
        self.scheduler.update(plan, Results(results.finished, results.failed), self.now)
        for number in yielded:
            self.open[number].buffer.put(self.now)
        self.note_ends()
        for number in yielded:
            stream = self.open.get(number)
            if stream is None or stream.buffer.room or self.scheduler.requests[number].state is not State.DECODING:
                continue
            if self.policy.action == "pause":
                stream.since = self.now
                self.scheduler.pause(number)
                self.log(stream, "paused")
            else:
                self.cancel(stream, "its buffer is full: its client does not keep up")
        for stream in self.open.values():
            stream.buffer.advance(self.now)
        self.run_.buffered.append((self.now, sum(stream.buffer.level for stream in self.open.values())))

    def wait(self) -> bool:
        """Go to the next thing that happens by itself; without one end what is left, and return False."""
        times = [self.scheduler.wake_at()]
        if self.arrived < len(self.requests):
            times.append(self.requests[self.arrived].arrival)
        for stream in self.open.values():
            if stream.since is not None:
                begun, target = stream.since, self.policy.resume * stream.buffer.capacity
            elif stream.generated_at == stream.generated_at:
                begun, target = stream.generated_at, 0.0
            else:  # it waits for a place: nothing of its own will change that
                continue
            times += [stream.buffer.falls_to(target), begun + self.policy.patience]
        until = min(times)
        if until < FOREVER:
            self.now = max(self.now, until)
            return True
        for stream in list(self.open.values()):  # its client will never read, and nobody set it a limit
            self.scheduler.cancel(stream.id, self.now)
            self.close(stream, "cut", "its client has stopped reading")
        return False

    def note_ends(self) -> None:
        """Take over the scheduler's terminal states; a finished request's stream stays open until it is drained."""
        for state in self.scheduler.ended:
            stream = self.open.get(state.id)
            if stream is not None and state.state is State.FINISHED:
                stream.generated_at = self.now
                self.log(stream, "generated")
            elif stream is not None and state.state in TERMINAL:
                self.close(stream, state.state.value, state.reason)
        self.scheduler.ended.clear()

    def unpause(self, stream: Stream, word: str) -> None:
        """Account for a pause that ends."""
        assert stream.since is not None
        stream.paused += self.now - stream.since
        stream.since = None
        self.log(stream, word)

    def cancel(self, stream: Stream, reason: str) -> None:
        """End a request on account of its client; what it holds is given back by the scheduler."""
        self.close(stream, "cancelled", reason)
        self.scheduler.cancel(stream.id, self.now)

    def close(self, stream: Stream, outcome: str, reason: str) -> None:
        """Write down the terminal state and the last acknowledged event."""
        del self.open[stream.id]
        stream.outcome, stream.reason, stream.ended = outcome, reason, self.now
        self.log(stream, f"{outcome}: event {stream.acknowledged} of {stream.events} acknowledged; {reason}")

    def log(self, stream: Stream, word: str) -> None:
        """Add a line to the log."""
        self.run_.log.append((self.now, stream.id, word))
