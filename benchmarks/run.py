"""Measure everything, write ``benchmarks/results`` and the table in the README; exit 1 if a bound is broken."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path

import pandas as pd
from tqdm.auto import tqdm

from benchmarks.measure import Figure, field_runs, leaps, loads, machine, scale_apart, search, smallest
from labcode import SLO, simulate, workload

HERE = Path(__file__).resolve().parent
SIZES = {1_000: 60, 3_000: 40, 10_000: 30, 30_000: 15, 100_000: 8, 300_000: 4, 1_000_000: 3}
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


def measured() -> tuple[list[Figure], pd.DataFrame]:
    """Return the figures, and the cost of an experiment by its size."""
    figures = []
    for name, (load, options) in loads().items():
        found = leaps(load, options)
        steps = found["steps"]
        figures += [
            Figure(f"{name}: step by step", found["stepping"] / steps * 1e6, "µs a step"),
            Figure(f"{name}: step by step / compiled leaps", found["stepping"] / found["compiled"], "times", 10, True),
            Figure(f"{name}: step by step / leaps in plain Python", found["stepping"] / found["readable"], "times"),
            Figure(f"{name}: one run ({steps} steps)", found["compiled"] * 1e3, "ms"),
        ]
    for name, (load, options, bound) in field_runs().items():
        (single,) = smallest(lambda load=load, options=options: simulate(load, **options), repeat=25)
        figures.append(Figure(f"{name}: one run", single * 1e3, "ms", bound * 1e3))
    static = {"engine": "static", "max_bs": 128, "memory": "unlimited"}
    (batch,) = smallest(lambda: simulate(workload.chat(600, 16.0, 0), **static).summary(SLO()), repeat=25)
    figures.append(Figure("a slider's state of a static engine: draw, simulate, summarise", batch * 1e3, "ms", 20))
    for memory in ("oracle", "max:8192"):
        runs, made = search(workload.chat(600, 16.0, 0), SLO(), memory=memory)
        figures.append(Figure(f"goodput search, 600 requests, {memory} ({made} runs)", runs, "single runs", 12))
    (state,) = smallest(lambda: simulate(workload.chat(600, 16.0, 0)).summary(SLO()), repeat=25)
    figures.append(Figure("a slider's state: draw 600 requests, simulate, summarise", state * 1e3, "ms", 60))
    table = pd.DataFrame([scale_apart(n, repeat) for n, repeat in tqdm(SIZES.items(), desc="sizes")])
    each = (table["simulate"] + table["judge"]) / table["requests"] * 1e6
    table.insert(1, "us_per_request", each)
    largest = table.iloc[-1]
    figures += [
        Figure("cost of a request, largest / smallest from 10³ to 10⁶ requests", each.max() / each.min(), "times", 1.5),
        Figure("a million chat requests, with the whole summary",
               largest[["draw", "simulate", "judge", "summarise"]].sum(), "s", 10),
        Figure("a million chat requests: peak of memory", largest["peak_bytes"] / 2**20, "MiB", 1024),
    ]  # fmt: skip
    return figures, table


def markdown(figures: list[Figure]) -> str:
    """Return the table of the README."""
    lines = ["| what | measured | bound |", "|---|---|---|"]
    for figure in figures:
        sign = "at least" if figure.at_least else "at most"
        bound = "" if figure.kept is None else f"{sign} {figure.bound:g}" + ("" if figure.kept else " **(broken)**")
        lines.append(f"| {figure.what} | {figure.value:.3g} {figure.unit} | {bound} |")
    return "\n".join(lines)


def main() -> int:
    """Measure, write, print."""
    figures, table = measured()
    today = datetime.date.today().isoformat()
    (HERE / "results").mkdir(exist_ok=True)
    table.assign(machine=machine(), date=today).to_csv(HERE / "results" / "cost_per_request.csv", index=False)
    rows = [(f.what, f.value, f.unit, f.bound, f.kept, machine(), today) for f in figures]
    columns = ["what", "value", "unit", "bound", "kept", "machine", "date"]
    pd.DataFrame(rows, columns=columns).to_csv(HERE / "results" / "engine.csv", index=False)
    text = f"Measured on {today}: {machine()}.\n\n{markdown(figures)}"
    readme = HERE / "README.md"
    before, _, rest = readme.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    readme.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")
    print(text)
    return 1 if any(figure.kept is False for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
