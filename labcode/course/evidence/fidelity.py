"""How far the paper GPU is from metal: residuals of rooflines against kernels that others measured.

Measurements and sources are in ``labcode/cost/data``.  Everything here is about the *layers* of a model: neither
set of measurements has the embedding and the logits in its steps.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import least_squares

from labcode import workload
from labcode.checks import one_of
from labcode.cost import CostModel, StepShape, hardware
from labcode.cost.formula import combine
from labcode.cost.hardware import GPUSpec, ModelSpec, SeqWork, roofline
from labcode.cost.measured import a100_llama3_8b, samples
from labcode.cost.roofline import RooflineCost
from labcode.experiments.goodput import goodput
from labcode.results.metrics import SLO
from labcode.simulate import simulate

Floats = NDArray[np.float64]

#: Title -> (table of milliseconds per layer, model, GPU).  Llama 3 and 3.1 have the same shape.
LINEAR_TABLES = {
    "A100, Llama-3-8B": ("a100_llama3_8b_linear", "llama3-8b", "a100-80"),
    "A100, Llama-2-7B": ("a100_llama2_7b_linear", "llama2-7b", "a100-80"),
    "H100, Llama-2-7B": ("h100_llama2_7b_linear", "llama2-7b", "h100"),
    "H100, Llama-3.1-8B, eager": ("h100_llama31_8b_eager", "llama3-8b", "h100"),
}


def layers_only(model: ModelSpec) -> ModelSpec:
    """Return the model without its embedding table and logits, as the measured steps are."""
    return replace(model, name=f"{model.name}, layers only", params=float(model.matmul_params), vocab=1)


def with_efficiencies(gpu: GPUSpec, bandwidth: float, compute: float) -> GPUSpec:
    """Return the GPU with other achieved shares of its peaks."""
    return replace(gpu, bandwidth_efficiency=bandwidth, compute_efficiency=compute)


def linear_layer_times(tokens: ArrayLike, model: ModelSpec, gpu: GPUSpec, p: float = np.inf) -> Floats:
    """Return what a roofline says about one layer's matrix products with so many tokens, in s.

    Memory: the layer's matrices once.  Compute: two FLOPs a parameter and token.
    """
    roofs = roofline(layers_only(replace(model, layers=1)), gpu)
    return np.asarray(combine(roofs.read_weights, roofs.linear * np.asarray(tokens, dtype=float), p))


def linear_residuals(title: str, bandwidth: float, compute: float, p: float = np.inf) -> pd.DataFrame:
    """Return measured and modelled times of a layer's matrix products, and the relative error of the model.

    Parameters
    ----------
    title : str
        One of `LINEAR_TABLES`.
    bandwidth, compute : float
        Achieved shares of the peaks, in (0, 1].
    p : float
        Exponent of the roofline.

    Returns
    -------
    DataFrame
        ``tokens``, ``measured`` and ``model`` (s), ``error`` = model / measured - 1.
    """
    one_of("title", title, LINEAR_TABLES)
    name, model, gpu = LINEAR_TABLES[title]
    table = samples(name)
    table = table[table["num_tokens"] <= 4096]
    modelled = linear_layer_times(
        table["num_tokens"], hardware.model(model), with_efficiencies(hardware.gpu(gpu), bandwidth, compute), p
    )
    measured = table["linear_ms"].to_numpy() * 1e-3
    columns = {"tokens": table["num_tokens"].to_numpy(), "measured": measured, "model": modelled}
    return pd.DataFrame(columns).assign(error=modelled / measured - 1)


def fit(title: str, smooth: bool) -> tuple[float, float, float]:
    """Return the shares of bandwidth and of compute and the exponent that are nearest to the measurements.

    Least squares of the logarithm; the exponent stays infinite unless `smooth`.
    """

    def misses(x: Floats) -> Floats:
        p = x[2] if smooth else np.inf
        return np.log1p(linear_residuals(title, x[0], x[1], p)["error"].to_numpy())

    start, low, high = [0.7, 0.7, 2.0], [0.2, 0.2, 1.0], [1.0, 1.0, 20.0]
    count = 3 if smooth else 2
    best = least_squares(misses, start[:count], bounds=(low[:count], high[:count])).x
    return float(best[0]), float(best[1]), float(best[2]) if smooth else np.inf


def full_steps() -> pd.DataFrame:
    """Return whole steps of Llama-3-8B on an A100, measured as sums of kernels.

    Returns
    -------
    DataFrame
        ``kind`` (decode, prefill), ``size`` (sequences, or tokens of a chunk), ``kv`` (positions cached for each),
        ``measured`` (s), ``shape`` (a `StepShape`).
    """
    table = samples("a100_llama3_8b_full_step")
    shapes = []
    for row in table.itertuples(index=False):
        size, kv = int(row.batch_or_chunk_tokens), int(row.kv_len_tokens)  # type: ignore[arg-type]
        decode = row.kind == "decode"
        shapes.append(StepShape.of((), size, size * kv) if decode else StepShape.of([SeqWork(size, kv)]))
    return pd.DataFrame(
        {
            "kind": table["kind"],
            "size": table["batch_or_chunk_tokens"],
            "kv": table["kv_len_tokens"],
            "measured": table["sum_ms_32layers"] * 1e-3,
            "shape": shapes,
        }
    )


def step_errors(bandwidth: float, compute: float, p: float = np.inf) -> pd.Series:
    """Return the relative errors of a roofline over `full_steps`."""
    gpu = with_efficiencies(hardware.gpu("a100-80"), bandwidth, compute)
    cost = RooflineCost(roofline(layers_only(hardware.model("llama3-8b")), gpu), p)
    steps = full_steps()
    times = np.array([cost.step_time(shape) for shape in steps["shape"]])
    return pd.Series(times / steps["measured"].to_numpy() - 1, name="error")


@cache
def compared_costs() -> dict[str, CostModel]:
    """Return prices for Llama-3-8B's layers on an A100: three rooflines, and the measured kernels with and without
    the slow one that writes the cache."""
    model, gpu = layers_only(hardware.model("llama3-8b")), hardware.gpu("a100-80")
    bandwidth, compute, p = fit("A100, Llama-3-8B", smooth=True)
    return {
        "paper": RooflineCost(roofline(model, gpu)),
        "two constants": RooflineCost(roofline(model, with_efficiencies(gpu, 0.65, 0.61))),
        "smooth": RooflineCost(roofline(model, with_efficiencies(gpu, bandwidth, compute)), p),
        "measured": a100_llama3_8b(),
        "measured, writes free": a100_llama3_8b(cache_writes=False),
    }


def chat_under(cost: str, rate: float, seed: int, n: int = 300) -> dict[str, float]:
    """Return what a chat load meets on that A100 under one of those prices (times in s)."""
    price = compared_costs()[str(one_of("cost", cost, compared_costs()))]
    run = simulate(workload.chat(n, rate, seed), gpu="a100-80", memory="oracle", cost=price)
    summary = run.summary(SLO())
    keys = ("ttft_p50_s", "ttft_p99_s", "tpot_p50_s", "slo_of_submitted")
    return {key: summary[key] for key in keys}


def goodput_under(cost: str, seed: int, n: int = 300, memory: str = "oracle") -> dict[str, float]:
    """Return the goodput (requests/s) of that A100 under one of those prices (default SLO, 90 %)."""
    price = compared_costs()[str(one_of("cost", cost, compared_costs()))]
    found = goodput(workload.chat(n, 8.0, seed), SLO(), gpu="a100-80", memory=memory, cost=price)
    return {"goodput": found.rate}
