"""Logs that readers measured themselves, brought into the same table as a simulated run."""

from labcode.results.logs.events import from_events
from labcode.results.logs.guidellm import from_guidellm
from labcode.results.logs.log import EventLog, summary_by
from labcode.results.logs.vllm import from_vllm
from labcode.results.outcomes import OUTCOMES

__all__ = ["OUTCOMES", "EventLog", "from_events", "from_guidellm", "from_vllm", "summary_by"]
