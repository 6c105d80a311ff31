"""A server that is told to stop in the middle of its work."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

import pytest

from .client import Got, post

#: Of each answer: 0.8 s and more, so that a second's arrivals outgrow eight places.
TOKENS = 200
#: The command line, with steps of at least 4 ms: what is in the middle of its work is so on a fast machine too.
SLOWED = """
import sys, time
from labcode.__main__ import main
from labcode.model.executor import ModelExecutor
execute = ModelExecutor.execute
def slow(*arguments):
    time.sleep(0.004)
    return execute(*arguments)
ModelExecutor.execute = slow
sys.exit(main())
"""


def started(*options: str, program: tuple[str, ...] = ("-m", "labcode")) -> tuple[subprocess.Popen[str], str]:
    """Start a server in a process of its own; return it and its address."""
    command = [sys.executable, *program, "serve", "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert " is served at http://127.0.0.1:" in line, process.communicate(timeout=10)
    return process, line.split(" at ")[1].split("/v1")[0]


@pytest.mark.slow
@pytest.mark.parametrize("drain", ["30", "0.2"])
def test_terminated_in_mid_load(drain: str) -> None:
    """It ends with 0; every answer that was begun is ended, by its last token or by a reason, and none is half."""
    process, url = started("--max-bs", "8", "--drain-timeout", drain, program=("-c", SLOWED))

    async def load() -> list[Got]:
        async def one(i: int) -> Got:
            await asyncio.sleep(0.04 * i)
            return await post(
                url, {"prompt": [1, 2, 3], "max_tokens": TOKENS, "stream": i % 3 > 0, "return_token_ids": True}
            )

        calls = [asyncio.create_task(one(i)) for i in range(50)]
        await asyncio.sleep(1)
        process.send_signal(signal.SIGTERM)
        return await asyncio.gather(*calls)

    try:
        answers = asyncio.run(asyncio.wait_for(load(), 60))
        assert process.wait(timeout=20) == 0
        assert process.stderr is not None and process.stderr.read() == ""
    finally:
        process.kill()
    for got in answers:
        if got.status == 200:
            assert got.done
            assert (len(got.tokens) == TOKENS) == (got.error is None)
        else:
            # Refused with a reason, or nobody there any more: not a byte came.
            assert got.status == 503 or (got.status == 0 and got.cut)
    finished = sum(got.outcome == "finished" for got in answers)
    ended = sum(got.error == "failed" for got in answers)
    assert (finished >= 10 and not ended) if drain == "30" else ended


@pytest.mark.slow
def test_an_address_that_is_taken_and_a_wrong_option() -> None:
    """Both are said in a line, without a traceback."""
    process, url = started()
    try:
        taken = [sys.executable, "-m", "labcode", "serve", "--port", url.rsplit(":", 1)[1]]
        again = subprocess.run(taken, capture_output=True, text=True, timeout=60)
        assert again.returncode == 2 and again.stderr.startswith("labcode: ") and "\n" not in again.stderr.strip()
    finally:
        process.terminate()
        assert process.wait(timeout=20) == 0
    wrong = [sys.executable, "-m", "labcode", "serve", "--prefill", "sideways"]
    said = subprocess.run(wrong, capture_output=True, text=True, timeout=60)
    assert said.returncode == 2 and "prefill = 'sideways': known are" in said.stderr
