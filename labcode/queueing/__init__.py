"""Queueing theory: closed forms with their assumptions, Little's area, sample paths, bounds on tails."""

from labcode.queueing.bounds import (
    independent_exponential_sum_quantile,
    stage_level,
    union_bound,
    worst_case_pair,
)
from labcode.queueing.bulk import BatchQueueResult, batch_capacity, batch_queue
from labcode.queueing.closed_forms import MD1, MG1, MM1, MMc
from labcode.queueing.little import LittleArea, little, staircase
from labcode.queueing.paths import fcfs, poisson_arrivals, processor_sharing
from labcode.queueing.sharing import MG1PS, SharedServer, decode_speed
from labcode.queueing.transform import constant, empirical, exponential, mg1_tail

__all__ = [
    "MD1",
    "MG1",
    "MG1PS",
    "MM1",
    "BatchQueueResult",
    "LittleArea",
    "MMc",
    "SharedServer",
    "batch_capacity",
    "batch_queue",
    "constant",
    "decode_speed",
    "empirical",
    "exponential",
    "fcfs",
    "independent_exponential_sum_quantile",
    "little",
    "mg1_tail",
    "poisson_arrivals",
    "processor_sharing",
    "stage_level",
    "staircase",
    "union_bound",
    "worst_case_pair",
]
