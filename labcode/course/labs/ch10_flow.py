"""Lab of chapter 10: a long prompt joins answers that are being written, whole or in chunks, under one clock."""

from __future__ import annotations

from functools import cache

import numpy as np

from labcode import simulate, workload
from labcode.cost import paper
from labcode.labkit.flow import Flow, lane_of
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.watch import Watched
from labcode.labkit.words import counted
from labcode.results.run import Run

BLOCK, POOL, COMES = 32, 11_520, 0.08


@cache
def requests(length: int, others: int) -> workload.Workload:
    """Return `others` short requests, a few ms apart, and one with a prompt of `length` tokens at 0.08 s."""
    rng = np.random.default_rng(3)
    short = np.sort(rng.uniform(0, 0.05, others))
    prompt, output = rng.integers(100, 200, others), rng.integers(24, 60, others)
    return workload.from_arrays([*short, COMES], [*prompt, length], [*output, 12])


@cache
def serve(length: int, others: int, budget: int | None) -> tuple[Run, Watched]:
    """Serve them on a paper H100, in chunks within `budget` tokens or, without one, with whole prompts."""
    load = requests(length, others)
    clock = Watched(load.output.tolist(), paper("llama3-8b", "h100"))
    way = {"prefill": "mixed"} if budget is None else {"prefill": "chunked", "token_budget": budget}
    return simulate(load, max_bs=others + 1, memory="oracle", capacity=POOL, executor=clock, **way), clock


def gaps(run: Run) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return token number and gap (ms) of the first answer that is still being written when the long prompt comes."""
    finished = run.record.finished
    first = int(np.flatnonzero(finished[:-1] > COMES + 0.05)[0])
    times = run.token_times(first)
    return tuple(range(2, len(times) + 1)), tuple((1e3 * np.diff(times)).tolist())


def way_in(clock: Watched, number: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return times (ms) and how many tokens of a prompt were in the cache then."""
    steps = [(COMES, 0), *clock.chunks[number]]
    return tuple(1e3 * t for t, _ in steps), tuple(float(tokens) for _, tokens in steps)


def compute(length: int, budget: int, others: int) -> Result:
    """Serve the same requests with whole prompts and in chunks."""
    (whole, before), (cut, clock) = serve(length, others, None), serve(length, others, budget)
    lanes = (
        lane_of(whole, "Whole prompts", others + 1, BLOCK, lambda prompt, output: prompt + output - 1, watched=before),
        lane_of(cut, f"At most {budget} tokens a step", others + 1, BLOCK, lambda prompt, output: prompt + output - 1,
                watched=clock),
    )  # fmt: skip
    pause, paused = (1e3 * float(np.nanmax(run.largest_itl()[:-1])) for run in (cut, whole))
    first, firsts = (1e3 * float(run.record.first_token[-1] - COMES) for run in (cut, whole))
    pauses = Panel(
        "gaps",
        "Gaps between the tokens of one answer",
        Axis("Token of the answer"),
        Axis("Gap", "ms"),
        (Series("in chunks", "line", *gaps(cut)), Series("whole", "line", *gaps(whole), role="baseline")),
        text=f"The longest pause of an answer is {pause:.0f} ms in chunks and {paused:.0f} ms with whole prompts.",
    )
    way = Panel(
        "way",
        "The long prompt on its way into the cache",
        Axis("Time", "ms", key="time"),
        Axis("Tokens"),
        (
            Series("in chunks", "step", *way_in(clock, others)),
            Series("whole", "step", *way_in(before, others), role="baseline"),
        ),
        marks=(Mark("hline", length, "the whole prompt"),),
        text=f"Its first token comes {first:.0f} ms after its arrival in chunks, {firsts:.0f} ms with whole prompts.",
    )
    flow = Flow("The same requests, whole prompts and chunks", lanes, round(COMES + 0.6 * firsts / 1e3, 4))
    return Result(
        (pauses, way),
        f"A prompt of {length:,} tokens beside {counted(others, 'answers')}, at most {budget} tokens a step: "
        f"the longest pause is {pause:.0f} instead of {paused:.0f} ms, its own first token comes after {first:.0f} "
        f"instead of {firsts:.0f} ms.",
        flow,
    )


def _later(result: Result) -> float:
    """Return when the long prompt's last chunk is done, as a multiple of when the whole prompt is."""
    way = result.panel("way")
    cut, whole = (way.curve(name).x[-1] - 1e3 * COMES for name in ("in chunks", "whole"))
    return float(cut / whole)


LAB = Lab(
    "ch10-flow",
    "A long prompt among answers that are being written",
    (
        Control("length", "Length of the prompt", (1000, 2000, 4000, 7000), 2000, "tokens"),
        Control("budget", "Token budget of a step", (64, 128, 256, 512, 1024), 512, "tokens"),
        Control("others", "Answers being written", (2, 7, 15), 7),
    ),
    compute,
    predict=Prediction(
        "Seven answers are being written, and a prompt of 4,000 tokens arrives. In chunks of at most 256 tokens a step "
        "it does not stop the others. When does its own first token come, beside the time with whole prompts?",
        ("earlier, or at the same time", "later, but not twice as late", "at least twice as late"),
        right=lambda result: graded(
            _later(result),
            (1.05, "earlier, or at the same time"),
            (2, "later, but not twice as late"),
            beyond="at least twice as late",
        ),
        why=lambda result: f"{result.panel('way').text} {result.panel('gaps').text}",
        reveal={"length": 4000, "budget": 256},
    ),
    numbers=("paper",),
    presets={
        "7,000 tokens at once": {"length": 7000, "budget": 1024},
        "tiny chunks": {"length": 4000, "budget": 64},
    },
    scaled_by=("length", "budget"),
)
