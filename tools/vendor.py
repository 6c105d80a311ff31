"""Third-party browser code, copied out of installed Python packages: no CDN, no Node.js, nothing committed.

MathJax 3 comes from sphinx-mathjax-offline. Vega is written by `labcode.labkit.build`, beside the data that it draws.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
from pathlib import Path


def versions() -> str:
    """Return a line that changes when a source of the copies does."""
    return f"sphinx-mathjax-offline=={importlib.metadata.version('sphinx-mathjax-offline')}"


def mathjax_source() -> Path:
    """Return the folder of MathJax inside the installed package."""
    found = importlib.util.find_spec("sphinx-mathjax-offline")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("sphinx-mathjax-offline is not installed; run `make env`")
    return Path(found.origin).parent / "static" / "mathjax"


def copy_mathjax(target: Path) -> None:
    """Copy what TeX input and CommonHTML output need: one script, the TeX extensions it may ask for, the fonts."""
    source = mathjax_source()
    for folder in ("input/tex/extensions", "output/chtml/fonts/woff-v2"):
        shutil.copytree(source / folder, target / folder, dirs_exist_ok=True)
    shutil.copy2(source / "tex-mml-chtml.js", target)


def gather(assets: Path) -> bool:
    """Fill `assets`/vendor unless it already holds these versions; return whether anything was copied."""
    vendor = assets / "vendor"
    stamp = vendor / "versions.txt"
    wanted = versions()
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return False
    shutil.rmtree(vendor, ignore_errors=True)
    copy_mathjax(vendor / "mathjax")
    stamp.write_text(wanted, encoding="utf-8")
    return True
