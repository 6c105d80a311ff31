"""The roofline formula, once: for numbers, for arrays and, compiled, for the loops of the simulator.

A step with `new` new positions in `seqs` sequences, `pairs` query-key pairs and `kv` moved positions of KV cache
has a memory time and a compute time; a p-norm of the two says how long it takes.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from labcode.jit import compiled

#: A number or an array; every function here returns what it is given.
Value = Any


class Roofline(NamedTuple):
    """The two roofs of a model on a GPU as functions of a step's four sums.

    - memory time = `read_weights` + `read_experts` * (1 - `unrouted` ** new) + `gather` * new + `move_kv` * kv
    - compute time = `linear` * new + `logits` * seqs + `attention` * pairs

    all in seconds.  The second term is that of a mixture of experts and zero without one: `unrouted` is the
    probability that a token does not use a given expert, so that the bracket is the share of them that a step reads.
    """

    read_weights: float
    gather: float
    move_kv: float
    linear: float
    logits: float
    attention: float
    read_experts: float = 0.0
    unrouted: float = 0.0

    def memory_time(self, new: Value, kv: Value) -> Value:
        """Seconds to move the bytes of a step."""
        return memory_time(self, new, kv)

    def compute_time(self, new: Value, seqs: Value, pairs: Value) -> Value:
        """Seconds to compute the FLOPs of a step."""
        return compute_time(self, new, seqs, pairs)


def memory_time(roofs: Roofline, new: Value, kv: Value) -> Value:
    """Seconds to move the bytes of a step."""
    time = roofs.read_weights + roofs.gather * new + roofs.move_kv * kv
    if roofs.read_experts > 0.0:
        time = time + roofs.read_experts * (1.0 - roofs.unrouted**new)
    return time


def compute_time(roofs: Roofline, new: Value, seqs: Value, pairs: Value) -> Value:
    """Seconds to compute the FLOPs of a step."""
    return roofs.linear * new + roofs.logits * seqs + roofs.attention * pairs


def combine(memory: ArrayLike, compute: ArrayLike, p: float) -> Value:
    """Return how long steps take whose bytes need `memory` and whose FLOPs need `compute` seconds.

    ``(memory^p + compute^p)^(1/p)``: `p` = infinity is the hard roofline, the larger of the two (perfect overlap);
    `p` = 1 their sum (no overlap); values between are a smooth roofline, which measured kernels follow more closely.
    """
    longer = np.maximum(memory, compute)
    if math.isinf(p):
        return longer
    shorter = np.minimum(memory, compute)
    if p == 1.0:
        return longer + shorter
    return longer * (1.0 + (shorter / longer) ** p) ** (1.0 / p)


# The same for single numbers inside compiled loops.
scalar_memory_time, scalar_compute_time, scalar_combine = (
    compiled(memory_time),
    compiled(compute_time),
    compiled(combine),
)
