"""The playground's engine is the book's own: the same draws, the same records, the same words for what is wrong."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from labcode import simulate, workload
from labcode.course.playground import bundle, driver, tables
from labcode.course.playground.draws import Generator, seed_state
from labcode.results.run import Run

TABLES = (tables.exponential(), tables.normal())
OWN = "0 100 50 ann  # the first\n0, 200, 500, ben\n\n0.1 50 3 ann\n0.1 9000 5 ben\n1 7 1 ann"
BASE: dict[str, Any] = {
    "workload": "chat", "n": 60, "rate": 16.0, "seed": 0, "arrivals": "poisson", "prompt": 512, "output": 128,
    "requests": "", "model": "llama3-8b", "gpu": "h100", "max_bs": 256, "memory": "max", "memory_tokens": 8192,
    "watermark": 0.0, "order": "fcfs", "sigma": 0.0, "quantum": 512.0, "code": "", "prefill": "mixed",
    "token_budget": None, "ttft": 1.0, "tpot": 0.05,
}  # fmt: skip
PAGED = {"memory": "paged", "memory_tokens": 16}
LONGEST_FIRST = "def order(request):\n    return -request.prompt\n"
SETTINGS: list[dict[str, Any]] = [
    {},
    {"workload": "long_context", "n": 200, "rate": 40, "gpu": "l4", "watermark": 0.01, **PAGED},
    {"workload": "orca_paper", "memory": "declared", "max_bs": 8},
    {"workload": "azure_conv", "memory": "oracle", "seed": 5, "order": "sjf"},
    {"workload": "azure_code", "memory": "pow2", "prefill": "chunked", "max_bs": 64, "seed": 2**40},
    {"workload": "fixed", "arrivals": "deterministic", "memory": "unlimited", "prefill": "prefill_first"},
    {"order": "sjf", "sigma": 0.7, "max_bs": 4},
    {"order": "own", "code": LONGEST_FIRST, "max_bs": 4},
    {"workload": "own", "requests": OWN, "max_bs": 1, "order": "drr"},
    {"workload": "own", "requests": OWN, "max_bs": 2, "order": "vtc", **PAGED},
    {"token_budget": 300, "max_bs": 100},
    {"memory": "declared", "n": 40, "rate": 200, "gpu": "a100-40"},
]


def call(s: dict[str, Any]) -> Run:
    """What a reader would run."""
    if s["workload"] == "own":
        rows = [line.split("#")[0].replace(",", " ").split() for line in s["requests"].splitlines()]
        columns = list(zip(*(row for row in rows if row)))
        load = workload.from_arrays(*(np.array(c, float) for c in columns[:3]), tenant=columns[3])
    else:
        equal = {"prompt": s["prompt"], "output": s["output"]} if s["workload"] == "fixed" else {}
        make = getattr(workload, s["workload"])
        load = make(n=s["n"], rate=s["rate"], seed=s["seed"], arrivals=s["arrivals"], **equal)
    full = {"sjf": f"sjf:{s['sigma']}" if s["sigma"] else "sjf", "drr": f"drr:{s['quantum']}"}
    order: Any = full.get(s["order"], s["order"])
    if order == "own":
        space: dict[str, Any] = {}
        exec(s["code"], space)
        order = space["order"]
    named = f"{s['memory']}:{s['memory_tokens']}" if s["memory"] in ("max", "paged") else s["memory"]
    return simulate(
        load, model=s["model"], gpu=s["gpu"], max_bs=s["max_bs"], memory=named, watermark=s["watermark"], order=order,
        prefill=s["prefill"], token_budget=s["token_budget"],
    )  # fmt: skip


def same(found: dict[str, Any], run: Run) -> None:
    """Assert that a record is that of a run, to the last bit."""
    record = run.record
    assert found["capacity"] == record.capacity
    for name in ("admitted", "first_token", "last_token", "finished", "outcome", "preemptions", "recomputed"):
        ours = np.array(found[name], dtype=float)
        np.testing.assert_array_equal(ours, np.asarray(getattr(record, name), dtype=float), err_msg=name)
    for name, column in record.segments.items():
        assert found["segments"][name] == column.tolist(), name
    spans = ("span_request", "span_time", "span_first", "span_count")
    theirs = sorted(zip(*(getattr(record, name).tolist() for name in spans)))
    assert sorted(zip(*(found[name] for name in spans))) == theirs
    assert set(found["reasons"]) == set(record.reasons)


@pytest.mark.parametrize("seed", [0, 7, 2**40 + 3])
@pytest.mark.parametrize("key", [(), (0,), (1,)])
def test_the_generator_is_numpys(seed: int, key: tuple[int, ...]) -> None:
    sequence = np.random.SeedSequence(seed, spawn_key=key)
    assert seed_state(seed, key) == sequence.generate_state(4, np.uint64).tolist()
    theirs, ours = np.random.default_rng(sequence), Generator(seed, key, *TABLES)
    assert theirs.standard_exponential(8000).tolist() == [ours.exponential() for _ in range(8000)]
    assert theirs.standard_normal(8000).tolist() == [ours.normal() for _ in range(8000)]
    assert theirs.integers(32, 512, 99, endpoint=True).tolist() == [ours.integers(32, 512) for _ in range(99)]
    assert theirs.random(99).tolist() == [ours.uniform() for _ in range(99)]


@pytest.mark.parametrize("changed", SETTINGS, ids=str)
def test_the_driver_is_simulate(changed: dict[str, Any]) -> None:
    settings = BASE | changed
    found = driver.run(settings, TABLES)
    same(found, call(settings))
    for number, stays in found["stays"].items():
        assert stays[0][0] == found["admitted"][number] and stays[-1][1] == found["finished"][number]
        assert len(stays) == 1 + found["preemptions"][number]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"rate": -1}, "rate = -1: must be above 0"),
        ({"n": 401}, "n = 401: must be at least 1 and at most 400"),
        ({"workload": "mail"}, "workload = 'mail': known are chat"),
        ({"workload": "own", "requests": "0 5"}, "requests, line 1: '0 5': three numbers are needed"),
        ({"workload": "own", "requests": "0 5 5\n0 x 5"}, "requests, line 2: '0 x 5': arrival, prompt and output"),
        ({"workload": "own", "requests": "1 5 5\n0 5 5"}, "requests, line 2: arrival = 0: at least 0, and not before"),
        ({"workload": "own", "requests": "0 5.5 5"}, "requests, line 1: prompt = 5.5: a whole number"),
        ({"workload": "own", "requests": "0 5 5 a\n0 5 5"}, "a tenant is named in some lines"),
        ({"workload": "own", "requests": ""}, "requests: 0 lines"),
        ({"workload": "fixed", "memory": "declared"}, "memory = 'declared': the senders of this"),
        ({"order": "drr"}, "order = 'drr': needs tenants"),
        ({"order": "own", "code": "x = 1"}, "order: the code must define a function"),
        ({"order": "own", "code": "def order(request):\n    return 'a'"}, r"order\(request 0\) = 'a': a number"),
        ({"prefill": "chunked", "token_budget": 5}, "token_budget .* = 5: must be at least 256"),
        ({"prefill": "chunked", "max_bs": 600}, "token_budget .* = 512: must be at least 600"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        driver.run(BASE | changed, TABLES)


def test_the_sources_in_the_page_are_the_books() -> None:
    there = bundle.modules()
    for name in bundle.SOURCES:
        module = importlib.import_module(f"labcode.{name}")
        with open(str(module.__file__), encoding="utf-8") as file:
            assert there[f"labcode.{name}"][1] == file.read()
    assert {"scheduler.scheduler", "scheduler.waiting", "scheduler.kv_cache", "simulation.loop"} <= set(bundle.SOURCES)
