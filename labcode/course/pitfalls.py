"""The lecture's eight pitfalls: what is claimed, what is computed, and a quiz made of both.

Each function of `EVIDENCE` computes the numbers that its feedback says; nothing is typed.  Where a lab of the chapter
has the setting, the draw is the lab's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from labcode import hardware, simulate, workload
from labcode.clipper import AIMD, LatencyProfile, simulate_controller
from labcode.course.evidence.model import padded_pairs
from labcode.labkit.quiz import Option, Question, show_quiz
from labcode.model import TINY, generate, generate_continuously, random_model
from labcode.results.metrics import percentile

Found = dict[str, float]


@cache
def work() -> Found:
    """Return how many times the work 64 decodes need one by one, against one step of 64, and the same for 4 prompts."""
    model, gpu = hardware.model("llama3-8b"), hardware.gpu("h100")
    decode, prompt = hardware.SeqWork(1, 1000), hardware.SeqWork(4096, 0)
    alone, batch = hardware.step_cost(model, gpu, [decode]), hardware.step_cost(model, gpu, [decode] * 64)
    one, four = hardware.step_cost(model, gpu, [prompt]), hardware.step_cost(model, gpu, [prompt] * 4)
    return {
        "flops": 64 * alone.flops / batch.flops,
        "kv": 64 * alone.kv_bytes / batch.kv_bytes,
        "weights": 64 * alone.weight_bytes / batch.weight_bytes,
        "time": 64 * alone.time / batch.time,
        "prompts": 4 * one.time / four.time,
    }


@cache
def size() -> Found:
    """Return step times of small and large batches, and what places beyond the need change."""
    model, gpu = hardware.model("llama3-8b"), hardware.gpu("h100")
    times = {n: hardware.step_cost(model, gpu, [hardware.SeqWork(1, 1000)] * n).time for n in (1, 256)}
    load = workload.chat(n=600, rate=1.0, seed=1).at_rate(20)  # the draw of the lab on places
    means = {n: simulate(load, max_bs=n, memory="oracle").requests["tpot"].mean() for n in (256, 512)}
    return {"one_ms": 1e3 * times[1], "many_ms": 1e3 * times[256], "difference": abs(means[256] - means[512])}


@cache
def tokens() -> Found:
    """Return of how many requests the tokens differ between a continuous batch and a run alone, on the mini model."""
    model, rng = random_model(TINY, seed=0), np.random.default_rng(0)
    prompts = [rng.integers(0, TINY.vocab, n).tolist() for n in (12, 7, 9, 5, 8, 6)]
    limits = [6, 3, 9, 2, 5, 3]
    together = generate_continuously(model, prompts, limits, max_bs=3, arrivals=[0, 0, 1, 2, 3, 6])
    alone = [generate(model, prompt, limit) for prompt, limit in zip(prompts, limits, strict=True)]
    return {"requests": len(prompts), "different": sum(a != b for a, b in zip(together, alone, strict=True))}


@cache
def padding() -> Found:
    """Return how many query-key pairs of the lecture's mixed step are useful, and how many a padded one computes, as
    counted in the mini model's forward passes.
    """
    return padded_pairs()


@cache
def memory() -> Found:
    """Return the shares of the KV cache that are reserved and written, with the maximum reserved for everybody."""
    load = workload.long_context(n=600, rate=1.0, seed=2).at_rate(8)  # the draw of the lab on reservations
    run = simulate(load, max_bs=256, memory="max:8192")
    weights = run.steps["end"] - run.steps["start"]
    room = hardware.kv_capacity("llama3-8b", "h100")
    reserved, used = ((run.steps[name] * weights).sum() / weights.sum() / room for name in ("kv_reserved", "kv_used"))
    return {"reserved": reserved, "used": used}


@cache
def order() -> Found:
    """Return P50 and P99 of TTFT of FCFS and SJF where requests queue, and their difference where none does."""
    load = workload.chat(n=600, rate=1.0, seed=1).at_rate(40)  # the draw of the lab on orders

    def waits(name: str, places: int) -> np.ndarray:
        return simulate(load, max_bs=places, memory="oracle", order=name).requests["ttft"].to_numpy()

    found = {f"{name} {q}": percentile(waits(name, 64), q) for name in ("fcfs", "sjf") for q in (50, 99)}
    return found | {"apart": float(np.abs(waits("fcfs", 256) - waits("sjf", 256)).max())}


@cache
def aimd() -> Found:
    """Return the share of late batches with AIMD aiming at the target, and with one aiming 10 % below it."""
    profile = LatencyProfile(0.003, 0.0005, noise=0.05)
    late = {}
    for name, aim in (("at", 0.020), ("below", 0.018)):
        run = simulate_controller(profile, AIMD(aim), 1000, rng=np.random.default_rng(0))
        late[name] = float((run.latency[200:] > 0.020).mean())
    return late


@cache
def ends() -> Found:
    """Return overall and steady throughput of an overload of 600 requests (tokens/s)."""
    run = simulate(workload.chat(n=600, rate=128.0, seed=0), max_bs=256, memory="oracle")
    seen = run.requests
    overall = seen["output_tokens"].sum() / (seen["finished"].max() - seen["arrival"].min())
    return {"overall": overall, "steady": run.steady_tokens_per_second()}


EVIDENCE: dict[str, Callable[[], Found]] = {
    "work": work,
    "size": size,
    "tokens": tokens,
    "padding": padding,
    "memory": memory,
    "order": order,
    "aimd": aimd,
    "ends": ends,
}


@cache
def questions() -> tuple[Question, ...]:
    """Return the quiz, in the lecture's order."""
    w, s, t, p, m, o, a, e = (find() for find in EVIDENCE.values())
    return (
        Question(
            "work",
            "“Batching makes for less computing.” What does one step of 64 decodes (Llama-3-8B, "
            "one H100, 1,000 positions each) save against 64 steps of one?",
            (
                Option("Arithmetic", f"The FLOPs are the same ({w['flops']:.2f} times as many one by one)."),
                Option(
                    "Reading the weights",
                    f"They are read {w['weights']:.0f} times less often; FLOPs and KV bytes stay as they were. "
                    "Decoding "
                    f"is {w['time']:.0f} times as fast for it; four prompts of 4,096 tokens gain {w['prompts']:.2f}.",
                    True,
                ),
                Option(
                    "Reading the KV cache", f"Everybody reads its own: {w['kv']:.2f} times as many bytes one by one."
                ),
            ),
            "01-why-batching.html",
        ),
        Question(
            "size",
            "“The larger the batch, the better.” What happens when max_bs goes from 256 to 512, with "
            "600 chat requests at 20 per second on one H100 and oracle reservation?",
            (
                Option("TPOT falls", "A larger batch never makes a step shorter."),
                Option("TPOT rises", "It would if more ran at once; at this rate fewer than 256 are ever there."),
                Option(
                    "Nothing",
                    f"Places that nobody needs change nothing (mean TPOT differs by {1e3 * s['difference']:.3f} ms). "
                    "Where "
                    f"they are used, each step gets longer: {s['one_ms']:.1f} ms for one sequence, "
                    f"{s['many_ms']:.1f} ms "
                    "for 256 at 1,000 positions.",
                    True,
                ),
            ),
            "09-knobs.html",
        ),
        Question(
            "tokens",
            "“Continuous batching changes the model's output.” Six requests on a real small model, in a "
            "continuous batch of three places and alone:",
            (
                Option(
                    "The same tokens",
                    f"{t['different']:.0f} of {t['requests']:.0f} differ. A scheduler decides when something is "
                    "computed, "
                    "not what. On a GPU the order of additions can differ, which is rounding and not scheduling.",
                    True,
                ),
                Option("Other tokens for those who came late", "Each attends only to its own keys and values."),
                Option("Other tokens for all", "Nobody sees the others: attention is computed for each request alone."),
            ),
            "07-orca.html",
        ),
        Question(
            "padding",
            "“Attention has to be batched as well, or it is slow.” What would padding the mixed step of "
            "chapter 5 cost (prompts of 37 and 9 tokens, three decodes behind 120, 15 and 64)?",
            (
                Option("Nothing: the pads are free", "A padded kernel computes every pair of the box."),
                Option("About twice the pairs", "It pads in two directions at once, queries and keys."),
                Option(
                    "More than twenty times the pairs",
                    f"{p['padded']:,.0f} instead of {p['useful']:,.0f} pairs, {p['ratio']:.1f} times as many. "
                    "Attention has "
                    "no weights to share; a kernel for ragged rows makes it fast, not a box.",
                    True,
                ),
            ),
            "06-selective-batching.html",
        ),
        Question(
            "memory",
            "“Orca solved the memory problem.” 600 requests with long contexts, at 8 per second on one H100 "
            "with 256 places; 8,192 positions reserved for each: how much of them is used?",
            (
                Option("Nearly all that is reserved", "Prompts and answers are far shorter than the longest allowed."),
                Option(
                    "About a quarter or a third of what is reserved",
                    f"{m['reserved']:.0%} of the cache is reserved and {m['used']:.0%} is written. The reservation "
                    "prevents "
                    "a standstill, and pages (vLLM) are what came of its price.",
                    True,
                ),
                Option("All of it, since the cache is full", "Full of reservations is not full of keys and values."),
            ),
            "09-knobs.html",
        ),
        Question(
            "order",
            "“Shortest job first is always better.” 600 chat requests at 40 per second, one H100, oracle "
            "reservation, 64 places: who pays for the better median?",
            (
                Option("Nobody", f"The P99 of TTFT goes from {o['fcfs 99']:.1f} to {o['sjf 99']:.1f} s."),
                Option(
                    "The long ones, and only where there is a queue",
                    f"With 64 places the median goes from {o['fcfs 50']:.2f} to {o['sjf 50']:.2f} s and the P99 from "
                    f"{o['fcfs 99']:.1f} to {o['sjf 99']:.1f} s. With 256 places nobody waits for one, and the two "
                    "orders "
                    f"differ by {o['apart']:.1f} s.",
                    True,
                ),
                Option("The short ones", "They overtake; that is where the better median comes from."),
            ),
            "09-knobs.html",
        ),
        Question(
            "aimd",
            "“AIMD holds the target.” A steady model, 3 + 0.5 B ms with 5 % noise, 1,000 batches "
            "aimed at exactly 20 ms (+1, × 0.9): what share of them is late?",
            (
                Option("None", "It finds the limit by going over it, again and again."),
                Option("One in a hundred", "That would need a margin below the target."),
                Option(
                    "More than one in ten",
                    f"{a['at']:.0%} are late. Aimed 10 % below the target, {a['below']:.0%} are.",
                    True,
                ),
            ),
            "04-clipper.html",
        ),
        Question(
            "ends",
            "“Throughput is all tokens over all time.” 600 chat requests at 128 per second, one H100, "
            "oracle reservation, 256 places: is that fair to the engine?",
            (
                Option(
                    "No, too low",
                    f"{e['overall']:,.0f} tokens/s over all, {e['steady']:,.0f} until the last one has started. At "
                    "the end a "
                    "few long answers run alone, whatever the scheduler does. Measure a window, or run longer.",
                    True,
                ),
                Option("Yes", "The time includes an end in which a few long answers run nearly alone."),
                Option("No, too high", "The end makes the time longer, not shorter."),
            ),
            "08-continuous-batching.html",
        ),
    )


def quiz() -> Any:
    """Return the quiz for the notebook or the page."""
    return show_quiz(questions())
