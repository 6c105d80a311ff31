"""Chapter 4: the decode step as a latency profile, and why one largest batch cannot hold a TPOT."""

from __future__ import annotations

import numpy as np

from labcode.clipper.profiles import decode_latency, decode_limit
from labcode.cost.hardware import kv_capacity
from labcode.labkit.challenge import Challenge
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded

MODEL, GPU = "llama3-8b", "h100"
CONTEXTS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)


def compute(max_bs: int, tpot: float, context: int) -> Result:
    """`tpot` in milliseconds."""
    step = decode_latency(MODEL, GPU, context, max_bs) * 1e3
    times = tuple(decode_latency(MODEL, GPU, c, max_bs) * 1e3 for c in CONTEXTS)
    alone = tuple(decode_latency(MODEL, GPU, c, 1) * 1e3 for c in CONTEXTS)
    x = Axis("Context of every sequence", "tokens", "log")
    held = [c for c, t in zip(CONTEXTS, times, strict=True) if t <= tpot]
    time = Panel(
        "time",
        "Time of one decode step at this batch",
        x,
        Axis("Step", "ms", "log"),
        (
            Series("this batch", "line", CONTEXTS, times, role="ours"),
            Series("batch 1", "line", CONTEXTS, alone, role="baseline"),
        ),
        marks=(Mark("hline", tpot, f"TPOT target {tpot:g} ms"), Mark("point", (context, step), "here")),
        text=f"A batch of {max_bs} holds {tpot:g} ms up to context {held[-1]:,}."
        if held
        else f"A batch of {max_bs} misses {tpot:g} ms at every context.",
    )
    limits = tuple(decode_limit(MODEL, GPU, c, tpot / 1e3) for c in CONTEXTS)
    room = tuple(kv_capacity(MODEL, GPU) // (c + 1) for c in CONTEXTS)
    limit = decode_limit(MODEL, GPU, context, tpot / 1e3)
    size = Panel(
        "size",
        "Largest batch within the target",
        x,
        Axis("Batch", "", "log", (1.0, 5000.0)),
        (
            Series("within the TPOT", "line", CONTEXTS, tuple(float(b) if b else np.nan for b in limits), role="ours"),
            Series("that memory holds", "line", CONTEXTS, room, role="muted"),
        ),
        marks=(Mark("hline", max_bs, f"max_bs {max_bs}"), Mark("vline", context, f"context {context:,}")),
        text=f"At context {context:,} the largest batch is {limit}.",
    )
    verdict = "holds" if step <= tpot else "misses"
    return Result(
        (time, size),
        f"Batch {max_bs} at context {context:,}: {step:.1f} ms a step, which {verdict} {tpot:g} ms; the largest "
        f"that holds it is {limit}.",
    )


LAB = Lab(
    "ch04-decode",
    "One largest batch, many contexts",
    (
        Control("max_bs", "Batch (max_bs)", (8, 16, 34, 64, 128, 256, 512), 256),
        Control("tpot", "TPOT target", (8.0, 10.0, 20.0, 50.0), 20.0, "ms", "{:g}".format),
        Control("context", "Context", CONTEXTS, 512, "tokens", "{:,}".format),
    ),
    compute,
    predict=Prediction(
        "A batch of 512 holds 20 ms at context 512. How large may it be at 8,192, sixteen times the context?",
        ("512, as before", "about 250", "about 130", "about 30"),
        right=lambda result: graded(
            result.panel("size").curve("within the TPOT").at(8192),
            (60, "about 30"),
            (190, "about 130"),
            (400, "about 250"),
            beyond="512, as before",
        ),
        why=lambda result: result.panel("size").text,
        reveal={"max_bs": 512, "context": 8192},
    ),
    numbers=("paper",),
    presets={
        "short contexts": {"context": 128},
        "long contexts": {"context": 8192},
    },
    challenge=Challenge(
        "Hold 20 ms at a context of 4,096 tokens with the largest batch on the slider that can.",
        lambda params, result: (
            params["tpot"] == 20
            and params["context"] == 4096
            and params["max_bs"] <= result.panel("size").curve("within the TPOT").at(4096) < 2 * params["max_bs"]
        ),
    ),
)
