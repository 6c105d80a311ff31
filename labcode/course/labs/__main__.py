"""Compute every state of every lab for the page: ``python -m labcode.course.labs OUTDIR``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from labcode.course.labs import all_labs, find
from labcode.labkit.build import build_lab, build_vega


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m labcode.course.labs", description=__doc__)
    parser.add_argument("outdir", type=Path, help="folder for the data files and the chart library")
    parser.add_argument("--only", metavar="ID", action="append", help="build this lab only (may be repeated)")
    parser.add_argument("--workers", type=int, default=2, help="processes (2)")
    options = parser.parse_args(arguments)
    if options.workers < 1:
        parser.error(f"--workers {options.workers}: at least 1 is needed")
    try:
        labs = [find(i) for i in options.only] if options.only else all_labs()
        build_vega(options.outdir)
        done = [build_lab(lab, options.outdir, options.workers, progress=True) for lab in labs]
    except (ValueError, RuntimeError) as error:
        print(f"labs: {error}", file=sys.stderr)
        return 1
    print(f"labs: {sum(done)} computed, {len(done) - sum(done)} unchanged", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
