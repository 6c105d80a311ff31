"""Cost models by name."""

from __future__ import annotations

from collections.abc import Callable

from labcode.checks import one_of
from labcode.cost.base import ByStepTime, CostModel, HasStepTime
from labcode.cost.catalogue import as_gpu, as_model
from labcode.cost.measured import bundled
from labcode.cost.roofline import paper, smooth
from labcode.cost.specs import GPUSpec, ModelSpec

COSTS: dict[str, Callable[[ModelSpec, GPUSpec], CostModel]] = {"paper": paper, "smooth": smooth, "measured": bundled}


def as_cost(cost: str | HasStepTime, model: ModelSpec | str = "llama3-8b", gpu: GPUSpec | str = "h100") -> CostModel:
    """Return the cost model that `cost` stands for.

    Parameters
    ----------
    cost : {"paper", "smooth", "measured"} or object
        A name is looked up for `model` on `gpu`.  A `CostModel` is returned as it is; any other object with a method
        ``step_time(shape)`` is wrapped.

    Raises
    ------
    ValueError
        If the name is unknown, nothing was measured for the pair, or the object has no such method.
    """
    if isinstance(cost, str):
        one_of("cost", cost, COSTS)
        return COSTS[cost](as_model(model), as_gpu(gpu))
    if isinstance(cost, CostModel):
        return cost
    if isinstance(cost, type) or not callable(getattr(cost, "step_time", None)):
        raise ValueError(
            f"cost = {cost!r}: an object needs the method step_time(shape); known names are {', '.join(COSTS)}"
        )
    return ByStepTime(cost)
