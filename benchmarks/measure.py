"""What is measured, and how: every figure is a ratio within one run on one core, or a peak of a process of its own.

A time is processor time, the smallest of several repetitions: whatever else the machine does can only add to it.  Two
things that are compared take turns, so that both meet the same disturbances.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from labcode import SLO, goodput, simulate, workload
from labcode.cost import MeasuredCost
from labcode.scheduler.managers import memory as memory_manager
from labcode.workload import Workload

SHARED = Path(os.environ.get("LABCODE_SHARED_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


@dataclass(frozen=True)
class Figure:
    """One line of the table: a value, and the bound that it has to keep, if there is one."""

    what: str
    value: float
    unit: str
    bound: float = float("nan")
    at_least: bool = False

    @property
    def kept(self) -> bool | None:
        """Whether the bound is kept; None without one."""
        if self.bound != self.bound:
            return None
        return self.value >= self.bound if self.at_least else self.value <= self.bound


def smallest(*functions: Callable[[], object], repeat: int = 7) -> list[float]:
    """Return the smallest processor time of each function in seconds; they take turns."""
    times = [float("inf")] * len(functions)
    gc.collect()
    gc.disable()
    try:
        for _ in range(repeat):
            for i, function in enumerate(functions):
                start = time.process_time()
                function()
                times[i] = min(times[i], time.process_time() - start)
    finally:
        gc.enable()
    return times


def machine() -> str:
    """Return processor, number of cores and interpreter in a line."""
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            name = next(line.split(":")[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    system = f"{platform.system()} {platform.machine()}"
    return f"{name}, {os.cpu_count()} cores, {system}, Python {platform.python_version()}"


def uniform_trace(qps: int) -> Workload | None:
    """Return the requests that Vidur's run times are known for; None where the file is not at hand."""
    path = SHARED / f"vidur_trace_uniform_qps{qps}.csv"
    if not path.exists():
        return None
    table = pd.read_csv(path)
    columns = (table["arrival_s"], table["prompt_tokens"], table["output_tokens"])
    return workload.from_arrays(*columns, name=f"uniform {qps}/s")


def vidur_tables() -> MeasuredCost | None:
    """Return the step times that Vidur predicts for Llama-3-8B on an A100; None where the files are not at hand."""
    names = ("compute", "attn_decode", "attn_prefill")
    paths = [SHARED / f"vidur_predicted_{name}_ms_per_layer.csv" for name in names]
    return MeasuredCost.from_csv(*paths, layers=32) if all(path.exists() for path in paths) else None


#: What a hundredth of Vidur's own run on the same trace allows, in s: arrivals a second -> bound.
VIDUR_BOUNDS = {2: 0.032, 8: 0.006}


def field_runs() -> dict[str, tuple[Workload, dict, float]]:
    """Return what the field runs: workload, options, and the longest that a run may take (s)."""
    chat = workload.chat(600, 40.0, 0)
    runs = {"chat, 600 requests, pages with preemption": (chat, {"memory": "paged:16", "capacity": 20_000}, 0.003)}
    cost = vidur_tables()
    for qps, bound in VIDUR_BOUNDS.items():
        trace = uniform_trace(qps)
        if trace is not None and cost is not None:
            options = {"gpu": "a100-80", "max_bs": 128, "memory": "paged:16", "prefill": "chunked", "token_budget": 512}
            options |= {"cost": cost, "capacity": 30_208 * 16}
            runs[f"uniform trace, {qps} requests/s, Vidur's tables, pages, chunks"] = (trace, options, bound)
    return runs


def loads() -> dict[str, tuple[Workload, dict]]:
    """Return the workloads of the comparison with stepping, and the options of their runs."""
    result: dict[str, tuple[Workload, dict]] = {"chat, 600 requests": (workload.chat(600, 16.0, 0), {})}
    for qps in (2, 8):
        trace = uniform_trace(qps)
        if trace is not None:
            options = {"gpu": "a100-80", "max_bs": 128, "capacity": 30_208 * 16, "memory": "oracle"}
            result[f"uniform trace, {qps} requests/s"] = (trace, options)
    return result


def leaps(load: Workload, options: dict, repeat: int = 15) -> dict[str, float]:
    """Compare compiled leaps, leaps in plain Python and single steps; s, and what follows from them."""
    pool = options.get("capacity", 10**9)

    def plain() -> object:
        # A memory manager given as an object is served by the readable engine.
        return simulate(load, **{**options, "memory": memory_manager("oracle", pool)})

    compiled, readable, stepping = smallest(
        lambda: simulate(load, **options), plain, lambda: simulate(load, **options, step_by_step=True), repeat=repeat
    )
    steps = int(simulate(load, **options).record.segments["steps"].sum())
    return {"compiled": compiled, "readable": readable, "stepping": stepping, "steps": steps}


def search(load: Workload, slo: SLO, **options: object) -> tuple[float, int]:
    """Return what a goodput search costs, in single runs at the rate that it finds, and how many it made."""
    found = goodput(load, slo, **options)
    search_time, single = smallest(
        lambda: goodput(load, slo, **options),
        lambda: simulate(load.at_rate(found.rate), **options).attainment(slo),  # type: ignore[arg-type]
        repeat=100,
    )
    return search_time / single, found.runs


def scale(n: int, repeat: int) -> dict[str, float]:
    """Return what an experiment with `n` chat requests costs: s for each of its parts, and the most bytes it held."""
    import resource

    slo = SLO()
    simulate(workload.chat(100, 16.0, 0)).summary(slo)  # compiled, imported
    times = {key: float("inf") for key in ("draw", "simulate", "judge", "summarise")}
    for _ in range(repeat):
        marks = [time.process_time()]
        load = workload.chat(n, 16.0, 0)
        marks.append(time.process_time())
        run = simulate(load)
        marks.append(time.process_time())
        run.attainment(slo)
        marks.append(time.process_time())
        run.summary(slo)
        marks.append(time.process_time())
        for key, start, end in zip(times, marks, marks[1:], strict=False):
            times[key] = min(times[key], end - start)
        del run, load
    kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "darwin" else 1)
    return {"requests": n, **times, "peak_bytes": kib * 1024}


def scale_apart(n: int, repeat: int) -> dict[str, float]:
    """As `scale`, in a process of its own, so that the peak of memory is that of this experiment alone."""
    code = f"import json; from benchmarks.measure import scale; print(json.dumps(scale({n}, {repeat})))"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    root = Path(__file__).resolve().parents[1]
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))
