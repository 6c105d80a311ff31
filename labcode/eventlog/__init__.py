"""Logs that readers measured themselves, brought into the same table as a simulated run."""

from labcode.eventlog.events import from_events
from labcode.eventlog.guidellm import from_guidellm
from labcode.eventlog.log import OUTCOMES, EventLog, summary_by
from labcode.eventlog.vllm import from_vllm

__all__ = ["OUTCOMES", "EventLog", "from_events", "from_guidellm", "from_vllm", "summary_by"]
