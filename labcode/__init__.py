"""Batching and scheduling for LLM inference: the engine behind the course book."""

from labcode import hardware, workload
from labcode.front import simulate
from labcode.metrics import SLO

__all__ = ["SLO", "hardware", "simulate", "workload"]
