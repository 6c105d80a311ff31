"""The reference shows every public name of the library with its call and its first sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labcode.course.reference import PACKAGES, documented, methods, reference, shown, signature

NOTEBOOK = Path(__file__).resolve().parents[2] / "book" / "reference.ipynb"


@pytest.mark.parametrize("name", PACKAGES)
def test_every_public_name_is_there_and_documented(name):
    found = reference(name)
    html, listed = found._repr_html_(), shown(name)
    assert listed
    for one, value in listed:
        assert f'id="{name}.{one}"' in html
        assert not callable(value) or documented(value)[0], f"{name}.{one} has no docstring"


def test_the_page_has_a_section_for_each_package():
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert code[1:] == [f'reference("{name}")' for name in PACKAGES]


def test_calls_and_methods():
    class Thing:
        """One."""

        def act(self, times: int = 2) -> str:
            """Two."""
            return "x" * times

        @property
        def size(self) -> int:
            """Three."""
            return 1

        def _hidden(self) -> None:
            """Four."""

    assert signature("act", Thing.act) == "act(times=2)"
    assert [call for call, _ in methods(Thing)] == ["act(times=2)", "size"]
    with pytest.raises(ValueError, match="known are"):
        reference("os")
