"""Lab of chapter 07: a large request at the head of the queue: stop, skip, or skip for a while."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from labcode import simulate, workload
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.words import percent
from labcode.results.metrics import percentile
from labcode.results.run import Run
from labcode.scheduler.managers import memory as named_memory
from labcode.scheduler.waiting import SkippingQueue

COUNT, POOL = 600, 14_000
SMALL, LARGE = (200, 100), (6000, 500)  # prompt and output, tokens
PATIENCE = {"0 s: stop (Orca)": 0.0, "2 s": 2.0, "10 s": 10.0, "for ever: skip": float("inf")}
POINTS = 70


@lru_cache(maxsize=128)
def serve(patience: str, share: float, rate: float) -> tuple[Run, np.ndarray]:
    """Return the run, and which requests are large, shape (n,)."""
    rng = np.random.default_rng(1)
    arrival, large = np.cumsum(rng.exponential(1 / rate, COUNT)), rng.random(COUNT) < share / 100
    prompt, output = (np.where(large, big, small) for small, big in zip(SMALL, LARGE, strict=True))
    load = workload.from_arrays(arrival, prompt, output)
    memory = named_memory("oracle", POOL)
    queue = SkippingQueue(memory, PATIENCE[patience])
    return simulate(load, memory=memory, order=queue, capacity=POOL), large


def figures(run: Run, large: np.ndarray) -> tuple[float, ...]:
    """Return mean and P99 of the small requests' TTFT, mean and maximum of the large ones' (s)."""
    ttft = run.record.first_token - run.load.arrival
    small, big = ttft[~large], ttft[large]
    return float(small.mean()), percentile(small, 99), float(big.mean()), float(big.max())


def reserved(run: Run, times: np.ndarray) -> tuple[float, ...]:
    """Return the reserved share of the pool at `times` (s); 0 where the engine is idle."""
    s = run.record.segments
    k = np.searchsorted(s["start"], times, "right") - 1
    busy = (k >= 0) & (times < s["end"][k])
    return tuple(np.where(busy, s["kv_reserved"][k] / POOL, 0.0).tolist())


def compute(patience: str, share: float, rate: float) -> Result:
    """Serve small requests among `share` percent of large ones, at `rate` requests/s."""
    (run, large), (pinned, _) = serve(patience, share, rate), serve(next(iter(PATIENCE)), share, rate)
    ours, base = figures(run, large), figures(pinned, large)
    names = ("small: mean", "small: P99", "large: mean", "large: longest")
    wait = Panel(
        "ttft", "Time to first token", Axis("Requests"), Axis("TTFT", "s", "log"),
        (Series("this setting", "bar", names, ours), Series("pinned: stop", "bar", names, base, role="baseline")),
        text=f"Small requests wait {ours[0]:.2f} s on average ({base[0]:.2f} with stopping), "
             f"the slowest large one {ours[3]:.1f} s ({base[3]:.1f}).",
    )  # fmt: skip
    times = np.linspace(0, max(r.record.segments["end"][-1] for r in (run, pinned)), POINTS)
    held, held_base = reserved(run, times), reserved(pinned, times)
    pool = Panel(
        "pool", "Reserved share of the pool", Axis("Time", "s"), Axis("Share", limits=(0, 1.05)),
        (Series("this setting", "step", tuple(times.tolist()), held),
         Series("pinned: stop", "step", tuple(times.tolist()), held_base, role="baseline")),
        marks=(Mark("hline", LARGE[0] / POOL + LARGE[1] / POOL, "one large request"),),
        text=f"{percent(float(np.mean(held)))} of the pool is reserved on average, "
             f"{percent(float(np.mean(held_base)))} with stopping.",
    )  # fmt: skip
    return Result(
        (wait, pool),
        f"Patience {patience}: small requests {ours[0]:.2f} s on average, large ones {ours[2]:.1f} s; "
        f"with stopping {base[0]:.2f} and {base[2]:.1f} s.",
    )


def _later(result: Result) -> float:
    """Return the large requests' mean TTFT as a multiple of that with stopping."""
    ttft = result.panel("ttft")
    return ttft.curve("this setting").at("large: mean") / ttft.curve("pinned: stop").at("large: mean")


LAB = Lab(
    "ch07-head", "A large request at the head of the queue",
    (Control("patience", "The head may be passed for", tuple(PATIENCE), "for ever: skip"),
     Control("share", "Large requests", (0.5, 1, 2, 4), 1, "%"),
     Control("rate", "Arrival rate", (10, 20, 30, 40), 20, "requests/s")),
    compute,
    predict=Prediction(
        "One request in a hundred needs half of the pool. If the others may pass it for ever, how much later does it "
        "start, on average?",
        ("no later", "about twice as late", "about twenty times as late", "it never starts"),
        right=lambda result: graded(
            _later(result),
            (1.2, "no later"),
            (5, "about twice as late"),
            (50, "about twenty times as late"),
            beyond="it never starts",
        ),
        why=lambda result: (
            f"Large requests wait {_later(result):.1f} times as long on average. {result.panel('ttft').text}"
        ),
    ),
    scaled_by=("share", "rate"),
    numbers=("paper",),
)  # fmt: skip
