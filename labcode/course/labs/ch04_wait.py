"""Chapter 4: delayed batching in an open loop: what a wait saves and what it costs."""

from __future__ import annotations

from functools import cache

from labcode.course.evidence.clipper import HIGH_FIXED, LOW_FIXED, delayed_run
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction
from labcode.labkit.words import percent

MODELS = {"high fixed cost": HIGH_FIXED, "low fixed cost": LOW_FIXED}
WAITS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
N = 4000


@cache
def point(model: str, load: float, wait: float) -> tuple[float, float, float, float, float]:
    """Busy share, mean and p99 latency (ms), mean batch, throughput (1/s)."""
    run = delayed_run(MODELS[model], wait / 1e3, seed=0, n=N, load=load)
    return run.busy, run.mean_latency * 1e3, run.percentile(99) * 1e3, run.mean_batch, run.throughput


def compute(wait: float, model: str, load: float) -> Result:
    """`wait` in milliseconds; `load` as a share of what the worker serves one by one."""
    rows = [point(model, load, w) for w in WAITS]
    other = next(name for name in MODELS if name != model)
    others = [point(other, load, w) for w in WAITS]
    busy, mean, p99, batch, served = point(model, load, wait)
    none = point(model, load, 0.0)
    x = Axis("Longest wait", "ms")
    share = Panel(
        "busy",
        "Busy share of the worker",
        x,
        Axis("Busy share", limits=(0.0, 1.0)),
        (
            Series("this model", "line", WAITS, tuple(r[0] for r in rows), role="ours"),
            Series("the other model", "line", WAITS, tuple(r[0] for r in others), role="muted"),
        ),
        marks=(Mark("point", (wait, busy), "here"), Mark("hline", none[0], "without waiting")),
        text=f"Waiting up to {wait:g} ms takes the busy share from {none[0]:.2f} to {busy:.2f}; mean batch "
        f"{batch:.1f}.",
    )
    latency = Panel(
        "latency",
        "Latency of a request",
        x,
        Axis("Latency", "ms", "log"),
        (
            Series("p99", "line", WAITS, tuple(r[2] for r in rows), role="ours"),
            Series("mean", "line", WAITS, tuple(r[1] for r in rows), role="alt1"),
            Series("mean, the other model", "line", WAITS, tuple(r[1] for r in others), role="muted"),
        ),
        marks=(Mark("point", (wait, p99), "here"), Mark("hline", none[2], "p99 without waiting")),
        text=f"The mean goes from {none[1]:.2f} to {mean:.2f} ms, the p99 from {none[2]:.2f} to {p99:.2f} ms.",
    )
    return Result(
        (share, latency),
        f"{model.capitalize()}, {load:g} of the unbatched capacity, wait {wait:g} ms: busy {busy:.2f}, mean "
        f"{mean:.2f} ms, "
        f"throughput {percent(served / none[4], 1)} of that without waiting.",
    )


def _rises(curve: Series) -> bool:
    """Return whether waiting up to 2 ms gives more than not waiting."""
    return curve.at(2.0) > curve.at(0.0)


LAB = Lab(
    "ch04-wait",
    "Waiting for a larger batch",
    (
        Control("wait", "Longest wait", WAITS, 2.0, "ms", "{:g}".format),
        Control("model", "Model", tuple(MODELS), "high fixed cost"),
        Control("load", "Load / unbatched capacity", (0.2, 0.5, 0.8, 1.5, 3.0), 0.8, format="{:g}".format),
    ),
    compute,
    predict=Prediction(
        "Requests come whether or not the worker is ready. What does waiting up to 2 ms for a larger batch do to the "
        "share of time that the worker is busy, and to the mean latency?",
        (
            "both fall",
            "the worker is less busy, requests take longer",
            "the worker is busier, requests take less time",
            "both rise",
        ),
        right=lambda result: {
            (False, False): "both fall",
            (False, True): "the worker is less busy, requests take longer",
            (True, False): "the worker is busier, requests take less time",
            (True, True): "both rise",
        }[_rises(result.panel("busy").curve("this model")), _rises(result.panel("latency").curve("mean"))],
        why=lambda result: f"{result.panel('busy').text} {result.panel('latency').text}",
    ),
    numbers=("arithmetic",),
)
