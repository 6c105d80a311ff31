"""Buttons that open a chapter on Binder or Colab: on as soon as _config.yml names the repository, off until then.

Binder finds environment.yml by itself. Colab knows nothing of this project, so where the buttons are, each page says
what to run first, and the notebook that a page offers for download begins with a cell that does it.
"""

from __future__ import annotations

from pathlib import Path

import nbformat
from sphinx.application import Sphinx
from sphinx.config import Config

SERVICES = {"binderhub_url": "https://mybinder.org", "colab_url": "https://colab.research.google.com"}


def repository(config: Config) -> tuple[str, str]:
    """Return the address of the repository ("" if none is set) and its branch."""
    options = config.html_theme_options
    return str(options.get("repository_url") or "").rstrip("/"), str(options.get("repository_branch") or "main")


def install(url: str, branch: str) -> str:
    """Return the line that installs labcode in a notebook elsewhere."""
    return f'%pip install --quiet "labcode @ git+{url}@{branch}"'


def switch_on(app: Sphinx, config: Config) -> None:
    """Give the theme the services' addresses if there is a repository to open."""
    if repository(config)[0]:
        buttons = dict(config.html_theme_options.get("launch_buttons") or {})
        config.html_theme_options["launch_buttons"] = {**buttons, **SERVICES}


def say_what_to_run(app: Sphinx, name: str, content: list[str]) -> None:
    """Put the note under the first cell of a page's notebook. It is text: a code cell more would run it all again."""
    url, branch = repository(app.config)
    if url and Path(app.env.doc2path(name)).suffix == ".ipynb":
        notebook = nbformat.reads(content[0], as_version=4)
        note = f"> On Colab, run this first: `{install(url, branch)}`"
        notebook.cells.insert(1, nbformat.v4.new_markdown_cell(note, id="on-colab"))
        content[0] = nbformat.writes(notebook)


def add_first_cell(app: Sphinx, error: Exception | None) -> None:
    """Put the cell that installs into the notebooks offered for download."""
    url, branch = repository(app.config)
    if error or not url:
        return
    for path in (Path(app.outdir) / "_sources").rglob("*.ipynb"):
        notebook = nbformat.read(path, as_version=4)
        if notebook.cells and notebook.cells[0].get("id") != "install":
            notebook.cells.insert(0, nbformat.v4.new_code_cell(install(url, branch), id="install"))
            nbformat.write(notebook, path)


def connect(app: Sphinx) -> None:
    """Register the handlers."""
    app.connect("config-inited", switch_on, priority=20)
    app.connect("source-read", say_what_to_run, priority=600)
    app.connect("build-finished", add_first_cell)
