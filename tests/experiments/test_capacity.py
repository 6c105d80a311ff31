"""Capacity plans: on small files of every form, against brute force, and on the Azure slices where they are at hand."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from labcode import SLO, workload
from labcode.__main__ import main
from labcode.cluster import simulate_cluster
from labcode.experiments import capacity
from labcode.experiments.capacity import plan_capacity, replicas_needed, resampled
from labcode.experiments.capacity_report import page

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"


def write(path: Path, form: str, n: int = 120, rate: float = 20.0) -> Path:
    """Write a small trace in one of the published forms."""
    load = workload.orca_paper(n=n, rate=rate, seed=3)
    rows = list(zip(load.arrival, load.prompt, load.output, strict=True))
    if form == "azure":
        lines = ["TIMESTAMP,ContextTokens,GeneratedTokens", *(f"{t:.6f},{p},{o}" for t, p, o in rows)]
    elif form == "burstgpt":
        head = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"
        lines = [head, *(f"{t:.6f},ChatGPT,{p},{o},{p + o},API log" for t, p, o in rows)]
    elif form == "mooncake":
        keys = ("timestamp", "input_length", "output_length")
        lines = [
            json.dumps(dict(zip(keys, (int(1000 * t), int(p), int(o)), strict=True)) | {"hash_ids": []})
            for t, p, o in rows
        ]
    else:
        head = "arrival_s,prompt_tokens,output_tokens,max_tokens"
        lines = [head, *(f"{t:.6f},{p},{o},{o}" for t, p, o in rows)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("form", ["azure", "burstgpt", "mooncake", "plain"])
@pytest.mark.slow
def test_a_file_of_every_form(form, tmp_path, capsys):
    trace = write(tmp_path / "trace.csv", form)
    arguments = ["capacity", "--trace", str(trace), "--gpu", "l4", "--model", "qwen3-8b", "--samples", "2", "--json"]
    assert main([*arguments, "--slo-ttft", "2", "--slo-tpot", "0.2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["gpus"] == found["replicas"] * found["gpus_per_replica"] >= 1
    assert found["requests"] == 120
    assert all(1 <= factor <= 4 for factor in found["headroom"].values())
    assert {one["cost"] for one in found["rated"]} == {"paper", "smooth"}
    for one in found["rated"]:
        assert 0 <= one["rate_per_s"]["mean"] <= one["drain_per_s"]["mean"] * (1 + 1e-9)
    memories = {one["setting"]["memory"] for one in found["rated"]}
    assert ("declared" in memories) == (form == "plain")


def test_the_smallest_number_that_is_enough():
    load = workload.chat(n=400, rate=60.0, seed=0)
    slo, options = SLO(0.5, 0.03), {"max_bs": 32, "memory": "oracle"}
    count, seen = replicas_needed(load, slo, 0.9, **options)
    brute = next(k for k in range(1, 40) if simulate_cluster(load, k, "round_robin", **options).attainment(slo) >= 0.9)
    assert count == brute > 1
    assert seen[count] >= 0.9


def test_a_resampled_trace_keeps_lengths_and_gaps_together():
    load = workload.from_arrays(np.arange(1, 101) ** 2 / 10.0, np.arange(1, 101), np.arange(201, 301))
    again = resampled(load, np.random.default_rng(1), blocks=5)
    assert len(again) == 100
    np.testing.assert_array_equal(again.output, again.prompt + 200)
    gaps, own = np.diff(again.arrival), np.diff(load.arrival)
    later = again.prompt[1:]
    np.testing.assert_allclose(gaps[later > 1], own[later[later > 1] - 2])
    assert (np.diff(again.prompt) == 1).mean() > 0.9
    assert not np.array_equal(again.prompt, load.prompt)


@pytest.mark.slow
def test_twice_the_rate_needs_more_and_a_large_model_needs_groups():
    load = workload.chat(n=400, rate=40.0, seed=5)
    plans = [plan_capacity(load.at_rate(rate), gpu="l40s", samples=2) for rate in (40.0, 80.0)]
    assert plans[1].gpus > plans[0].gpus
    large = plan_capacity(load.at_rate(4.0), "llama3-70b", "h100", SLO(4.0, 0.2), samples=2)
    assert large.per_replica >= 2
    assert any("work as one device" in note for note in large.assumptions)


def test_a_short_trace_is_made_longer_before_replicas_are_counted(monkeypatch):
    """A few hundred requests are over before a queue has grown, whatever the number of replicas."""
    counted = []

    def needed(load, slo, attainment, floor, **options):
        counted.append((len(load), load.rate))
        return 1, {1: 1.0}

    monkeypatch.setattr(capacity, "replicas_needed", needed)
    plan_capacity(workload.orca_paper(n=120, rate=5.0, seed=1), samples=2, costs=("paper",))
    assert [length for length, _ in counted] == [120, 3000, 3000]
    assert all(rate == pytest.approx(5.0, rel=0.3) for _, rate in counted)


def test_headroom_is_the_rate_at_which_the_slo_is_missed():
    load, slo = workload.chat(n=600, rate=40.0, seed=0), SLO(0.5, 0.05)
    options = {"max_bs": 32, "memory": "oracle"}
    factor = capacity._headroom([load], 4, slo, 0.9, **options)
    shares = [
        simulate_cluster(load.at_rate(40.0 * f), 4, "round_robin", **options).attainment(slo)
        for f in (factor, 1.06 * factor)
    ]
    assert 1 < factor < 4 and shares[0] >= 0.9 > shares[1]


@pytest.mark.slow
def test_what_no_fleet_can_do_is_said(tmp_path, capsys):
    trace = write(tmp_path / "trace.csv", "azure")
    arguments = ["capacity", "--trace", str(trace), "--gpu", "l4", "--samples", "2", "--slo-tpot", "0.001"]
    assert main(arguments) == 1
    assert "No number of l4" in capsys.readouterr().out


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.labels, self.links = [], []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "svg":
            self.labels.append(given.get("aria-label", ""))
        self.links += [given[name] for name in ("src", "href", "xlink:href") if name in given]


@pytest.mark.slow
def test_the_page_stands_alone(tmp_path):
    load = workload.from_file(write(tmp_path / "t<r>ace.csv", "plain"))
    plan = plan_capacity(load, gpu="l4", slo=SLO(2.0, 0.2), samples=2)
    text = page(plan, load)
    reader = Reader()
    reader.feed(text)
    assert len(reader.labels) == 3
    assert all(len(label) > 60 for label in reader.labels)
    assert all(link.startswith("#") for link in reader.links), "nothing is loaded from elsewhere"
    assert "<script" not in text and "@import" not in text and "t<r>ace" not in text
    assert not re.search(r"(fill|stroke): #", text), "every colour of a figure follows light and dark"
    assert 'name="viewport"' in text
    ids = re.findall(r'id="([^"]+)"', text)
    assert plan.setting.memory in text and ids
    for note in plan.assumptions:
        assert note.split(":")[0].split("<")[0][:30] in text.replace("&#x27;", "'")


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--n", "50"], "at least 100"),
        (["--attainment", "1.5"], "attainment"),
        (["--samples", "1"], "samples"),
        (["--report", "no-such-folder/report.html"], "the folder is not there"),
        (["--gpu", "abacus"], "abacus"),
        (["--model", "nowhere.json"], "nowhere.json"),
    ],
)
def test_bad_input_is_refused(extra, message, tmp_path, capsys):
    trace = write(tmp_path / "trace.csv", "azure")
    assert main(["capacity", "--trace", str(trace), *extra]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(("name", "least", "most"), [("code", 2, 4), ("conv", 1, 1)])
def test_the_azure_slices(name, least, most):
    """At 3.1 requests/s in bursts the code trace needs several H100; at 4.9 the conversations need one."""
    path = DATA / f"AzureLLMInferenceTrace_{name}_first5000.csv"
    if not path.exists():
        pytest.skip(f"{path.name} is not here")
    plan = plan_capacity(workload.from_file(path), samples=2)
    assert least <= plan.gpus <= most
    best = max(one.rate.mean for one in plan.rated if one.cost == "smooth")
    chosen = next(one for one in plan.rated if one.cost == "smooth" and one.setting == plan.setting)
    assert chosen.rate.mean > 0.9 * best
