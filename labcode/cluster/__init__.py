"""Beyond one engine: several of them behind a router, and prefill and decode on GPUs of their own."""

from labcode.cluster.disaggregated import DisaggregatedRun, simulate_disaggregated
from labcode.cluster.fleet import ClusterRun, simulate_cluster
from labcode.cluster.routers import ROUTERS, Report, Router

__all__ = [
    "ROUTERS",
    "ClusterRun",
    "DisaggregatedRun",
    "Report",
    "Router",
    "simulate_cluster",
    "simulate_disaggregated",
]
