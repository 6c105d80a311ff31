"""Workloads: what arrives, when, and how long it is."""

from labcode.workload.arrivals import unit_arrivals
from labcode.workload.download import download
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
from labcode.workload.traces import from_file, sample_trace

__all__ = [
    "Request",
    "Workload",
    "azure_code",
    "azure_conv",
    "chat",
    "download",
    "fixed",
    "from_arrays",
    "from_file",
    "long_context",
    "orca_paper",
    "sample_trace",
    "unit_arrivals",
]
