"""Chapter 3: the simulator's measured sojourn laid over four theories."""

from __future__ import annotations

from functools import cache

from labcode.course.evidence.queueing_compare import THEORIES, measured, offline_rate, predicted
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction, graded
from labcode.workload import Workload, chat

RATES = (1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 20.0, 24.0, 28.0, 32.0, 36.0, 40.0)
STATISTICS = ("mean", "p99")
ROLES = dict(zip(THEORIES, ("baseline", "alt1", "alt2", "alt3"), strict=True))


@cache
def _load() -> Workload:
    return chat(n=3000, rate=16.0, seed=0)


@cache
def _offline(max_bs: int) -> float:
    return offline_rate(_load(), max_bs)


@cache
def point(rate: float, max_bs: int) -> dict[str, tuple[float, float]]:
    """Mean and p99 (s): measured under the key "simulator", and by each theory."""
    found = measured(_load().at_rate(rate), max_bs)
    return {"simulator": (found.mean, found.p99)} | predicted(_load(), rate, _offline(max_bs), max_bs)


def compute(rate: float, statistic: str, max_bs: int) -> Result:
    """Curves over the arrival rate, and each theory's answer at this one as a multiple of the measured."""
    which = STATISTICS.index(statistic)
    rows = {r: point(r, max_bs) for r in RATES}
    here = point(rate, max_bs)
    real = here["simulator"][which]
    offline = _offline(max_bs)
    curves = Panel(
        "curves",
        "Time in the system against arrival rate",
        Axis("Arrival rate", "req/s"),
        Axis("Sojourn time", "s", "log"),
        (
            Series("simulator", "line", RATES, tuple(row["simulator"][which] for row in rows.values()), role="ours"),
            *(
                Series(name, "line", RATES, tuple(row[name][which] for row in rows.values()), role=ROLES[name])
                for name in THEORIES
            ),
        ),
        marks=(
            Mark("point", (rate, real), "measured here"),
            Mark("vline", offline, f"offline throughput {offline:.0f} req/s"),
        ),
        text=f"At {rate:g} req/s the simulator has a {statistic} of {real:.2f} s.",
    )
    ratios = tuple(here[name][which] / real for name in THEORIES)
    told = ", ".join(
        f"{name} {'has no steady state' if ratio != ratio else f'says {ratio:.3f} of that'}"
        for name, ratio in zip(THEORIES, ratios, strict=True)
    )
    errors = Panel(
        "errors",
        "Theory as a multiple of the measured value",
        Axis("Theory"),
        Axis("Theory / simulator", "", "log", (0.005, 3.0)),
        (Series("ratio", "bar", THEORIES, ratios, role="ours"),),
        marks=(Mark("hline", 1.0, "exact"),),
        text=f"{told}.",
    )
    return Result(
        (curves, errors),
        f"{rate:g} req/s, {max_bs} places: measured {statistic} {real:.2f} s; {told}.",
    )


LAB = Lab(
    "ch03-theory",
    "Simulator against theory",
    (
        Control("rate", "Arrival rate", RATES, 16.0, "req/s", "{:g}".format),
        Control("statistic", "Statistic", STATISTICS, "mean"),
        Control("max_bs", "Seats (max_bs)", (32, 64, 256), 256),
    ),
    compute,
    predict=Prediction(
        "M/M/1 is given the offline throughput as its service rate. At 2 requests/s, what does it say of the mean time "
        "in the system?",
        ("less than a tenth of it", "about half of it", "about right", "twice as much"),
        right=lambda result: graded(
            result.panel("errors").curve("ratio").at("M/M/1"),
            (0.1, "less than a tenth of it"),
            (0.8, "about half of it"),
            (1.25, "about right"),
            beyond="twice as much",
        ),
        why=lambda result: (
            f"It says {result.panel('errors').curve('ratio').at('M/M/1'):.3f} of what is measured: it takes the "
            "engine for one fast server, but each request runs at the pace of a batch."
        ),
        reveal={"rate": 2.0},
    ),
    numbers=("paper",),
)
