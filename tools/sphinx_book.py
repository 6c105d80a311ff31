"""Sphinx extension of this book: stale results are impossible, and no page asks for anything from outside.

What a page has beyond the plain notebook (numbers measured by this build, badges, boxed exercises) is added by
`tools.sphinx_plain`.
jupyter-book loads it through `local_extensions` in _config.yml, so the rules also hold when someone calls
``jupyter-book build .`` instead of ``make book``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

from tools import launch, sphinx_plain
from tools.execute import PAGE_VIEW
from tools.fingerprint import cache_path, discard_if_changed
from tools.vendor import gather

# jupyter-book always loads these; they put the addresses of public servers into pages, for what the book does not use.
UNWANTED = ("sphinx_thebe", "sphinx_comments")
LAB_ASSETS = (
    "labs.css",
    "labs-charts.js",
    "labs-ask.js",
    "labs-flow.js",
    "labs-tools.js",
    "labs.js",
    "labs-exercises.js",
)

#: What one page alone needs: its name, and the files, in the order in which they are loaded.
PAGE_ASSETS = {
    "book/playground": ("playground.css", "playground-numbers.js", "playground.js"),
    "book/a6-pitfalls": ("quiz.css", "quiz.js"),
}


def use_fresh_cache(app: Sphinx, config: Config) -> None:
    """Point myst-nb at the cache for the present labcode; a changed path also makes Sphinx read every page again."""
    config["nb_execution_cache_path"] = str(cache_path(Path(app.confdir)))


def forget_mixed_results(app: Sphinx, error: Exception | None) -> None:
    """Throw the cache away if labcode changed during the build."""
    discard_if_changed(Path(app.config.nb_execution_cache_path), Path(app.confdir))


def drop_unwanted(app: Sphinx, config: Config) -> None:
    """Disconnect the extensions in `UNWANTED`, and the style sheet that one of them has already asked for."""
    for name, listeners in app.events.listeners.items():
        app.events.listeners[name] = [x for x in listeners if not (x.handler.__module__ or "").startswith(UNWANTED)]
    app.registry.css_files[:] = [css for css in app.registry.css_files if css[0] != "sphinx-thebe.css"]


def add_lab_assets(app: Sphinx, config: Config) -> None:
    """Add the labs' style and script where they exist."""
    folder = Path(app.confdir) / "book" / "assets"
    for name in LAB_ASSETS:
        if (folder / name).exists():
            if name.endswith(".css"):
                app.add_css_file(name)
            else:
                app.add_js_file(name, loading_method="defer")


def add_page_assets(app: Sphinx, pagename: str, *_: object) -> None:
    """Add style and scripts that only this page needs."""
    for name in PAGE_ASSETS.get(pagename, ()):
        if name.endswith(".css"):
            app.add_css_file(name)
        else:
            app.add_js_file(name, loading_method="defer")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the handlers; gather third-party browser code if that has not been done yet."""
    os.environ.update(PAGE_VIEW)  # for notebooks that the build itself has to run
    gather(Path(app.confdir) / "_build" / "assets")
    app.connect("config-inited", use_fresh_cache, priority=10)
    app.connect("config-inited", drop_unwanted, priority=900)
    app.connect("config-inited", add_lab_assets, priority=901)
    app.connect("html-page-context", add_page_assets)
    app.connect("build-finished", forget_mixed_results)
    sphinx_plain.connect(app)
    launch.connect(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
