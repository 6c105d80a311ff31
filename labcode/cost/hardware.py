"""The paper GPU: what one step of a model costs on one accelerator, by arithmetic alone.

A *step* (one iteration of the engine) processes for each sequence some new positions on top of a
history that already sits in the KV cache.  Its cost needs nothing but four sums over the sequences,
so a step of 256 sequences is as cheap to price as a step of one.

The model is a roofline (Williams, Waterman and Patterson 2009): a step takes as long as the slower of
moving its bytes and computing its FLOPs.  What it leaves out: kernel launches and scheduling on the
CPU, communication between GPUs, activations, tile quantisation, and the imperfect overlap of the two
roofs.  The appendix on fidelity says how far that is from metal.
"""

from __future__ import annotations

from labcode.checks import non_negative
from labcode.cost.catalogue import GPUS, MODELS, as_gpu, as_model, gpu, model
from labcode.cost.hf_config import model_from_config
from labcode.cost.roofline import Roofline, StepCost, roofline, step_cost
from labcode.cost.specs import GPUSpec, ModelSpec
from labcode.cost.step import SeqWork, StepShape

__all__ = [
    "GPUS",
    "MODELS",
    "GPUSpec",
    "ModelSpec",
    "Roofline",
    "SeqWork",
    "StepCost",
    "StepShape",
    "as_gpu",
    "as_model",
    "gpu",
    "kv_capacity",
    "model",
    "model_from_config",
    "roofline",
    "step_cost",
]


def kv_capacity(model: ModelSpec | str, gpu: GPUSpec | str, workspace: float = 0.0) -> int:
    """Return how many positions of KV cache fit beside the weights, in tokens.

    Parameters
    ----------
    model, gpu : name or spec
    workspace : float
        Bytes that a step needs besides (activations, buffers): they are no room for KV cache.

    Raises
    ------
    ValueError
        If weights and workspace alone do not fit.
    """
    model, gpu = as_model(model), as_gpu(gpu)
    room = gpu.usable * gpu.memory - model.weight_bytes - non_negative("workspace", workspace)
    if room < model.kv_bytes_per_token:
        raise ValueError(
            f"model = {model.name!r} needs {model.weight_bytes / 1e9:.1f} GB of weights; gpu = {gpu.name!r} "
            f"has {gpu.usable * gpu.memory / 1e9:.1f} GB usable: take a larger GPU, or several with GPUSpec.times(n)"
        )
    return int(room // model.kv_bytes_per_token)
