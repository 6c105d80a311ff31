"""The list of exercises: every one of both sources stands in the book, and the page is what the chapters say."""

from __future__ import annotations

from dataclasses import replace

from tools.exercises import SOURCES, exercises, main, missing, page


def test_all_of_both_sources_are_listed():
    lecture, chapter = SOURCES.values()
    assert [number for number, *_ in lecture] == [str(n) for n in range(1, 10)]
    assert [number for number, *_ in chapter] == [f"31.{n}" for n in range(1, 14)]
    assert [number for number, *_, optional in chapter if optional] == ["31.7", "31.9"]


def test_each_stands_in_the_book_with_its_anchor_and_the_page_is_up_to_date():
    assert missing(exercises()) == []
    assert main(["--check"]) == 0, "run `python -m tools.exercises`"


def test_one_that_is_gone_or_has_no_anchor_is_named():
    found = exercises()
    without = [one for one in found if one.id != "7.3"]
    assert any("exercise 6: 7.3 is not in the book" in line for line in missing(without))
    assert missing([replace(found[0], anchored=False), *found[1:]])[0].endswith('lacks <a id="ex-1-1"></a>')


def test_building_tasks_have_a_section():
    text = page(exercises(), {one.page: one.page for one in exercises()})
    assert text.count("build](") >= 6 and "选修" in text
