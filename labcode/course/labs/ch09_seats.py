"""Lab of chapter 09: how many places, at which load."""

from __future__ import annotations

from functools import cache

from labcode import simulate, workload
from labcode.course.labs.shared_panels import WAITING, said, what_binds
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.labkit.words import percent
from labcode.results.metrics import SLO, Summary
from labcode.results.run import Run

GOAL = SLO(ttft=1.0, tpot=0.050)
PLACES = (8, 16, 32, 64, 96, 128, 192, 256, 384, 512)


@cache
def serve(rate: float, max_bs: int) -> Run:
    """Serve 600 chat requests at a rate with oracle reservation."""
    return simulate(workload.chat(n=600, rate=1.0, seed=1).at_rate(rate), max_bs=max_bs, memory="oracle")


@cache
def figures(rate: float, max_bs: int) -> Summary:
    """Return the summary of a run."""
    return serve(rate, max_bs).summary(GOAL)


def compute(rate: float, max_bs: int) -> Result:
    """Compare this number of places with all others at the same rate."""
    here, used = figures(rate, max_bs), figures(rate, PLACES[-1])["most_running"]

    def panel(
        key: str, title: str, axis: Axis, name: str, factor: float = 1.0, limit: Mark | None = None, text: str = ""
    ) -> Panel:
        line = tuple(factor * figures(rate, places)[key] for places in PLACES)
        pinned = tuple(factor * figures(16, places)[key] for places in PLACES)
        marks = (Mark("point", (max_bs, factor * here[key]), "now"), Mark("vline", used, "most that ever run"))
        return Panel(
            key,
            title,
            Axis("Places (max_bs)", "", "log"),
            axis,
            (
                Series(name, "line", PLACES, line),
                Series("pinned: 16 requests/s", "line", PLACES, pinned, role="baseline"),
            ),
            marks=marks if limit is None else (*marks, limit),
            text=text,
        )

    tokens = panel(
        "output_tokens_per_s",
        "Throughput",
        Axis("Output tokens", "tokens/s"),
        "this rate",
        text=f"{here['output_tokens_per_s']:,.0f} output tokens/s. One draw, 600 requests.",
    )
    tpot = panel(
        "tpot_p50_s",
        "What a token costs",
        Axis("Median TPOT", "ms"),
        "this rate",
        1e3,
        Mark("hline", 50, "SLO 50 ms"),
        f"Median TPOT {1e3 * here['tpot_p50_s']:.1f} ms.",
    )
    ttft = panel(
        "ttft_p50_s",
        "What a place is worth",
        Axis("Median TTFT", "s", "log"),
        "this rate",
        1.0,
        Mark("hline", 1.0, "SLO 1 s"),
        f"Median TTFT {said(here['ttft_p50_s'])}.",
    )
    return Result(
        (ttft, tpot, tokens),
        f"{max_bs} places at {rate:g} requests/s: {WAITING[what_binds(serve(rate, max_bs), max_bs)]}; median "
        f"TTFT {said(here['ttft_p50_s'])}, TPOT {1e3 * here['tpot_p50_s']:.1f} ms, "
        f"{percent(here['slo_of_submitted'])} within the SLO.",
    )


def _growth(result: Result) -> float:
    """Return the median TPOT with 512 places as a multiple of that with 256."""
    curve = result.panel("tpot_p50_s").curve("this rate")
    return curve.at(512) / curve.at(256)


LAB = Lab(
    "ch09-seats",
    "How many places?",
    (
        Control("rate", "Arrival rate", (4, 8, 16, 24, 32, 40, 48, 64), 48, "requests/s"),
        Control("max_bs", "Places (max_bs)", PLACES, 64),
    ),
    compute,
    predict=Prediction(
        "At 48 requests/s, what does doubling the places from 256 to 512 do to the median TPOT?",
        ("it doubles", "it rises by half", "it rises a little", "nothing at all"),
        right=lambda result: graded(
            _growth(result),
            (1.005, "nothing at all"),
            (1.2, "it rises a little"),
            (1.75, "it rises by half"),
            beyond="it doubles",
        ),
        why=lambda result: (
            f"{result.panel('tpot_p50_s').text} Nobody sits in the places beyond "
            f"{result.panel('tpot_p50_s').marks[1].at:.0f}."
        ),
        reveal={"max_bs": 512},
    ),
    numbers=("paper",),
)
