"""Each chapter says how long it takes, and each of its learning goals leads to the section where it is met."""

from __future__ import annotations

import json
import re

import pytest

from tools.times import Times, chapters, rounded, stated, times, wrong


@pytest.mark.parametrize("path", chapters(), ids=lambda path: path.stem)
def test_times_under_the_title(path):
    assert not wrong(path), f"run `python -m tools.times`: {times(path)} stands as {stated(path)}"


@pytest.mark.parametrize("path", chapters(), ids=lambda path: path.stem)
def test_goals_lead_to_sections_with_the_title_that_they_name(path):
    texts = ["".join(cell["source"]) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
    goals = next(text for text in texts if "学习目标" in text)
    items = re.findall(r"^(?:- |\d+\. )(.+(?:\n(?!- |\d+\. |\n|#).+)*)", goals, re.M)
    sections = {
        anchor: title for text in texts for anchor, title in re.findall(r'<a id="([^"]+)"></a>\n\n## (.+)', text)
    }
    assert len(items) >= 4
    for item in items:
        links = re.findall(r"\[([^\]]+)\]\(#([^)]+)\)", item.partition("→ ")[2])
        assert links, item
        assert all(sections[anchor].startswith(title) for title, anchor in links), item


def test_words_code_labs_and_exercises_count(tmp_path):
    cells = [
        ("markdown", "# Title\n\n" + "word " * 1500 + "\n\n<details>" + "fold " * 900 + "</details>", []),
        ("code", 'show("ch01-a")\n' + "x = 1\n" * 149, []),
        ("code", "y = 1\n" * 300, ["remove-input"]),
        ("markdown", "### Exercise 1.1 · 练习 · A\n\n### Exercise 1.build · 练习 · B", []),
    ]
    path = tmp_path / "01-x.ipynb"
    listed = [{"cell_type": kind, "source": text, "metadata": {"tags": tags}} for kind, text, tags in cells]
    path.write_text(json.dumps({"cells": listed}))
    assert times(path) == Times(20, 5, 25)
    assert (rounded(0), rounded(1), rounded(13)) == (0, 5, 15)
