"""Lab of chapter 05: how wide the buckets, how long the wait, at which load."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from labcode.course.evidence.buckets import MAX_BS, occupancy, options, prompts_only
from labcode.course.evidence.buckets import ttft as waits_for
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.words import counted, percent
from labcode.results.metrics import percentile, weighted_percentiles
from labcode.results.run import Run
from labcode.simulate import simulate

COUNT, SEED = 1000, 0
WAITS = (0, 100, 400, 1000)  # ms
# The curve's points, read by the nearest rank as every percentile is.
SHARES = (0.02, *np.linspace(0.05, 0.95, 37).tolist(), 0.98, 0.99, 1.0)


@lru_cache(maxsize=256)
def serve(buckets: int, wait_ms: float, rate: float) -> Run:
    """Serve one draw of the chapter's requests."""
    return simulate(prompts_only(COUNT, rate, SEED), **options(buckets, wait_ms / 1000))


def curve_of(ttft: np.ndarray) -> tuple[float, ...]:
    """Return the TTFT (s) that each of `SHARES` of the requests keeps."""
    return tuple(weighted_percentiles(ttft, None, [100 * share for share in SHARES]))


def compute(buckets: int, wait_ms: float, rate: float) -> Result:
    """Serve the same requests with these buckets, and with one bucket that never waits."""
    run, pinned = serve(buckets, wait_ms, rate), serve(1, 0, rate)
    ttft, base = waits_for(run), waits_for(pinned)
    p50, p99, p50_base = percentile(ttft, 50), percentile(ttft, 99), percentile(base, 50)
    size, share = occupancy(run)
    size_base, share_base = occupancy(pinned)
    marks = (Mark("vline", wait_ms / 1000, f"wait {wait_ms:g} ms"),) if wait_ms else ()
    curve = Panel(
        "ttft",
        "Time to first token",
        Axis("TTFT", "s", "log"),
        Axis("Share of requests served by then", limits=(0, 1)),
        (
            Series("this setting", "line", curve_of(ttft), SHARES),
            Series(
                "pinned: one bucket, no wait",
                "line",
                curve_of(base),
                SHARES,
                role="baseline",
            ),
        ),
        marks=marks,
        text=f"Median {1000 * p50:.0f} ms, P99 {1000 * p99:.0f} ms; pinned median {1000 * p50_base:.0f} ms.",
    )
    names = ("batch size / 16", "useful tokens")
    fill = Panel(
        "fill",
        "How full, and how useful",
        Axis("Share"),
        Axis("Share", limits=(0, 1)),
        (
            Series("this setting", "bar", names, (size / MAX_BS, share)),
            Series("pinned: one bucket, no wait", "bar", names, (size_base / MAX_BS, share_base), role="baseline"),
        ),
        text=f"Batches hold {size:.1f} prompts on average; {percent(share)} of the computed tokens are useful.",
    )
    medians = tuple(percentile(waits_for(serve(buckets, w, rate)), 50) for w in WAITS)
    sweep = Panel(
        "waits",
        "Median TTFT against the longest wait",
        Axis("Longest wait", "ms"),
        Axis("Median TTFT", "s", "log"),
        (Series("this many buckets, this load", "line", WAITS, medians),),
        marks=(Mark("point", (wait_ms, p50), "this setting"), Mark("hline", p50_base, "pinned")),
        text=f"A wait of {wait_ms:g} ms gives a median of {1000 * p50:.0f} ms; no wait gives "
        f"{1000 * medians[0]:.0f} ms.",
    )
    return Result(
        (curve, fill, sweep),
        f"One draw of {COUNT:,}: {rate:g} requests/s, {counted(buckets, 'buckets')}, wait {wait_ms:g} ms: median "
        f"TTFT {1000 * p50:.0f} ms, batches of {size:.1f}, {percent(share)} of the tokens useful.",
    )


SWEPT = "this many buckets, this load"


LAB = Lab(
    "ch05-buckets",
    "Buckets: width, wait and load",
    (
        Control("rate", "Arrival rate", (0.5, 2, 8, 16, 24, 28), 8, "requests/s"),
        Control("buckets", "Buckets (equal shares of the prompts)", (1, 2, 4, 8, 16), 4),
        Control("wait_ms", "Longest wait for company", WAITS, 400, "ms"),
    ),
    compute,
    predict=Prediction(
        "Buckets save padding. At half a request per second, what do eight buckets with a longest wait of one second "
        "do to the median TTFT?",
        ("they halve it", "they leave it as it is", "they raise it many times"),
        right=lambda result: graded(
            result.panel("waits").curve(SWEPT).at(1000) / result.panel("waits").curve(SWEPT).at(0),
            (0.8, "they halve it"),
            (2, "they leave it as it is"),
            beyond="they raise it many times",
        ),
        why=lambda result: f"{result.panel('fill').text} {result.panel('waits').text}",
        reveal={"rate": 0.5, "buckets": 8, "wait_ms": 1000},
    ),
    scaled_by=("rate",),
    numbers=("paper",),
    presets={
        "nobody waits for company": {"wait_ms": 0},
        "a quiet night": {"rate": 0.5, "buckets": 8, "wait_ms": 1000},
        "rush hour": {"rate": 28, "buckets": 8, "wait_ms": 100},
    },
)
