"""Lab of chapter 12: throw the cache away and compute it again, or carry it to the host and back."""

from __future__ import annotations

from labcode.course.evidence.fairness import break_even, link, recompute_seconds
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction

CONTEXTS = (128, 256, 512, 1024, 2048, 4096, 8192)
GB = 1e9
ALONE = "recompute in a step of its own"


def compute(bandwidth: float, sharers: int, beside: int, cost: str) -> Result:
    """Compare both for Llama-3-8B on one H100, over the positions that a victim holds."""
    way = link(bandwidth * GB, int(sharers))
    alone = [1e3 * recompute_seconds(c, 0, cost) for c in CONTEXTS]
    shared = [1e3 * recompute_seconds(c, int(beside), cost) for c in CONTEXTS]
    swap = [2e3 * way.seconds(c) for c in CONTEXTS]
    cheap = [c for c, s, r in zip(CONTEXTS, swap, shared, strict=True) if s < r]
    if len(cheap) == len(CONTEXTS):
        verdict = "swapping is cheaper at every length"
    elif cheap:
        verdict = f"swapping is cheaper from {min(cheap)} tokens on" if CONTEXTS[-1] in cheap else (
            f"swapping is cheaper up to {max(cheap)} tokens")  # fmt: skip
    else:
        verdict = "recomputing is cheaper at every length"
    curves = Panel(
        "costs", "What a preemption costs", Axis("Positions of the victim", "tokens", "log"),
        Axis("Time", "ms", "log", limits=(0.05, 3000)),
        (Series("swap out and in", "line", CONTEXTS, tuple(swap)),
         Series("recompute beside the others", "line", CONTEXTS, tuple(shared), role="alt1"),
         Series(ALONE, "line", CONTEXTS, tuple(alone), role="baseline")),
        text=f"At 2048 tokens: swap {swap[4]:.1f} ms, recompute {shared[4]:.1f} ms beside {beside:g} sequences, "
             f"{alone[4]:.1f} ms alone.",
    )  # fmt: skip
    even = [break_even(c, int(beside), cost) / GB * sharers for c in CONTEXTS]
    even_alone = [break_even(c, 0, cost) / GB * sharers for c in CONTEXTS]
    balance = Panel(
        "even", "Bandwidth at which both cost the same", Axis("Positions of the victim", "tokens", "log"),
        Axis("Bandwidth of the link", "GB/s", "log", limits=(1, 3000)),
        (Series("beside the others", "line", CONTEXTS, tuple(min(e, 3000.0) for e in even), role="alt1"),
         Series("in a step of its own", "line", CONTEXTS, tuple(min(e, 3000.0) for e in even_alone), role="baseline")),
        marks=(Mark("hline", bandwidth, f"this link {bandwidth:g} GB/s"),),
        text=f"At 2048 tokens both cost the same at {even[4]:.0f} GB/s beside the others, {even_alone[4]:.0f} alone.",
    )  # fmt: skip
    return Result((curves, balance), f"{bandwidth:g} GB/s for {sharers:g} at a time: {verdict}.")


LAB = Lab(
    "ch12-swap", "Recompute or swap",
    (Control("bandwidth", "Link to the host", (2, 4, 8, 16, 32, 64), 32, "GB/s"),
     Control("sharers", "Transfers at once", (1, 2, 4, 8), 1),
     Control("beside", "Sequences that decode meanwhile", (0, 16, 64, 256), 0),
     Control("cost", "Step time", ("paper", "smooth"), "paper")),
    compute,
    predict=Prediction(
        "A victim holds 2,048 positions of Llama-3-8B on an H100; the link to the host carries 32 GB/s. What is "
        "cheaper: carrying its cache out and in again, or computing it once more?",
        ("carrying it", "computing it"),
        right=lambda result: "carrying it" if result.panel("costs").curve("swap out and in").at(2048)
        < result.panel("costs").curve("recompute beside the others").at(2048) else "computing it",
        why=lambda result: result.panel("costs").text,
    ),
    numbers=("paper",),
)  # fmt: skip
