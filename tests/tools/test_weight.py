"""Pages load one script and one style sheet, and the sheet lacks only what nothing matches."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.weight import SCRIPT, STYLE, WORD, light, lighten, style_sheet

HEAD = """<head>
    <link href="../_static/styles/theme.css?digest=1" rel="stylesheet" />
    <link rel="stylesheet" type="text/css" href="../_static/pygments.css?v=1" />
    <link rel="stylesheet" type="text/css" href="../_static/playground.css?v=1" />
    <link rel="preload" as="script" href="../_static/scripts/bootstrap.js?digest=1" />
    <script src="../_static/documentation_options.js?v=1"></script>
    <script>let toggleHintShow = 'Click to show';</script>
    <script>DOCUMENTATION_OPTIONS.pagename = 'book/x';</script>
    <script src="../_static/searchtools.js"></script>
    <script src="../searchindex.js"></script>
    <script defer="defer" src="../_static/playground.js?v=1"></script>
</head>"""
VERSIONS = {SCRIPT: "aa", STYLE: "bb"}


def test_a_page_loads_one_script_and_one_style_sheet_and_no_search() -> None:
    done = light(HEAD, VERSIONS)
    assert done.count("<script") == 2 and '<script defer="defer" src="../_static/book-page.js?v=aa">' in done
    assert done.count("stylesheet") == 2 and 'href="../_static/book-page.css?v=bb"' in done
    assert "playground.js?v=1" in done and "playground.css?v=1" in done, "what only this page needs stays its own"
    assert light(done, VERSIONS) == done
    assert "book-page.js?v=cc" in light(done, {SCRIPT: "cc", STYLE: "bb"}), "an unchanged page follows a new bundle"


def test_the_search_page_keeps_its_scripts() -> None:
    page = (
        '<script src="_static/searchtools.js"></script><script src="searchindex.js"></script><div id="search-results">'
    )
    assert light(page, VERSIONS) == page


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        (".gone{color:red}", ""),
        (".gone,.lab{color:red}", ".lab{color:red}"),
        ("#gone .lab{color:red}", ""),
        ("p.lab > a:hover{color:red}", "p.lab > a:hover{color:red}"),
        (".lab:not(.gone){color:red}", ".lab:not(.gone){color:red}"),
        ("@media print{.gone{color:red}.lab{color:red}}", "@media print{.lab{color:red}}"),
        ("@media print{.gone{color:red}}", ""),
        ("@keyframes turn{to{rotate:1turn}}", "@keyframes turn{to{rotate:1turn}}"),
        ("p{width:.5em;background:url(data:,a.b)}", "p{width:.5em;background:url(data:,a.b)}"),
    ],
)
def test_a_rule_stays_if_anything_could_match_it(tmp_path: Path, rule: str, kept: str) -> None:
    (tmp_path / "labs.css").write_text(rule)
    assert style_sheet(tmp_path, set(WORD.findall('<p class="lab">'))).strip() == kept


def test_addresses_in_the_themes_sheets_still_lead_there(tmp_path: Path) -> None:
    (tmp_path / "styles").mkdir()
    (tmp_path / "styles" / "theme.css").write_text("@import '../basic.css';a{background:url(../vendor/x.svg)}")
    assert style_sheet(tmp_path, set()).strip() == "a{background:url(vendor/x.svg)}"


def test_a_build_gets_its_bundles_and_is_left_alone_then(tmp_path: Path) -> None:
    (tmp_path / "_static" / "scripts").mkdir(parents=True)
    for name in ("scripts/pydata-sphinx-theme.js", "documentation_options.js", "labs.css"):
        (tmp_path / "_static" / name).write_text(f"/* {name} */")
    (tmp_path / "book").mkdir()
    page = tmp_path / "book" / "x.html"
    page.write_text(HEAD)
    assert lighten(tmp_path) == 1 and lighten(tmp_path) == 0
    script = (tmp_path / "_static" / SCRIPT).read_text()
    assert script.index("toggleHintShow") < script.index("documentation_options") < script.index("pydata")
    (tmp_path / "_static" / "documentation_options.js").write_text("changed")
    assert lighten(tmp_path) == 1 and "changed" in (tmp_path / "_static" / SCRIPT).read_text()
