"""The exercises' answers for the pages: what `check` goes by, in a form that nobody reads by accident.

One file a chapter, ``exercises-8.js``; `book/assets/labs-exercises.js` puts a field at each exercise and judges as
`labcode.course.exercises.verdict` does.  The answers are no secret (the solution stands folded below), but who looks
for one exercise in a file should not see the next one's.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable

from labcode.course.exercises import SLIPS, Exercise


def veiled(text: str, key: str) -> str:
    """Return `text` with every byte mixed with a byte of `key`, in base64."""
    letters = key.encode()
    mixed = bytes(byte ^ letters[i % len(letters)] ^ (31 * i & 0xFF) for i, byte in enumerate(text.encode()))
    return base64.b64encode(mixed).decode()


def entry(exercise: Exercise) -> list[str]:
    """Return what a page knows of an exercise: its question; answer, tolerance and whether it is a share, veiled."""
    known = [float(exercise.answer()), exercise.tolerance, exercise.share]
    return [exercise.question, veiled(json.dumps(known), exercise.id)]


def chapter_of(id: str) -> str:
    """Return the chapter or appendix of an exercise: ``"8"`` of ``"8.3a"``."""
    return id.partition(".")[0]


def scripts(exercises: Iterable[Exercise]) -> dict[str, str]:
    """Return for each chapter the script that registers its exercises."""
    chapters: dict[str, dict[str, list[str]]] = {}
    for exercise in exercises:
        chapters.setdefault(chapter_of(exercise.id), {})[exercise.id] = entry(exercise)
    slips = json.dumps([[factor, words] for factor, words in SLIPS.items()])
    return {
        chapter: f"window.labSlips={slips};\nwindow.labExercises={json.dumps(entries, ensure_ascii=False)};\n"
        for chapter, entries in chapters.items()
    }
