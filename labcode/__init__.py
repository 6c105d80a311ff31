"""Batching and scheduling for LLM inference: the engine behind the course book."""

from labcode import workload
from labcode.cost import hardware
from labcode.experiments import sweep
from labcode.experiments.goodput import Goodput, goodput
from labcode.results.metrics import SLO
from labcode.results.run import Run
from labcode.simulate import simulate

__all__ = ["SLO", "Goodput", "Run", "goodput", "hardware", "simulate", "sweep", "workload"]
