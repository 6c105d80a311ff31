"""The playground's engine as one script for a page: Brython, the book's own sources, and the little that they stand on.

Brython (https://brython.info, BSD-3-Clause) runs Python in a browser.  The sources of the scheduler, the loop, the
record and the cost model go into the page unchanged; small modules of `stand_ins` take the place of dataclasses, enum,
typing and numpy, of which they use little, and would load much.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from importlib.metadata import version
from pathlib import Path
from textwrap import dedent
from typing import Any

from labcode.course.playground import tables
from labcode.course.playground.figures import FIGURES
from labcode.course.playground.panels import frames
from labcode.labkit.flow_picture import legend

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent

_SCHEDULER = (
    *("admission", "budgets", "contiguous", "fair", "kv_cache", "managers"),
    *("preemption", "request", "scheduler", "states", "waiting"),
)

#: Modules of the lab kit that shape the charts.
_DRAWING = ("render_vega", "vega_overlays", "swatch", "theme", "flow_picture")

#: Modules of labcode that run in the page as they are.
SOURCES = (
    "checks",
    *(f"scheduler.{name}" for name in _SCHEDULER),
    "results.outcomes",
    "results.record",
    "simulation.clock",
    "simulation.loop",
    *(f"cost.{name}" for name in ["base", "catalogue", "formula", "hardware", "leap", "roofline", "specs", "step"]),
    "labkit.watch",
    *(f"course.playground.{name}" for name in ["draws", "driver", "lengths"]),
)

#: Packages whose own first lines would load what no run in a page needs, and modules for compiled loops and files.
REPLACED = {
    "": "",
    "scheduler": "from labcode.scheduler.budgets import Budgets\nfrom labcode.scheduler.scheduler import Scheduler\n",
    "results": "",
    "simulation": "",
    "labkit": "",
    "course": "",
    "course.playground": "",
    "cost": "from labcode.cost.base import CostModel\nfrom labcode.cost.step import SeqWork, StepShape\n",
    "jit": "def compiled(function):\n    return function\n",
    "cost.compiled": "CompiledCost = roofline_form = None\n",
    "cost.hf_config": "model_from_config = None\n",
}
PACKAGES = ("", "scheduler", "results", "simulation", "labkit", "course", "course.playground", "cost")

STAND_INS = {
    "__future__": "future",
    "abc": "abc",
    "collections": "collections",
    "collections.abc": "collections_abc",
    "dataclasses": "dataclasses",
    "enum": "enum",
    "functools": "functools",
    "numbers": "numbers",
    "numpy": "numpy",
    "numpy.typing": "numpy_typing",
    "typing": "typing",
}
BRYTHONS_OWN = ("bisect", "heapq", "math")

#: What the worker does: load the engine, say so, then answer each setting with a run or with what is wrong.
WORKER = """
__BRYTHON__.protocol = "file"; // Modules come from below and from nowhere else.
__BRYTHON__.loadBrythonPackage(self.playgroundModules);
self.playgroundReport = (time, done) => postMessage({ kind: "progress", time, done });
function python(source) { __BRYTHON__.runPythonSource(source, "playground"); }
onmessage = function (event) {
  try {
    self.playgroundAsked = event.data;
    python("import page");
    postMessage({ kind: "started" });
    python("import page\\npage.answer()");
    postMessage({ kind: "result", text: self.playgroundAnswer });
  } catch (error) {
    postMessage({ kind: "broken", text: String((error && error.message) || error) });
  }
};
postMessage({ kind: "ready" });
"""

#: What the worker's Python does.
PAGE = dedent('''
    from browser import self as me
    from labcode.course.playground.driver import as_json, run
    from tables import TABLES

    def line_of(error):
        """Return the line of the reader's code that raised, None if another raised."""
        if isinstance(error, SyntaxError):
            return error.lineno
        found, at = None, error.__traceback__
        while at is not None:
            if at.tb_frame.f_code.co_filename == "your code":
                found = at.tb_lineno
            at = at.tb_next
        return found

    def answer():
        try:
            said = run(eval(me.playgroundAsked), TABLES, me.playgroundReport)
        except ValueError as error:
            said = {"error": str(error), "line": line_of(error)}
        except Exception as error:
            words = str(error).split(" (warning")[0]
            said = {"error": f"{type(error).__name__}: {words}", "line": line_of(error)}
        me.playgroundAnswer = as_json(said)
''')


def _brython() -> Path:
    found = importlib.util.find_spec("brython")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("brython is not installed; run `make env`")
    return Path(found.origin).parent / "data"


def _standard(names: tuple[str, ...]) -> dict[str, list[Any]]:
    """Return modules of Brython's own standard library."""
    text = (_brython() / "brython_stdlib.js").read_text(encoding="utf-8")
    modules = json.loads(text[text.index("{") : text.rindex("}") + 1])
    return {name: [modules[name][0], modules[name][1].split("\nif __name__")[0], []] for name in names}


def modules() -> dict[str, list[Any]]:
    """Return every module of the engine as Brython's virtual file system has them: kind, source, imports, package."""
    found = _standard(BRYTHONS_OWN)
    for name, file in STAND_INS.items():
        package = [1] if any(other.startswith(f"{name}.") for other in STAND_INS) else []
        found[name] = [".py", (HERE / "stand_ins" / f"{file}.py").read_text(encoding="utf-8"), [], *package]
    for name in SOURCES:
        path = ROOT / f"{name.replace('.', '/')}.py"
        found[f"labcode.{name}"] = [".py", path.read_text(encoding="utf-8"), []]
    for name, source in REPLACED.items():
        found[f"labcode.{name}".rstrip(".")] = [".py", source, [], *([1] if name in PACKAGES else [])]
    found["labcode.course.playground.figures"] = [".py", f"FIGURES = {FIGURES!r}\n", []]
    found["tables"] = [".py", f"TABLES = ({tables.exponential()!r}, {tables.normal()!r})\n", []]
    found["page"] = [".py", PAGE, []]
    return found


def worker() -> str:
    """Return the whole source of the worker that runs the scheduler in a page."""
    brython = (_brython() / "brython.js").read_text(encoding="utf-8")
    # Where it would look for files, if it looked for any.
    start = 'self.__BRYTHON__ = { brython_options: {}, brython_path: "http://nowhere.invalid/" };\n'
    return f"{start}{brython}\n;self.playgroundModules = {json.dumps(modules())};\n{WORKER}"


def script() -> str:
    """Return what the page loads: the worker as a text, from which it starts one also under file://, and the charts."""
    shown = {"panels": frames(), "legend": legend()}
    text = json.dumps(worker()).replace("</", "<\\/")
    return f"window.playgroundEngine={text};\nwindow.playgroundShown={json.dumps(shown)};\n"


def digest() -> str:
    """Return a hash of all that the script is made of."""
    paths = [ROOT / f"{name.replace('.', '/')}.py" for name in SOURCES]
    paths += [*HERE.glob("*.py"), *(HERE / "stand_ins").glob("*.py"), ROOT / "workload" / "synthetic.py"]
    paths += [ROOT / "labkit" / f"{name}.py" for name in _DRAWING]
    text = hashlib.sha256(version("brython").encode() + version("numpy").encode())
    for path in sorted(paths):
        text.update(path.read_bytes())
    return text.hexdigest()[:16]


def write(path: Path) -> bool:
    """Write the script unless it is there already; return whether it was written."""
    first = f"// Playground's engine, {digest()}; Brython {version('brython')} (BSD-3-Clause)\n"
    if path.is_file():
        with path.open(encoding="utf-8") as old:
            if old.readline() == first:
                return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(first + script(), encoding="utf-8")
    return True
