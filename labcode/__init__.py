"""Batching and scheduling for LLM inference: the engine behind the course book."""

from labcode import hardware, workload
from labcode.capacity import Goodput, goodput
from labcode.front import simulate
from labcode.metrics import SLO
from labcode.run import Run
from labcode.sweeps import sweep

__all__ = ["SLO", "Goodput", "Run", "goodput", "hardware", "simulate", "sweep", "workload"]
