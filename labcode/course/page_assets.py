"""``python -m labcode.course.page_assets OUTDIR`` writes what pages load beside the labs' data.

The playground's engine, and the exercises' answers.  What has not changed is left alone.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

from labcode.course.exercise_page import scripts
from labcode.course.exercises import exercises
from labcode.course.playground import bundle

ROOT = Path(__file__).resolve().parents[1]


def write_exercises(out: Path) -> bool:
    """Write a script for each chapter's exercises unless labcode is what it was; return whether they were written."""
    text = hashlib.sha256()
    for path in sorted(ROOT.rglob("*.py")):
        text.update(path.read_bytes())
    stamp, state = out / "exercises.txt", text.hexdigest()
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == state:
        return False
    for chapter, script in scripts(exercises().values()).items():
        (out / f"exercises-{chapter}.js").write_text(script, encoding="utf-8")
    stamp.write_text(state, encoding="utf-8")
    return True


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(prog="python -m labcode.course.page_assets", description=__doc__)
    parser.add_argument("outdir", type=Path)
    out = parser.parse_args().outdir
    out.mkdir(parents=True, exist_ok=True)
    bundle.write(out / "playground-engine.js")
    write_exercises(out)


if __name__ == "__main__":
    main()
