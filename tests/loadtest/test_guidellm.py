"""A load generator that others wrote: what GuideLLM reports of our server, our readers of logs read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labcode import SLO
from labcode.results.logs import from_guidellm

pytest.importorskip("fastapi")

RECORD = Path(__file__).parent / "fixtures" / "guidellm-0.8.1.json"


def agrees(report: dict[str, Any], benchmark: int) -> dict[str, float]:
    """Hold our columns against the tool's own numbers, request by request; return our summary."""
    log, theirs = from_guidellm(report, benchmark), report["benchmarks"][benchmark]
    for entry in theirs["requests"]["successful"]:
        row = log.requests.loc[entry["request_id"]]
        assert row["outcome"] == "finished"
        # On a busy machine two tokens may come in one piece.
        assert row["output_tokens"] == entry["output_tokens"] == 12 >= row["chunks"] > 6
        assert 1000 * row["ttft"] == pytest.approx(entry["time_to_first_token_ms"], abs=0.01)
        # What it calls inter-token latency is a mean over the request: this book's TPOT.
        assert 1000 * row["tpot"] == pytest.approx(entry["inter_token_latency_ms"], abs=0.01)
    totals, summary = theirs["metrics"]["request_totals"], log.summary(SLO(60.0, 60.0))
    assert summary["submitted"] == totals["total"] and summary["finished"] == totals["successful"]
    assert summary["failed"] + summary["refused"] == totals["errored"]
    assert summary["duration_s"] == theirs["duration"]
    own = theirs["metrics"]["time_to_first_token_ms"]["successful"]
    assert 1000 * summary["ttft_mean_s"] == pytest.approx(own["mean"], rel=1e-4)
    return dict(summary)


def test_the_recorded_reports() -> None:
    """Twelve that finish; and twelve at a server with two places in all, which refuses ten and is not called broken."""
    report = json.loads(RECORD.read_text(encoding="utf-8"))
    assert report["metadata"]["guidellm_version"] == "0.8.1"
    served = agrees(report, 0)
    assert served["finished"] == 12 and served["slo_of_submitted"] == 1 and np.isnan(served["itl_p50_s"])
    refused = agrees(report, 1)
    assert (refused["finished"], refused["refused"], refused["failed"]) == (2, 10, 0)
    assert refused["slo_of_submitted"] == pytest.approx(2 / 12) and refused["slo_of_finished"] == 1


def byte_level_tokenizer(folder: Path) -> None:
    """Write a tokenizer with a token for each byte, as Hugging Face's library reads it: nothing is downloaded."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = sorted(chr(byte) for byte in kept) + [chr(256 + i) for i in range(256 - len(kept))]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "vocab": {letter: i for i, letter in enumerate(letters)}, "merges": []}
    whole = {"version": "1.0", "added_tokens": [], "pre_tokenizer": level, "decoder": level, "model": model}
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps(whole), encoding="utf-8")
    settings = {"tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


@pytest.mark.peers
@pytest.mark.slow
def test_round_trip(tmp_path: Path) -> None:
    """GuideLLM asks our server, and its report is read; GUIDELLM names the program if it is not on the path."""
    from labcode.course.evidence.real_server import server

    program = os.environ.get("GUIDELLM") or shutil.which("guidellm")
    if program is None:
        pytest.skip("guidellm is not installed (pip install guidellm, in an environment of its own)")
    byte_level_tokenizer(tmp_path / "tokenizer")
    with server() as running:
        options = {
            "backend": f"kind=openai_http,target={running.url},request_format=/v1/completions,http2=false",
            "profile": "kind=poisson,rate=4",
            "constraint": "kind=max_requests,count=12",
            "tokenizer": f"kind=huggingface_auto,model={tmp_path / 'tokenizer'}",
            "data": "kind=synthetic_text,prompt_tokens=32,output_tokens=12",
            "output": f"kind=json,path={tmp_path / 'report.json'}",
        }
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        offline = dict.fromkeys(("HF_HUB_OFFLINE", "GUIDELLM__MAX_WORKER_PROCESSES"), "1")
        said = subprocess.run(
            [program, "run", *words, "--disable-console"],
            env=os.environ | offline,
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert said.returncode == 0, said.stderr[-2000:]
    summary = agrees(json.loads((tmp_path / "report.json").read_text(encoding="utf-8")), 0)
    assert summary["finished"] == 12 and summary["output_tokens_per_s"] > 0
