"""The book's own server: texts go out compressed, and only what has a version is kept unasked."""

from __future__ import annotations

import gzip
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tools.serve import serving


@pytest.mark.parametrize(
    ("address", "kept"), [("a.js?v=1f", True), ("a.js", False), ("a.html", False), ("a.js?rate=4", False)]
)
def test_what_a_browser_may_keep(tmp_path: Path, address: str, kept: bool) -> None:
    for name in ("a.js", "a.html"):
        (tmp_path / name).write_text("text " * 100)
    with serving(tmp_path) as url:
        asked = urllib.request.Request(f"{url}/{address}", headers={"Accept-Encoding": "gzip"})
        with urllib.request.urlopen(asked) as answer:
            assert gzip.decompress(answer.read()) == b"text " * 100
            assert answer.headers["Cache-Control"] == ("public, max-age=31536000, immutable" if kept else "no-cache")


def test_a_missing_page_is_not_kept(tmp_path: Path) -> None:
    with serving(tmp_path) as url, pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(f"{url}/gone.js?v=1")
    assert error.value.code == 404 and error.value.headers["Cache-Control"] == "no-cache"
