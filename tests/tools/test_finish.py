"""The last step of a build: Chinese is marked, icons stand in the page, MathJax comes with mathematics only."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.finish import (
    bundle_labs,
    finish,
    icon_paths,
    inline_icons,
    mark_chinese,
    with_math_font,
    without_comments,
    without_idle_mathjax,
    without_misnamed,
    without_plain_spans,
    without_unused,
)
from tools.sphinx_book import LAB_ASSETS

ICONS = 'x={bars:[448,512,["navicon"],"f0c9","M0 96"],"angle-left":[320,512,[8249],"f104","M41 2"]}'
MARK = '<span lang="zh-Hans">{}</span>'.format


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<h2>Orca · 迭代级调度</h2>", f"<h2>Orca · {MARK('迭代级调度')}</h2>"),
        ("<p>KV 槽位与死锁：停还是跳? End</p>", f"<p>KV {MARK('槽位与死锁：停还是跳')}? End</p>"),
        ("<p>no Chinese, “quotes” · … only</p>",) * 2,
        ("<script>a = '调度'</script><title>调度</title><svg><text>调度</text></svg>",) * 2,
        ('<img alt="调度"><!-- 调度 -->',) * 2,
        ("<pre># 批</pre><br/>批", f"<pre># {MARK('批')}</pre><br/>{MARK('批')}"),
    ],
)
def test_chinese_is_marked_once_and_only_in_text(before: str, after: str) -> None:
    assert mark_chinese(before) == after
    assert mark_chinese(after) == after


def test_icons_stand_in_the_page_and_an_unknown_one_keeps_the_script() -> None:
    icons = icon_paths(ICONS)
    assert icons == {"bars": (448, 512, "M0 96"), "navicon": (448, 512, "M0 96"), "angle-left": (320, 512, "M41 2")}
    script = '<script defer src="../_static/scripts/fontawesome.js?digest=1"></script>'
    page = f'{script}<i class="theme-switch fa-solid fa-bars  fa-lg" data-mode="auto" title="T"></i>'
    done = inline_icons(page, icons)
    assert "fontawesome" not in done and 'd="M0 96"' in done and 'viewBox="0 0 448 512"' in done
    assert 'class="icon theme-switch fa-lg" data-mode="auto" title="T"' in done and 'aria-hidden="true"' in done
    unknown = script + '<span class="fas fa-nobody"></span>'
    assert inline_icons(unknown, icons) == unknown


def test_comments_are_not_shipped() -> None:
    kept = "<script>x = '<!--a-->';</script><style>b { c: '<!-- -->' }</style>"
    assert (
        without_comments(f"{kept}<p>1.5<!--load.mean():.1f--> s</p><!-- \n --><p></p>") == f"{kept}<p>1.5 s</p><p></p>"
    )


def test_code_marks_only_what_has_a_colour() -> None:
    code = '<div class="highlight"><pre><span></span>'
    code += '<span class="nn">a</span><span class="p">.</span><span class="k">if</span></pre>'
    table = '<td><span class="n">x</span></td>'
    done = '<div class="highlight"><pre><span></span>a.<span class="k">if</span></pre>'
    assert without_plain_spans(code + table) == done + table == without_plain_spans(done + table)


def test_a_page_with_formulas_loads_their_face_in_its_newest_version() -> None:
    sheet = '<link rel="stylesheet" href="../_static/book.css?v=1" />'
    page = with_math_font(f"<head>{sheet}</head><math></math>", "abc")
    assert page.count("book-math.css") == 1 and 'href="../_static/book-math.css?v=abc"' in page
    assert with_math_font(page, "abc") == page
    assert with_math_font(page, "def").count("book-math.css") == 1
    assert with_math_font(page.replace("<math></math>", ""), "abc") == f"<head>{sheet}</head>"


def test_mathjax_comes_only_where_there_is_mathematics() -> None:
    loads = "<script>window.MathJax = {}</script><script defer src='_static/vendor/mathjax/tex.js'></script>"
    assert without_idle_mathjax(f"{loads}<p>none</p>") == "<p>none</p>"
    done = '<span class="math notranslate"><math></math></span>'
    assert without_idle_mathjax(loads + done) == done
    with_math = rf'{loads}<span class="math notranslate">\(x\)</span>'
    assert without_idle_mathjax(with_math) == with_math
    assert without_idle_mathjax(f'{loads}<p class="mathjax_ignore">none</p>') == '<p class="mathjax_ignore">none</p>'


def test_a_finished_build_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "_static" / "scripts").mkdir(parents=True)
    (tmp_path / "_static" / "scripts" / "fontawesome.js").write_text(ICONS)
    (tmp_path / "_static" / "x.html").write_text("调度")
    (tmp_path / "a.html").write_text('<p>调度<i class="fas fa-bars"></i></p>')
    assert finish(tmp_path) == 1 and finish(tmp_path) == 0
    assert (tmp_path / "_static" / "x.html").read_text() == "调度"


def test_what_has_words_on_it_is_called_by_them() -> None:
    page = '<button class="btn search-button-field" title="Search" aria-label="Search" data-x="1">Search</button>'
    assert without_misnamed(page) == page.replace(' aria-label="Search"', "")
    fold = '<summary aria-label="Toggle hidden content"><span>Show</span></summary>'
    assert without_misnamed(fold) == "<summary><span>Show</span></summary>"
    icon = '<button class="search-button" aria-label="Search"></button>'
    assert without_misnamed(icon) == icon, "an icon alone needs its name"


SCRIPTS = "".join(
    f'\n    <script defer="defer" src="../_static/{n}?v=1"></script>' for n in LAB_ASSETS if n.endswith("js")
)


def test_a_page_loads_what_it_uses_and_the_labs_in_one_piece() -> None:
    head = (
        f'<head><link href="../_static/labs.css?v=2"/>{SCRIPTS}<script src="../_static/design-tabs.js"></script></head>'
    )
    with_lab = without_unused(head + '<body><div class="lab"></div></body>')
    assert with_lab.count("<script") == 1 and 'src="../_static/book-labs.js?v=' in with_lab and "labs.css" in with_lab
    assert without_unused(with_lab) == with_lab
    without = without_unused(head + "<body><p>text</p></body>")
    assert "<script" not in without and "labs" not in without
    code = '<script src="_static/copybutton.js"></script><body><pre>x</pre></body>'
    assert without_unused(code) == code


def test_the_bundle_holds_the_scripts_in_their_order(tmp_path: Path) -> None:
    for name in LAB_ASSETS:
        (tmp_path / name).write_text(f"/* {name} */")
    bundle_labs(tmp_path)
    text = (tmp_path / "book-labs.js").read_text()
    places = [text.index(name) for name in LAB_ASSETS if name.endswith(".js")]
    assert places == sorted(places) and "labs.css" not in text
