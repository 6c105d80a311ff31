"""Who does the work: this process, a pool of processes, or any executor like ``concurrent.futures``' own."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
from collections.abc import Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from typing import Any, Protocol

from labcode.experiments.tasks import Item, Outcome, Task, perform

BUILT_IN = ("serial", "processes")


class Submits(Protocol):
    """All that is asked of an executor: ``submit(function, *args)`` that returns a future with a callback."""

    def submit(self, function: Any, /, *args: Any) -> Any:
        """Start ``function(*args)`` somewhere and return its future."""


def check_executor(executor: str | Submits | None, task: Task) -> None:
    """Raise a `ValueError` if `executor` is none, or if the task cannot travel to another process.

    Only a pool of processes is asked about pickling: Dask and others bring picklers of their own that also
    take functions defined in a notebook.
    """
    if isinstance(executor, str) or executor is None:
        if executor not in (None, *BUILT_IN):
            raise ValueError(
                f"executor = {executor!r}: known are {', '.join(BUILT_IN)}, or an object with submit, "
                "such as concurrent.futures.ProcessPoolExecutor() or a Dask Client's get_executor()"
            )
    elif not callable(getattr(executor, "submit", None)) or isinstance(executor, type):
        raise ValueError(
            f"executor = {executor!r}: an object with the method submit is needed, such as "
            "concurrent.futures.ProcessPoolExecutor() or a Dask Client's get_executor()"
        )
    if executor == "processes" or isinstance(executor, ProcessPoolExecutor):
        try:
            pickle.dumps(task)
        except Exception as error:
            raise ValueError(
                f"executor = {executor!r}: the sweep cannot be sent to another process ({error}); "
                "use functions defined at the top level of a module, or executor='serial'"
            ) from None


def outcomes(executor: str | Submits | None, task: Task, items: list[Item]) -> Iterator[tuple[Item, Outcome]]:
    """Yield every item with its outcome, in the order in which they are done."""
    if executor in (None, "serial"):
        for item in items:
            yield item, perform(task, item)
    elif executor == "processes":
        yield from _in_processes(task, items)
    else:
        yield from _submitted(executor, task, items)  # type: ignore[arg-type]


def _submitted(executor: Submits, task: Task, items: Iterable[Item]) -> Iterator[tuple[Item, Outcome]]:
    done: queue.SimpleQueue[tuple[Item, Future]] = queue.SimpleQueue()
    waiting: dict[int, Future] = {}
    try:
        for item in items:
            try:
                future = executor.submit(perform, task, item)
            except BrokenExecutor as error:  # the pool broke while we were still handing out work
                yield item, Outcome({}, f"{type(error).__name__}: {error}")
                continue
            waiting[item.position] = future
            future.add_done_callback(lambda finished, item=item: done.put((item, finished)))
        while waiting:
            item, future = done.get()
            del waiting[item.position]
            try:
                yield item, future.result()
            except Exception as error:
                yield item, Outcome({}, f"{type(error).__name__}: {error}")
    finally:
        # Reached with work left only if the reader interrupted us: nobody waits for these any more.
        for future in waiting.values():
            future.cancel()


def new_pool(workers: int | None = None) -> Executor:
    """Return a pool of processes that start from a clean interpreter.

    A forked child would inherit the locks of the parent's threads, and a notebook kernel has several.
    """
    known = multiprocessing.get_all_start_methods()
    method = "forkserver" if "forkserver" in known else "spawn"
    return ProcessPoolExecutor(workers or os.cpu_count(), multiprocessing.get_context(method))


def _in_processes(task: Task, items: list[Item]) -> Iterator[tuple[Item, Outcome]]:
    """As `_submitted`, in a pool of our own; an item whose process dies takes only itself down."""
    orphans = []
    with new_pool() as pool:
        for item, outcome in _submitted(pool, task, items):
            if outcome.error.startswith("BrokenProcessPool"):
                orphans.append(item)
            else:
                yield item, outcome
    # One process died and the pool dropped whatever was under way.  One by one we learn which item it was.
    for item in orphans:
        with new_pool(1) as pool:
            yield from _submitted(pool, task, [item])
