"""Workloads: what arrives, when, and how long it is."""

from labcode.workload.arrivals import unit_arrivals
from labcode.workload.request import Request, Workload
from labcode.workload.synthetic import (
    azure_code,
    azure_conv,
    chat,
    fixed,
    from_arrays,
    long_context,
    orca_paper,
)

__all__ = ["Request", "Workload", "azure_code", "azure_conv", "chat", "fixed", "from_arrays", "long_context",
           "orca_paper", "unit_arrivals"]
