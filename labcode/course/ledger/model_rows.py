"""Rows that the real mini model answers: lecture sections 1.1, 1.2, 3.2, 4.2 and exercise 4."""

from __future__ import annotations

from collections.abc import Iterator

from labcode.course.evidence import model as evidence
from labcode.course.ledger.ledger import SEEDS, Row, approx, exact, rounded, rows, shape, within


@rows("L01", "L02", "L03")
def mixed_step() -> Iterator[Row]:
    """The five-request step, one request at a time and as one selective batch."""
    source = "000 §4.2"
    ratio = evidence.weight_bytes_ratio()
    yield approx("L01", "five requests: weight bytes one at a time / batched", 4.88, ratio, 0.03, "000 §1.1, §4.2")
    one, many = evidence.logit_difference(), evidence.logit_difference(SEEDS)
    what = "largest logit difference, batched and alone, in float32"
    yield within("L02", what, "at most 2e-06", one["absolute"], 0, 2e-6, source)
    relative = f"{what}, for each unit of the largest logit (largest of {len(SEEDS)} seeds)"
    yield within("L02", relative, "at most 2e-06", many["relative"], 0, 2e-6, source)
    yield exact("L02", "share of greedy tokens that are the same", 1.0, many["same_tokens"], source)
    found = evidence.counted_and_priced()
    alone, batched, formula = found["alone"], found["batched"], found["formula"]
    for key, name in (("flops", "FLOPs"), ("kv_bytes", "KV bytes")):
        yield exact("L03", f"{name}: batched, counted one at a time", alone[key], batched[key], source)
    for key, name in (("flops", "FLOPs"), ("weight_bytes", "weight bytes"), ("kv_bytes", "KV bytes")):
        yield exact("L03", f"{name}: counted, by the cost model's formula", formula[key], batched[key], source)


@rows("L04", "L05")
def padded_step() -> Iterator[Row]:
    """What padding that step to rectangles costs, as counted in the padded forward."""
    tokens, pairs = evidence.padded_tokens(), evidence.padded_pairs()
    yield exact(
        "L04", "rows of linear layers: padded, useful", [185, 49], [tokens["padded"], tokens["useful"]], "000 §3.2"
    )
    yield rounded("L04", "share of the padded rows wasted", 0.74, tokens["waste"], 2, "000 §3.2")
    yield exact(
        "L05", "query-key pairs: useful, padded", [950, 22_385], [pairs["useful"], pairs["padded"]], "000 ex. 4"
    )
    yield rounded("L05", "padded pairs for each useful one", 23.6, pairs["ratio"], 1, "000 ex. 4")


@rows("L15")
def batched_decode() -> Iterator[Row]:
    """Timed on the machine that computes the ledger."""
    speedup = evidence.decode_times(batch=64).speedup
    what = "64 decodes on the 13 M model, this machine: one by one / batched"
    yield shape(
        "L15", what, "4.5 times, on another machine; more than 2", f"{speedup:.1f} times", speedup > 2, "000 §1.2"
    )
