"""Chapter 6: one mixed step carried out one by one, ragged and padded, on a paper H100."""

from __future__ import annotations

from labcode.cost.hardware import SeqWork, StepCost, step_cost
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.words import counted
from labcode.model.padding import Rectangle, padded_cost

MODEL, GPU = "llama3-8b", "h100"
KINDS = ("rows", "pairs", "KV", "FLOPs", "bytes")


def works(prompts: int, prompt: int, decodes: int, history: int) -> list[SeqWork]:
    """Return a step: `prompts` new requests and `decodes` running ones, lengths evenly spread up to the longest."""
    new = [SeqWork(max(1, prompt * (i + 1) // prompts)) for i in range(prompts)]
    running = [SeqWork(1, max(1, history * (i + 1) // decodes)) for i in range(decodes)]
    return new + running


def one_by_one(step: list[SeqWork]) -> float:
    """Return the seconds that the sequences take, each with a forward pass of its own."""
    return sum(step_cost(MODEL, GPU, [work]).time for work in step)


def moved(cost: StepCost) -> float:
    """Return all bytes of a step."""
    return cost.weight_bytes + cost.kv_bytes


def compute(prompts: int, prompt: int, decodes: int, history: int) -> Result:
    """Compare the three forwards on one step."""
    step = works(prompts, prompt, decodes, history)
    box, ragged, padded = Rectangle.of(step), step_cost(MODEL, GPU, step), padded_cost(MODEL, GPU, step)
    ratios = (
        box.tokens / box.useful_tokens,
        box.pair_ratio,
        box.positions / box.useful_positions,
        padded.flops / ragged.flops,
        moved(padded) / moved(ragged),
    )
    waste = Panel(
        "waste", "Padded: how much for each useful one", Axis("What is counted"), Axis("Ratio", "", "log"),
        (Series("padded", "bar", KINDS, ratios, role="baseline"),),
        marks=(Mark("hline", 1, "ragged = 1"),),
        text=f"Rows: {box.tokens:,} for {box.useful_tokens:,} useful; pairs: {box.pairs:,} for {box.useful_pairs:,}.",
    )  # fmt: skip
    alone = one_by_one(step)
    times = tuple(1e3 * t for t in (alone, padded.time, ragged.time))
    time = Panel(
        "time", "The step on a paper H100", Axis("Forward"), Axis("Time", "ms"),
        (Series("Llama-3-8B", "bar", ("one by one", "padded", "ragged"), times),),
        text=f"One by one {times[0]:.3g} ms, padded {times[1]:.3g} ms, ragged {times[2]:.3g} ms.",
    )  # fmt: skip
    order = sorted(step, key=lambda work: -work.pairs)
    at = tuple(range(1, len(order) + 1))
    pairs = Panel(
        "pairs", "Query-key pairs of each sequence", Axis("Sequence, most pairs first"), Axis("Pairs", "", "log"),
        (
            Series("useful", "bar", at, tuple(float(work.pairs) for work in order)),
            Series("padded", "step", (0.5, len(order) + 0.5), (float(box.width * box.context),) * 2, role="baseline"),
        ),
        text=f"Useful are {order[-1].pairs:,} to {order[0].pairs:,}; padded, each has {box.width * box.context:,}.",
    )  # fmt: skip
    return Result((waste, time, pairs), _headline(len(step), alone, ragged, padded))


def _headline(sequences: int, alone: float, ragged: StepCost, padded: StepCost) -> str:
    slower = padded.time / ragged.time
    verdict = f"padding makes the step {slower:.3g} times as long" if slower > 1.02 else "padding costs nothing here"
    against = " and is worse than no batch at all" if padded.time > 1.02 * alone else ""
    return (
        f"{counted(sequences, 'sequences')}, ragged {1e3 * ragged.time:.3g} ms "
        f"({ragged.bound}-bound): {verdict}{against}; one by "
        f"one takes {alone / ragged.time:.3g} times as long as ragged."
    )


def _speed_up(result: Result) -> float:
    """Return how many times as long one by one takes as the padded batch."""
    times = result.panel("time").curve("Llama-3-8B")
    return times.at("one by one") / times.at("padded")


LAB = Lab(
    "ch06-step",
    "One mixed step, three forwards",
    (
        Control("prompts", "New requests", (0, 1, 2, 4), 2),
        Control("prompt", "Longest prompt", (16, 64, 256, 1024, 4096), 256, "tokens", "{:,}".format),
        Control("decodes", "Running requests", (1, 4, 16, 64), 16),
        Control("history", "Longest history", (64, 512, 4096), 512, "tokens", "{:,}".format),
    ),
    compute,
    predict=Prediction(
        "Sixteen requests decode and two bring prompts, the longest of 256 tokens. Padded to one rectangle, how does "
        "the batch compare with serving the eighteen one by one?",
        ("about ten times as fast", "about twice as fast", "no faster"),
        right=lambda result: graded(
            _speed_up(result), (1.2, "no faster"), (4, "about twice as fast"), beyond="about ten times as fast"
        ),
        why=lambda result: f"{result.panel('time').text} {result.panel('waste').text}",
    ),
    numbers=("paper",),
    scaled_by=("prompts", "prompt"),
    alt=lambda result, params: (
        "Three bar charts: padded work for each useful unit, time of the step one by one, padded "
        f"and ragged, and query-key pairs of each sequence. {result.panels[0].text} {result.panels[1].text}"
    ),
)
