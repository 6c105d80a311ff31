"""Chapter 1: one decode step on a paper GPU against its batch, and where it stands under the roofline."""

from __future__ import annotations

import math
from collections.abc import Sequence

from labcode.cost.hardware import GPUSpec, ModelSpec, Roofline, gpu, kv_capacity, model, roofline
from labcode.labkit.challenge import Challenge
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.words import counted

MODELS = ("llama3-8b", "llama2-7b", "llama3-70b")
GPUS = ("h100", "a100-80", "l4", "8xh100")
CONTEXTS = (64, 256, 1024, 4096)
BATCHES = (1, 4, 16, 64, 128, 256, 512, 1024)
CURVE = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
PINNED = ("llama3-8b", "h100", 1024)


def step_times(roofs: Roofline, batch: int, context: int) -> tuple[float, float]:
    """Return memory time and compute time of a decode step of `batch` sequences with `context` cached
    positions, in seconds.
    """
    positions = batch * (context + 1)
    return roofs.memory_time(batch, positions), roofs.compute_time(batch, batch, positions)


def intensity(roofs: Roofline, card: GPUSpec, batch: int, context: int) -> float:
    """Return the FLOPs of that step for each byte it moves."""
    memory, compute = step_times(roofs, batch, context)
    return compute * card.achieved_flops / (memory * card.achieved_bandwidth)


def capacity(spec: ModelSpec, card: GPUSpec, context: int) -> int:
    """Return how many sequences fit into memory with their next token; 0 if the weights alone do not."""
    if card.usable * card.memory < spec.weight_bytes + spec.kv_bytes_per_token:
        return 0
    return kv_capacity(spec, card) // (context + 1)


def curve(roofs: Roofline, context: int, batches: Sequence[int] = CURVE) -> list[float]:
    """Return step times in ms."""
    return [1e3 * max(step_times(roofs, batch, context)) for batch in batches]


def compute(name: str, card: str, context: int, batch: int) -> Result:
    """Price a decode step of `batch` sequences, each with `context` cached positions."""
    spec, device = model(name), gpu(card)
    roofs = roofline(spec, device)
    memory, calculation = step_times(roofs, batch, context)
    step, bound = 1e3 * max(memory, calculation), "compute" if calculation > memory else "memory"
    rate, room = batch / step * 1e3, capacity(spec, device, context)
    pinned = curve(roofline(model(PINNED[0]), gpu(PINNED[1])), PINNED[2])
    ours, both = curve(roofs, context), [step_times(roofs, b, context) for b in CURVE]
    limit = (Mark("vline", room, "memory full"),) if 1 <= room <= 2 * CURVE[-1] else ()
    x = Axis("Batch", "sequences", "log", (1, 2048))
    time = Panel(
        "time", "Time of a decode step (TPOT)", x, Axis("Step", "ms", "log"),
        (
            Series("this setting", "line", CURVE, tuple(ours)),
            Series("moving bytes", "line", CURVE, tuple(1e3 * m for m, _ in both), role="alt1"),
            Series("computing", "line", CURVE, tuple(1e3 * c for _, c in both), role="alt2"),
            Series("pinned (8B, H100)", "line", CURVE, tuple(pinned), role="baseline"),
        ),
        marks=(*limit, Mark("point", (batch, step), "here")),
        text=f"A step takes {step:.3g} ms, {step / ours[0]:.2f} times that of a batch of 1.",
    )  # fmt: skip
    speed = Panel(
        "rate", "Throughput", x, Axis("Tokens", "tokens/s", "log"),
        (
            Series("this setting", "line", CURVE, tuple(1e3 * b / t for b, t in zip(CURVE, ours, strict=True))),
            Series("pinned (8B, H100)", "line", CURVE,
                   tuple(1e3 * b / t for b, t in zip(CURVE, pinned, strict=True)), role="baseline"),
        ),
        marks=(*limit, Mark("point", (batch, rate), "here")),
        text=f"{rate:,.0f} tokens/s, {rate * ours[0] / 1e3:.3g} times a batch of 1.",
    )  # fmt: skip
    here, alone = (intensity(roofs, device, b, context) for b in (batch, 1))
    ridge = device.achieved_flops / device.achieved_bandwidth
    grid = tuple(10 ** (k / 8) for k in range(-4, 27))
    reached = here * device.achieved_bandwidth if here < ridge else device.achieved_flops
    roof = Panel(
        "roof", "Where the step stands under the roofline",
        Axis("Arithmetic intensity", "FLOP/byte", "log", (0.3, 2000)), Axis("Attained", "TFLOP/s", "log"),
        (
            Series("this GPU's roof", "line", grid,
                   tuple(min(i * device.achieved_bandwidth, device.achieved_flops) / 1e12 for i in grid)),
            Series("batch 1 here", "scatter", (alone,),
                   (min(alone * device.achieved_bandwidth, device.achieved_flops) / 1e12,), role="muted"),
        ),
        marks=(Mark("vline", ridge, f"ridge {ridge:.0f}"), Mark("point", (here, reached / 1e12), "here")),
        text=f"{here:.3g} FLOP for each byte; the ridge is at {ridge:.0f}.",
    )  # fmt: skip
    return Result((time, speed, roof), _headline(spec, device, context, batch, step, rate, bound, room))


def _headline(
    spec: ModelSpec, card: GPUSpec, context: int, batch: int, step: float, rate: float, bound: str, room: int
) -> str:
    what = f"{batch} at context {context:,}: {step:.3g} ms a step, {rate:,.0f} tokens/s, {bound}-bound"
    if room == 0:
        need, have = spec.weight_bytes / 1e9, card.usable * card.memory / 1e9
        return f"Does not fit: {need:.0f} GB of weights, {have:.0f} GB to put them in. On paper: {what}."
    if batch > room:
        return f"Out of memory: only {counted(room, 'such sequences')} fit beside the weights. On paper: {what}."
    share = math.floor(100 * batch / room)
    return f"{what}; {room:,} such sequences fit, {share} % of the room is used."


def _growth(result: Result, key: str) -> float:
    """Return by which factor a panel's curve grows from a batch of 1 to 64."""
    curve = result.panel(key).curve("this setting")
    return curve.at(64) / curve.at(1)


LAB = Lab(
    "ch01-decode",
    "One decode step",
    (
        Control("name", "Model", MODELS, MODELS[0]),
        Control("card", "GPU", GPUS, GPUS[0]),
        Control("context", "Context of every sequence", CONTEXTS, 1024, "tokens", "{:,}".format),
        Control("batch", "Batch", BATCHES, 64, "sequences", "{:,}".format),
    ),
    compute,
    predict=Prediction(
        "Llama-3-8B on an H100, contexts of 64 tokens: from a batch of 1 to a batch of 64, how much longer does a step "
        "get?",
        ("hardly at all", "about three times", "about thirty times", "64 times"),
        right=lambda result: graded(
            _growth(result, "time"),
            (1.5, "hardly at all"),
            (10, "about three times"),
            (45, "about thirty times"),
            beyond="64 times",
        ),
        why=lambda result: (
            f"The step takes {_growth(result, 'time'):.2f} times as long, and there are "
            f"{_growth(result, 'rate'):.0f} times as many tokens per second."
        ),
        reveal={"context": 64, "batch": 64},
    ),
    numbers=("paper",),
    presets={
        "one user": {"batch": 1},
        "does it fit?": {"name": "llama3-70b"},
        "eight GPUs": {"name": "llama3-70b", "card": "8xh100"},
    },
    challenge=Challenge(
        "Make a decode step of any model compute-bound, on a GPU where it fits.",
        lambda params, result: "compute-bound" in result.headline and "On paper" not in result.headline,
    ),
    scaled_by=("name", "card"),
)
