"""``python -m labcode.course.playground FILE`` writes the playground's engine, unless it is there already."""

from __future__ import annotations

import argparse
from pathlib import Path

from labcode.course.playground.bundle import write


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(prog="python -m labcode.course.playground", description=__doc__)
    parser.add_argument("file", type=Path)
    write(parser.parse_args().file)


if __name__ == "__main__":
    main()
