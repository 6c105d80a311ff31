"""The front page's cards: each chapter's own chart, and nothing else changed."""

from __future__ import annotations

from pathlib import Path

from tools.cards import MOST, make_cards

FRONT = (
    '<section id="chapters"><h2>Chapters</h2>\n<ul class="simple">\n'
    '<li><p><a class="reference internal" href="01-a.html">1 A</a>. Why?</p></li>\n'
    '<li><p><a class="reference internal" href="02-b.html">2 B</a>. How?</p></li>\n</ul>\n</section>'
    '<section id="more"><ul class="simple"><li><p><a href="01-a.html">again</a></p></li></ul></section>'
)


def svg(inside: str) -> str:
    """Return a chart as a lab draws it."""
    return f'<svg role="img" aria-label="A chart." viewBox="0 0 3 1" class="lab-picture">{inside}</svg>'


def test_each_chapter_shows_its_first_small_chart(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(FRONT)
    (tmp_path / "01-a.html").write_text(f"<div>{svg('x' * MOST)}{svg('small')}{svg('later')}</div>")
    (tmp_path / "02-b.html").write_text("<p>no lab</p>")
    assert make_cards(tmp_path)
    made = (tmp_path / "index.html").read_text()
    assert made.count('<li class="card-chapter">') == 2 and made.count("<svg") == 1
    assert ">small</svg>" in made and "aria-label" not in made and 'aria-hidden="true"' in made
    assert made.count('<ul class="simple">') == 1, "the list below the chapters stays a list"
    assert not make_cards(tmp_path), "done once is done"


def test_a_build_without_a_front_page(tmp_path: Path) -> None:
    assert not make_cards(tmp_path)
