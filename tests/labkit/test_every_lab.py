"""Every lab of the book: corners of its grid at once, the whole grid with patience."""

from __future__ import annotations

import itertools
import math
import re
import sys

import pytest

from labcode.course.labs import all_labs
from labcode.labkit.build import compute_all
from labcode.labkit.lab import Lab, Result
from labcode.labkit.page_data import page_data

LABS = all_labs()
BY_ID = pytest.mark.parametrize("lab", LABS, ids=[lab.id for lab in LABS])
#: All but the front page's, which shows before it tells.
ASKING = [lab for lab in LABS if lab.id != "ch00-front"]

#: A number that is none, whatever unit stands behind it.
NO_NUMBER = re.compile(r"\bnan", re.IGNORECASE)

#: "82%" beside "90 %"; "1 tokens".
UNTIDY = re.compile(r"\d%|(?<![\d.,])1 (?!s\b|times\b|is\b|has\b|ms\b|says\b)[a-z]+s\b(?!-)")

#: At least this share of a lab's states says something that no other state says, by chapter.
DISTINCT = {"ch01": 1 / 2, "ch05": 1 / 3, "ch06": 1 / 2, "ch07": 1 / 3, "ch08": 1 / 4, "ch09": 1 / 4, "ch11": 1 / 4}
#: Chapters whose labs mark a limit or the operating point in every state.
MARKED = ("ch08", "ch09", "ch10", "ch11")


def look(lab: Lab, result: Result, params: dict) -> None:
    """Whatever a reader may come upon has a headline, words, and either numbers or a word on why there are none."""
    assert 10 <= len(result.headline) <= 400, params
    assert len(lab.alt_text(result, params)) >= 20
    assert not NO_NUMBER.search(result.headline), (params, result.headline)
    assert not result.headline[0].islower(), (params, result.headline)
    for text in (result.headline, lab.in_words(params), *(panel.text for panel in result.panels)):
        assert not UNTIDY.search(text), (params, text)
    for panel in result.panels:
        assert not NO_NUMBER.search(panel.text), (params, panel.text)
        assert max((len(s.x) for s in panel.series), default=0) <= 400, panel.key
        if all(s.empty for s in panel.series):
            assert panel.text, f"{panel.key} at {params}: nothing to see and nothing said"


@BY_ID
def test_default_and_some_corners(lab):
    ends = [(c.values[0], c.values[-1]) for c in lab.controls]
    names = [c.name for c in lab.controls]
    corners = [dict(zip(names, values, strict=True)) for values in itertools.product(*ends)]
    for params in [lab.default, corners[0], corners[-1]]:
        look(lab, lab.run(**params), params)


@BY_ID
def test_a_lab_is_pure(lab):
    """Computed twice from nothing: what the lab's own module remembers is forgotten in between."""
    first = repr(lab.compute(**lab.default))
    forget(lab)
    assert repr(lab.compute(**lab.default)) == first


def forget(lab: Lab) -> None:
    """Empty the caches of a lab's module and of what it took from other modules."""
    for value in vars(sys.modules[lab.compute.__module__]).values():
        if hasattr(value, "cache_clear"):
            value.cache_clear()


@pytest.mark.parametrize("lab", ASKING, ids=[lab.id for lab in ASKING])
def test_a_lab_asks_first_and_its_own_result_decides(lab):
    verdict = lab.verdict()
    assert verdict.right in lab.predict.options and not verdict.why[0].islower() and verdict.why.endswith(".")
    assert lab.numbers, "which kind of numbers are these?"
    assert len(lab.controls) <= 4 and lab.size <= 600
    # Even without the cover, the first state does not spell the answer out.
    result = lab.run()
    assert all(verdict.right not in text for text in (result.headline, *(panel.text for panel in result.panels)))


def test_the_right_answer_is_not_always_in_the_same_place():
    places = [lab.predict.options.index(lab.verdict().right) for lab in ASKING]
    assert max(places.count(place) for place in set(places)) <= len(ASKING) / 2


@pytest.mark.slow
@BY_ID
def test_the_whole_grid(lab):
    results = compute_all(lab, workers=2)
    for params, result in zip(lab.states(), results, strict=True):
        look(lab, result, params)
        assert lab.id[:4] not in MARKED or any(panel.marks for panel in result.panels)
    if lab.challenge is not None:  # It can be met, the opening state does not meet it, and few others do.
        met = [lab.challenge.met(params, result) for params, result in zip(lab.states(), results, strict=True)]
        assert 0 < sum(met) <= lab.size / 8 and not met[list(lab.states()).index(lab.default)]
    said = {result.headline for result in results}
    if lab.id[:4] in MARKED:
        said = {(result.headline, *(panel.text for panel in result.panels)) for result in results}
    assert len(said) > lab.size * DISTINCT.get(lab.id[:4], 0)
    # Moving a control changes something: a grid of equal states is no lab.
    data = page_data(lab, results)
    assert len({tuple(row) for row in data["states"]}) > 1
    for along in "xy":
        for panel in results[0].panels:
            limits = getattr(panel, along).limits
            assert limits is None or all(math.isfinite(v) for v in limits)
