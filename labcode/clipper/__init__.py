"""Clipper's side of serving: latency profiles, adaptive batch sizes, delayed batching, cache and model
selection."""

from labcode.clipper.cache import PredictionCache
from labcode.clipper.controllers import AIMD, Controller, FixedBatch, QuantileRegression
from labcode.clipper.delayed import DelayedRun, serve_queue, simulate_delayed, unbatched_rate
from labcode.clipper.measured import behind_a_call, kernel_machine, linear_model, measure_profile
from labcode.clipper.profiles import (
    KERNEL,
    LINEAR,
    MEDIUM,
    TOYS,
    LatencyProfile,
    decode_latency,
    decode_limit,
    decode_profile,
    fit_profile,
)
from labcode.clipper.selection import Answer, Exp3, Exp4, ensemble_answer
from labcode.clipper.simulate import ControllerRun, SlowPhase, run_controller, simulate_controller, timed

__all__ = [
    "AIMD",
    "KERNEL",
    "LINEAR",
    "MEDIUM",
    "TOYS",
    "Answer",
    "Controller",
    "ControllerRun",
    "DelayedRun",
    "Exp3",
    "Exp4",
    "FixedBatch",
    "LatencyProfile",
    "PredictionCache",
    "QuantileRegression",
    "SlowPhase",
    "behind_a_call",
    "decode_latency",
    "decode_limit",
    "decode_profile",
    "ensemble_answer",
    "fit_profile",
    "kernel_machine",
    "linear_model",
    "measure_profile",
    "run_controller",
    "serve_queue",
    "simulate_controller",
    "simulate_delayed",
    "timed",
    "unbatched_rate",
]
