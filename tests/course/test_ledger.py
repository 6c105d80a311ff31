"""The reproduction ledger: complete, within its tolerances, and able to say that something is off."""

from __future__ import annotations

import json
import re

import pytest

from labcode.__main__ import main
from labcode.course.ledger import ledger
from labcode.course.ledger.ledger import approx, exact, rounded, shape, within

STATED = {f"L{i:02d}" for i in range(1, 34)} | {f"C{i:02d}" for i in range(1, 13)}


@pytest.mark.slow
def test_every_stated_figure_has_rows_and_every_row_is_ok():
    rows = ledger()
    assert {row.id for row in rows} == STATED
    off = [f"{row.id} {row.what}: stated {row.stated}, ours {row.ours}, {row.tolerance}" for row in rows if not row.ok]
    assert not off
    assert all(re.match(r"00[03] ", row.source) for row in rows)


def test_judges_can_say_no():
    assert exact("x", "", [1, 2], [1, 2], "").ok and not exact("x", "", [1, 2], [1, 3], "").ok
    assert exact("x", "", 0.1 + 0.2, 0.3, "").ok and not exact("x", "", 0.3, 0.3001, "").ok
    assert rounded("x", "", 230, 230.26, 0, "").ok and not rounded("x", "", 230, 230.6, 0, "").ok
    assert approx("x", "", 100, [90, 108], 0.02, "").ok and not approx("x", "", 100, [90, 90], 0.05, "").ok
    assert within("x", "", "", [0.1, 0.2], 0.1, 0.2, "").ok and not within("x", "", "", 0.3, 0.1, 0.2, "").ok
    assert shape("x", "", "", "", [True, True], "").ok and not shape("x", "", "", "", [True, False], "").ok


def test_command_line(capsys):
    assert main(["ledger", "--json", "--only", "L14", "C07"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["id"] for row in rows} == {"L14", "C07"}
    assert set(rows[0]) == {"id", "what", "stated", "ours", "tolerance", "ok", "source"}
    assert main(["ledger", "--only", "L14"]) == 0
    assert "1 rows, 0 off" in capsys.readouterr().out
    assert main(["ledger", "--only", "L99"]) == 2


def test_exit_status_if_a_row_is_off(monkeypatch, capsys):
    import labcode.course.ledger.serving_rows as module

    monkeypatch.setattr(module, "most_at_once", lambda slots: 51)
    assert main(["ledger", "--only", "L14"]) == 1
    assert "OFF" in capsys.readouterr().out
