"""What a sweep has found so far, on disk: one CSV row an item, appended as soon as it is known."""

from __future__ import annotations

import csv
import hashlib
import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from labcode.experiments.tasks import Item, Task

#: Seconds that a process waits for another's row; one is written in a millisecond.
PATIENCE = 60.0


@cache
def engine_digest() -> str:
    """Return a digest of labcode's own source: numbers of another engine must not be mixed in."""
    root = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        if "labs" not in path.relative_to(root).parts:
            digest.update(path.read_bytes())
    return digest.hexdigest()


def described(name: str, value: Any) -> str:
    """Return a text that is the same for the same value in every session, and another for another value.

    Raises
    ------
    ValueError
        If there is no such text: an object without a `repr` of its own.
    """
    if isinstance(value, np.ndarray):
        return hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest() + str(value.dtype)
    if isinstance(value, CodeType):
        return f"{value.co_code.hex()}{value.co_names}" + "".join(
            described(name, constant) for constant in value.co_consts
        )
    if isinstance(value, MethodType):
        return described(name, value.__self__) + value.__func__.__qualname__
    if isinstance(value, FunctionType):
        inside = [cell.cell_contents for cell in value.__closure__ or ()]
        return f"{value.__module__}.{value.__qualname__}" + described(
            name, (value.__code__, value.__defaults__, *inside)
        )
    if isinstance(value, type | BuiltinFunctionType):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, partial):
        return described(name, (value.func, value.args, value.keywords))
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key!r}:{described(name, value[key])}" for key in sorted(value, key=repr)) + "}"
    if isinstance(value, list | tuple):
        return "(" + ",".join(described(name, part) for part in value) + ")"
    if is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: getattr(value, f.name) for f in fields(value) if f.init}
        return f"{type(value).__qualname__}{described(name, parts)}"
    text = repr(value)
    if " at 0x" in text:
        raise ValueError(
            f"path: {name} = {text} cannot be recognised in a later session; "
            "give it a repr (a frozen dataclass has one), or leave path out"
        )
    return text


def item_key(task: Task, item: Item) -> str:
    """Return the key under which an item is filed: changed options, seeds or sources make another key."""
    parts = (
        engine_digest(),
        described("the task", task),
        described("a grid value", item.cell),
        repr(item.seeds),
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]


class Store:
    """A CSV file of finished items, which several processes may append to.

    Each row is written with one call, under a lock on the file beside it (``.csv.lock``), after whatever others have
    written meanwhile.  A row that an interruption cut short is recognised by its missing end and overwritten, so that
    its item is simply done again.  Failed items are not written: whoever resumes wants them tried again.
    """

    def __init__(self, path: str | os.PathLike[str], parameters: list[str], patience: float = PATIENCE) -> None:
        self.path, self.parameters = Path(path), parameters
        if self.path.suffix != ".csv":
            raise ValueError(f"path = {str(path)!r}: the name of a .csv file is needed")
        self.lock = FileLock(f"{self.path}.lock", timeout=patience)
        self.columns: list[str] | None = None
        self.known: dict[str, dict[str, float]] = {}
        self.whole = 0  # bytes of the file up to the end of its last complete row
        if self.path.exists():
            with self._locked():
                self._read()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the file's lock.

        Raises
        ------
        ValueError
            If another process does not let go of it in time.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.lock.acquire()
        except Timeout:
            raise ValueError(
                f"path = {str(self.path)!r}: another process has held the file's lock for {self.lock.timeout:g} s; "
                "wait for it, or take another file"
            ) from None
        try:
            yield
        finally:
            self.lock.release()

    def _read(self) -> None:
        content = self.path.read_bytes()
        self.whole = content.rfind(b"\n") + 1
        rows = list(csv.reader(content[: self.whole].decode("utf-8-sig").split("\n")[:-1]))
        if not rows:
            return
        fixed = ["key", *self.parameters, "repetition", "workload_seed"]
        if rows[0][: len(fixed)] != fixed:
            raise ValueError(
                f"path = {str(self.path)!r}: the file has the columns {', '.join(rows[0][:8])} ..., "
                f"this sweep writes {', '.join(fixed)} ...; take another file"
            )
        self.columns = rows[0][len(fixed) :]
        for row in rows[1:]:
            if len(row) == len(rows[0]):
                self.known[row[0]] = dict(zip(self.columns, map(float, row[len(fixed) :]), strict=True))

    def add(self, key: str, item: Item, labels: Mapping[str, Any], values: Mapping[str, float]) -> None:
        """Append an item's row, unless another process has done so.

        Raises
        ------
        ValueError
            If it has other columns than the rows before, or the file stays locked.
        """
        with self._locked():
            if self.path.exists() and self.path.stat().st_size != self.whole:
                self._read()  # others have written, or were cut short
            if key in self.known:
                return
            if self.columns is None:
                self.columns = list(values)
                self._append(["key", *self.parameters, "repetition", "workload_seed", *self.columns])
            if list(values) != self.columns:
                raise ValueError(f"this cell gives {', '.join(values)}; the file has {', '.join(self.columns)}")
            # repr of a float gives back the very same float when it is read.
            numbers = [repr(value) for value in values.values()]
            names = [labels[name] for name in self.parameters]
            self._append([key, *names, item.seeds.index, item.seeds.workload, *numbers])
            self.known[key] = dict(values)

    def _append(self, row: list[Any]) -> None:
        with open(self.path, "r+b" if self.path.exists() else "w+b") as file:
            file.truncate(self.whole)
            file.seek(self.whole)
            line = _line(row)
            file.write(line)
            self.whole += len(line)


def _line(row: list[Any]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(
        ["" if value is None else " ".join(str(value).splitlines()) for value in row]
    )
    return text.getvalue().encode()
