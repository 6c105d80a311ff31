"""The build tool: it sees what is wrong with a page, serves on this machine only, and cannot show stale results."""

from __future__ import annotations

import gzip
import shutil
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import nbformat
import pytest

from tools.execute import run_all
from tools.pages import Page, problems
from tools.serve import HOST, server, serving
from tools.vendor import gather

ROOT = Path(__file__).resolve().parents[2]
TEXT = "word " * 100
SHELL = "<!doctype html><html><body><article>{}</article></body></html>" + " " * 5000


@pytest.fixture
def small_book(tmp_path: Path) -> Path:
    """A root with a table of contents of two pages, both built and in order."""
    (tmp_path / "_toc.yml").write_text("root: a\nparts:\n  - chapters:\n      - file: b\n")
    html = tmp_path / "html"
    html.mkdir()
    for name in ("a", "b", "index"):
        (html / f"{name}.html").write_text(SHELL.format(TEXT))
    return tmp_path


def test_a_page_in_order_has_no_problems(small_book: Path) -> None:
    assert problems(small_book, small_book / "html") == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "was not built"),
        ("", "is empty"),
        (SHELL.format(""), "is empty"),
        (SHELL.format(TEXT + '<script src="https://cdn.example/x.js"></script>'), "loads https://cdn.example/x.js"),
        (SHELL.format(TEXT + '<link rel="stylesheet" href="//cdn.example/x.css">'), "loads //cdn.example/x.css"),
        (SHELL.format(TEXT + '<img src="x.png" alt=" ">'), "no alt text on x.png"),
        (SHELL.format(TEXT + '<img src="x.png">'), "no alt text on x.png"),
    ],
)
def test_what_is_wrong_with_a_page_is_said(small_book: Path, content: str | None, said: str) -> None:
    page = small_book / "html" / "b.html"
    if content is None:
        page.unlink()
    else:
        page.write_text(content)
    (sentence,) = problems(small_book, small_book / "html")
    assert said in sentence and "b.html" in sentence


@pytest.mark.parametrize(
    ("link", "broken"),
    [
        ("a.html", False),
        ("a.html#place", False),
        ("#here", False),
        ("https://example.org/none", False),
        ("#", False),
        ("none.html", True),
        ("a.html#none", True),
        ("#none", True),
    ],
)
def test_links_that_lead_nowhere_are_named(small_book: Path, link: str, broken: bool) -> None:
    html = small_book / "html"
    (html / "a.html").write_text(SHELL.format(TEXT + '<a id="place"></a>'))
    (html / "b.html").write_text(SHELL.format(TEXT + f'<p id="here"><a href="{link}">x</a></p>'))
    said = [f"{html / 'b.html'}: the link to {link} leads nowhere"] if broken else []
    assert problems(small_book, html) == said


def test_links_to_other_sites_are_not_loads(tmp_path: Path) -> None:
    path = tmp_path / "p.html"
    link, script = '<a href="https://example.org">x</a>', '<script>var u = "https://example.org"</script>'
    path.write_text(link + script + '<img src="a.png">')
    assert Page(path).external == []


def test_server_takes_a_free_port_if_its_own_is_taken_and_listens_on_this_machine_only(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with server(tmp_path, port) as httpd:
            host, got = httpd.server_address[:2]
            assert host == "127.0.0.1" and got != port


def test_served_pages_are_asked_for_again_after_a_new_build(tmp_path: Path) -> None:
    (tmp_path / "x.html").write_text("one")
    with serving(tmp_path) as url, urllib.request.urlopen(f"{url}/x.html") as answer:
        assert answer.read() == b"one" and answer.headers["Cache-Control"] == "no-cache"


def test_texts_are_served_compressed_to_whoever_takes_it(tmp_path: Path) -> None:
    (tmp_path / "x.js").write_text("a" * 5000)
    (tmp_path / "y.png").write_bytes(b"a" * 5000)
    with serving(tmp_path) as url:

        def asked(name: str, **headers: str) -> tuple[bytes, str | None]:
            with urllib.request.urlopen(urllib.request.Request(f"{url}/{name}", headers=headers)) as answer:
                return answer.read(), answer.headers["Content-Encoding"]

        packed, how = asked("x.js", **{"Accept-Encoding": "gzip"})
        assert how == "gzip" and len(packed) < 100 and gzip.decompress(packed) == b"a" * 5000
        assert asked("x.js") == (b"a" * 5000, None)
        assert asked("y.png", **{"Accept-Encoding": "gzip"}) == (b"a" * 5000, None)
        (tmp_path / "x.js").write_text("new")
        assert gzip.decompress(asked("x.js", **{"Accept-Encoding": "gzip"})[0]) == b"new"


def test_vendored_mathjax_is_complete_and_copied_once(tmp_path: Path) -> None:
    assert gather(tmp_path) is True
    folder = tmp_path / "vendor" / "mathjax"
    assert (folder / "tex-mml-chtml.js").stat().st_size > 500_000
    assert len(list((folder / "output" / "chtml" / "fonts" / "woff-v2").glob("*.woff"))) > 20
    assert gather(tmp_path) is False


def notebook(path: Path, code: str) -> None:
    made = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    made.cells = [nbformat.v4.new_markdown_cell("# Title\n\n" + TEXT), nbformat.v4.new_code_cell(code)]
    nbformat.write(made, path)


@pytest.mark.slow
def test_notebooks_run_once_and_a_failing_one_is_named(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    good, bad = tmp_path / "good.ipynb", tmp_path / "bad.ipynb"
    notebook(good, "open('runs.txt', 'a').write('x')")
    notebook(bad, "1 / 0")
    cache = tmp_path / "cache" / "state"
    (message,) = run_all([good, bad], cache, workers=2)
    assert "bad.ipynb" in message and "ZeroDivisionError" in message
    assert run_all([good], cache, workers=1) == []
    assert (tmp_path / "runs.txt").read_text() == "x", "the second time, it came out of the cache"
    assert "1 notebooks, 0 to run" in capsys.readouterr().out


CONFIG = """
title: t
only_build_toc_files: true
execute: {execute_notebooks: cache}
sphinx:
  local_extensions: {tools.sphinx_book: .}
  config: {html_static_path: [_build/assets]}
"""


@pytest.mark.slow
@pytest.mark.parametrize("url", ["", "https://github.com/somebody/batching"])
def test_one_setting_switches_the_launch_buttons_on(tmp_path: Path, url: str) -> None:
    shutil.copytree(ROOT / "tools", tmp_path / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "labcode").mkdir()
    (tmp_path / "_config.yml").write_text(CONFIG + f'repository: {{url: "{url}", branch: main, path_to_book: ""}}\n')
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: page\n")
    notebook(tmp_path / "page.ipynb", "print(6 * 7)")
    call = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build", ".", "-W", "--quiet"]
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    html = tmp_path / "_build" / "html"
    page = (html / "page.html").read_text()
    cells = nbformat.read(html / "_sources" / "page.ipynb", as_version=4).cells
    line = f'%pip install --quiet "labcode @ git+{url}@main"'
    assert ("colab.research.google.com/github/somebody/batching/blob/main/page.ipynb" in page) is bool(url)
    assert ("mybinder.org" in page) is bool(url) and ("On Colab, run this first" in page) is bool(url)
    assert (cells[0].source == line) is bool(url)
    assert len(nbformat.read(tmp_path / "page.ipynb", as_version=4).cells) == 2, "the file itself stays as it is"


@pytest.mark.slow
def test_change_in_labcode_is_shown_although_the_notebook_is_the_same(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "tools", tmp_path / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "labcode").mkdir()
    (tmp_path / "_config.yml").write_text(CONFIG)
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: page\n")
    notebook(tmp_path / "page.ipynb", "print('the value is', open('labcode/value.txt').read())")
    value = tmp_path / "labcode" / "value.txt"

    def built() -> str:
        call = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build", ".", "-W", "--quiet"]
        done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return (tmp_path / "_build" / "html" / "page.html").read_text()

    for number in ("1111", "2222", "1111"):
        value.write_text(number)
        assert f"the value is {number}" in built()
