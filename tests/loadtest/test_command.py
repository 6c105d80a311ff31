"""Server and load generator from a shell, together."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("fastapi")


@pytest.mark.slow
def test_serve_and_load() -> None:
    """The JSON report holds every request; a server that is not there is said in a line."""
    serve = [sys.executable, "-m", "labcode", "serve", "--port", "0"]
    server = subprocess.Popen(serve, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = server.stdout.readline().split(" at ")[1].split("/v1")[0]
        load = [sys.executable, "-m", "labcode", "load", "--url", url, "--n", "30", "--rate", "20", "--vocab", "256"]
        said = subprocess.run([*load, "--json"], capture_output=True, text=True, timeout=120)
        report = json.loads(said.stdout)
        assert report["summary"]["finished"] == 30 and len(report["requests"]) == 30
        assert (said.returncode == 0) == report["valid"]
        table = subprocess.run([*load, "--users", "3"], capture_output=True, text=True, timeout=120)
        assert table.returncode == 0 and "ttft_p99_s" in table.stdout, table.stderr
        assert "rate" in subprocess.run([*load, "--rate", "-1"], capture_output=True, text=True).stderr
    finally:
        server.terminate()
        assert server.wait(timeout=30) == 0
    gone = subprocess.run(load, capture_output=True, text=True, timeout=60)
    assert gone.returncode == 2 and "does not answer" in gone.stderr and "Traceback" not in gone.stderr
