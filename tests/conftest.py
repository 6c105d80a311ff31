"""Fixtures that several test folders share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of published traces and measurements, which the project does not ship; skips without it."""
    given = os.environ.get("LABCODE_SHARED_DATA")
    folder = Path(given) if given else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the published traces are not here (set LABCODE_SHARED_DATA to their folder)")
    return folder
