"""What a step costs: GPUs and models, rooflines, tables of measured kernels."""

from labcode.cost.base import CostModel
from labcode.cost.measured import MeasuredCost
from labcode.cost.models import as_cost
from labcode.cost.roofline import linear, paper, smooth
from labcode.cost.step import SeqWork, StepShape

__all__ = ["CostModel", "MeasuredCost", "SeqWork", "StepShape", "as_cost", "linear", "paper", "smooth"]
