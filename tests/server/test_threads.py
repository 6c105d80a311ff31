"""How many threads numpy's linear algebra may use while the server runs."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("threadpoolctl")

import threadpoolctl

from labcode.__main__ import main


def blas() -> set[int]:
    """Return the threads that each library of linear algebra may use."""
    return {pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"}


@pytest.mark.parametrize(("said", "threads"), [((), 1), (("--threads", "2"), 2)])
def test_as_many_as_the_command_line_says(said: tuple[str, ...], threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One if it says nothing, whatever the environment says; what was before is so again afterwards."""
    seen = []

    async def serve(*_: Any) -> None:
        seen.append(blas())

    monkeypatch.setattr("labcode.server.serve.serve", serve)
    with threadpoolctl.threadpool_limits(3, user_api="blas"):
        before = blas()
        assert main(["serve", *said]) == 0
        assert seen == [{threads}] and before == blas() == {3}


def test_no_threads_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the option and what was given."""
    assert main(["serve", "--threads", "0"]) == 2
    assert "threads = 0" in capsys.readouterr().err
