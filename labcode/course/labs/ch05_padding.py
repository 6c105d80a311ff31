"""Lab of chapter 05: what padding a batch to its longest prompt wastes."""

from __future__ import annotations

import numpy as np

from labcode.cost import hardware
from labcode.cost.hardware import SeqWork
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.words import percent
from labcode.workload.synthetic import PROMPT_MEAN, lognormal_tokens

SIZES = (1, 2, 4, 8, 16, 32, 64)
COUNT = 512
BATCHING = ("as they come", "in buckets (edges 2x apart)")
EDGES = 2 ** np.arange(4, 12)


def batches(lengths: np.ndarray, size: int, batching: str) -> list[np.ndarray]:
    """Cut prompts into batches of `size`, in order of arrival, within each bucket if there are buckets."""
    if batching == BATCHING[0]:
        groups = [lengths]
    else:
        bucket = np.searchsorted(EDGES, lengths)
        groups = [lengths[bucket == b] for b in np.unique(bucket)]
    return [group[i : i + size] for group in groups for i in range(0, len(group), size)]


def useful(parts: list[np.ndarray]) -> tuple[float, float]:
    """Return the useful share of padded linear layers and of padded square attention, over all batches
    together."""
    linear = sum(p.sum() for p in parts) / sum(len(p) * p.max() for p in parts)
    pairs = sum((p.astype(float) ** 2).sum() for p in parts) / sum(len(p) * float(p.max()) ** 2 for p in parts)
    return float(linear), float(pairs)


def prefill_ms(lengths: np.ndarray) -> float:
    """Return the time of one prefill step of these prompts on the paper GPU, in ms."""
    return 1000 * hardware.step_cost("llama3-8b", "h100", [SeqWork(int(p)) for p in lengths]).time


def compute(size: int, sigma: float, batching: str) -> Result:
    """Batch prompts whose length varies by `sigma` (standard deviation of the logarithm)."""
    lengths = lognormal_tokens(COUNT, PROMPT_MEAN, sigma, np.random.default_rng(5)) if sigma else np.full(COUNT, 430)
    parts = batches(lengths, size, batching)
    full = [p for p in parts if len(p) == size] or parts
    shown = np.sort(full[len(full) // 2])[::-1]
    linear, attention = useful(parts)
    places = tuple(((np.arange(len(shown)) + 0.5) / len(shown)).tolist())
    one = Panel(
        "batch",
        "One batch and its padding",
        Axis("Share of the batch, longest prompt first", limits=(0, 1)),
        Axis("Length over the longest", limits=(0, 1.05)),
        (
            Series("prompt", "bar", places, tuple((shown / shown.max()).tolist())),
            Series("computed", "step", (0, 1), (1, 1), role="baseline"),
        ),
        text=f"The longest has {shown.max()} tokens: {shown.sum()} useful, {len(shown) * shown.max()} computed.",
    )
    curves = [useful(batches(lengths, s, batching)) for s in SIZES]
    pinned = lognormal_tokens(COUNT, PROMPT_MEAN, 0.85, np.random.default_rng(5))
    base = tuple(useful(batches(pinned, s, BATCHING[0]))[0] for s in SIZES)
    share = Panel(
        "useful",
        "Useful share of a padded prefill",
        Axis("Batch size", scale="log"),
        Axis("Useful share", limits=(0, 1)),
        (
            Series("linear layers", "line", SIZES, tuple(c[0] for c in curves)),
            Series("square attention", "line", SIZES, tuple(c[1] for c in curves), role="alt1"),
            Series("pinned: chat", "line", SIZES, base, role="baseline"),
        ),
        marks=(Mark("vline", size, f"batch of {size}"),),
        text=f"At {size}: {percent(linear)} of the linear layers' work and {percent(attention)} of "
        "the attention's is useful.",
    )
    ragged, padded, alone = (
        ms / len(shown)
        for ms in (
            prefill_ms(shown),
            prefill_ms(np.full(len(shown), shown.max())),
            sum(prefill_ms(np.array([p])) for p in shown),
        )
    )
    time = Panel(
        "time",
        "Prefill of that batch on a paper H100",
        Axis("Forward"),
        Axis("Time per prompt", "ms"),
        (Series("Llama-3-8B", "bar", ("ragged", "padded", "one by one"), (ragged, padded, alone)),),
        text=f"Per prompt: ragged {ragged:.1f} ms, padded {padded:.1f} ms, one by one {alone:.1f} ms.",
    )
    return Result(
        (one, share, time),
        f"Padding makes this prefill {padded / ragged:.2f} times as long; over all batches "
        f"{percent(1 - linear)} of the linear work is wasted, {percent(1 - attention)} of the attention.",
    )


def _change(result: Result) -> float:
    """Return the useful share at 64 as a multiple of that at 8."""
    curve = result.panel("useful").curve("linear layers")
    return curve.at(64) / curve.at(8)


LAB = Lab(
    "ch05-padding",
    "Lengths and padding",
    (
        Control("size", "Batch size", SIZES, 8, "prompts"),
        Control("sigma", "Spread of the lengths (sigma of the log)", (0.0, 0.25, 0.5, 0.85, 1.2), 0.85),
        Control("batching", "Batches are formed", BATCHING, BATCHING[0]),
    ),
    compute,
    predict=Prediction(
        "Chat prompts differ a lot in length. Is more of a padded batch's work useful when the batch is larger, 64 "
        "prompts instead of 8?",
        ("more: the lengths average out", "the same share", "about half the share"),
        right=lambda result: graded(
            _change(result),
            (0.8, "about half the share"),
            (1.1, "the same share"),
            beyond="more: the lengths average out",
        ),
        why=lambda result: (
            "Of the linear layers' work "
            f"{percent(result.panel('useful').curve('linear layers').at(8))} is useful at 8 and "
            f"{percent(result.panel('useful').curve('linear layers').at(64))} at 64: the longest of many is longer."
        ),
        reveal={"size": 64},
    ),
    scaled_by=("sigma",),
    numbers=("paper",),
)
