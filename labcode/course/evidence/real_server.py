"""A server in a process of its own, for measurements; and the machine that they were made on, in words."""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Running(NamedTuple):
    """Where a server answers, and its process."""

    url: str
    pid: int


@contextlib.contextmanager
def server(*options: str) -> Iterator[Running]:
    """Start ``python -m labcode serve`` with options on a free port; stop it at the end.

    Raises
    ------
    RuntimeError
        If it does not start, or does not end in good order.
    """
    command = [sys.executable, "-m", "labcode", "serve", "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if " is served at " not in line:
            raise RuntimeError(f"the server did not start: {line!r}")
        yield Running(line.split(" at ")[1].split("/v1")[0], process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        status = process.wait(timeout=60)
    if status != 0:
        raise RuntimeError(f"the server ended with {status}")


def machine() -> str:
    """Return processor, cores, system and Python in a line."""
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), name)
    return f"{name}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def busy() -> str:
    """Return how busy the machine is, in words: the load average of the last minute."""
    with contextlib.suppress(OSError):
        return f"load average {os.getloadavg()[0]:.1f}"
    return "load unknown"


def today() -> str:
    """Return the date."""
    return datetime.date.today().isoformat()
