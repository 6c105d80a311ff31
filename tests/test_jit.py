"""Compiled functions: machine code on disk never outlives the source that it was made of."""

from __future__ import annotations

import subprocess
import sys

import pytest

from labcode import jit

CALLEE = "from labcode.jit import compiled\nSTEP = {step}\n@compiled\ndef one(): return {one}\n"
CALLER = "from labcode.jit import compiled\nfrom callee import STEP, one\n@compiled\ndef two(): return one() + STEP\n"
SHOW = "from caller import two\nprint(two(), sum(two.stats.cache_hits.values()))"


@pytest.mark.slow
@pytest.mark.skipif(not jit.AVAILABLE, reason="nothing is compiled here")
def test_kept_machine_code_follows_its_callees_and_constants(tmp_path):
    (tmp_path / "caller.py").write_text(CALLER)

    def result(one: int, step: int) -> list[int]:
        source, file = CALLEE.format(one=one, step=step), tmp_path / "callee.py"
        if not file.exists() or file.read_text() != source:
            file.write_text(source)
        path = f"import sys; sys.path[:0] = [{str(tmp_path)!r}]\n"
        done = subprocess.run([sys.executable, "-c", path + SHOW], capture_output=True, text=True, check=True)
        return [int(word) for word in done.stdout.split()]

    assert result(1, 10) == [11, 0]
    assert result(1, 10) == [11, 1], "unchanged, so it comes from the disk"
    assert result(5, 10) == [15, 0]
    assert result(5, 20) == [25, 0]
