"""What the server says of itself to Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from labcode.cost import StepShape
from labcode.results.outcomes import OUTCOMES
from labcode.scheduler.states import State
from labcode.server.engine import Engine, Stream

LATENCY = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60)


class Metrics:
    """Counters and histograms that the engine fills, and gauges that read it.

    What is needed to tell an overload from long prompts and from slow clients: the queue's length and age, the prompt
    tokens of a step and its duration, tokens that wait in output buffers and requests that pause for them.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        r = self.registry
        self.requests = Counter("labcode_requests", "Requests that ended, by outcome", ["outcome"], registry=r)
        for outcome in OUTCOMES[:5]:
            self.requests.labels(outcome)
        self.prompt_tokens = Counter("labcode_prompt_tokens", "Prompt positions computed", registry=r)
        self.tokens = Counter("labcode_generation_tokens", "Tokens generated", registry=r)
        self.ttft = Histogram("labcode_time_to_first_token_seconds", "TTFT", registry=r, buckets=LATENCY)
        self.itl = Histogram("labcode_inter_token_latency_seconds", "ITL", registry=r, buckets=LATENCY)
        self.e2e = Histogram("labcode_request_seconds", "Arrival to end, whatever the end", registry=r, buckets=LATENCY)
        self.steps = Histogram("labcode_step_seconds", "From one plan to the next", registry=r, buckets=LATENCY)

    def watch(self, engine: Engine) -> None:
        """Add gauges that read `engine` when they are asked."""
        scheduler = engine.scheduler

        def oldest() -> float:
            waiting = [s.request.arrival for s in scheduler.requests.values() if not s.running]
            return engine.now() - min(waiting) if waiting else 0.0

        def paused() -> int:
            return sum(s.state is State.PAUSED for s in scheduler.running.values())

        gauges = {
            "labcode_requests_running": ("Requests that hold a place", lambda: len(scheduler.running)),
            "labcode_requests_waiting": ("Requests in the queue", lambda: scheduler.waiting),
            "labcode_requests_paused": ("Running requests whose clients do not read", paused),
            "labcode_queue_age_seconds": ("How long the oldest waiting request has been here", oldest),
            "labcode_output_buffered_tokens": (
                "Tokens that wait for their clients",
                lambda: sum(len(stream.tokens) for stream in engine.streams.values()),
            ),
            "labcode_kv_reserved_tokens": ("Tokens taken in the KV pool", lambda: scheduler.memory.reserved or 0),
            "labcode_kv_pool_tokens": ("Tokens of the KV pool", lambda: scheduler.memory.capacity),
        }
        for name, (text, read) in gauges.items():
            Gauge(name, text, registry=self.registry).set_function(read)

    def token(self, stream: Stream, since_arrival: float, since_last: float | None) -> None:
        """Count a token."""
        self.tokens.inc()
        if since_last is None:
            self.ttft.observe(since_arrival)
        else:
            self.itl.observe(since_last)

    def ended(self, outcome: str, seconds: float) -> None:
        """Count the end of a request."""
        self.requests.labels(outcome).inc()
        self.e2e.observe(seconds)

    def step(self, shape: StepShape, seconds: float) -> None:
        """Count a step."""
        self.prompt_tokens.inc(shape.new - shape.n_decode)
        self.steps.observe(seconds)

    def page(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(self.registry)
