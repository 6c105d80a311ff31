"""A capacity plan as one HTML page that needs nothing else: figures are inline SVG, each with a text alternative."""

from __future__ import annotations

import html
import io
import re
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from labcode.experiments.capacity_plan import CapacityPlan, Rated
from labcode.workload import Workload

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;"
    "background:#fff}table{border-collapse:collapse}td,th{padding:.25rem .75rem;border-bottom:1px solid #ccc;"
    "text-align:right}td:first-child,th:first-child{text-align:left}svg{max-width:100%;height:auto}"
    "figure{margin:1.5rem 0}figcaption{color:#444}.verdict{font-size:1.2rem;border-left:4px solid #0b5394;"
    "padding-left:1rem}"
)
#: Colour, marker and hatch of each price: nothing hangs on colour alone.
LOOKS = (("#0b5394", "o", ""), ("#b45f06", "s", "//"))


def svg(figure: Figure, alt: str) -> str:
    """Return a figure as an SVG element with a text alternative."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight")
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.S)
    return text.replace("<svg ", f'<svg role="img" aria-label="{html.escape(alt, quote=True)}" ', 1)


def attainment_figure(plan: CapacityPlan) -> tuple[Figure, str]:
    """Return the share of requests within the SLO by number of replicas, and what it shows."""
    figure = Figure(figsize=(7, 3.4))
    axes = figure.subplots()
    said = []
    for (colour, marker, _), one in zip(LOOKS, plan.sizing, strict=False):
        counts, shares = zip(*one.attainment, strict=True)
        axes.plot(counts, [100 * share for share in shares], color=colour, marker=marker, label=f"{one.cost} price")
        said.append(f"{one.cost} price: " + ", ".join(f"{n} replicas {share:.1%}" for n, share in one.attainment))
    axes.axhline(100 * plan.attainment, color="#444", linestyle="--", label=f"wanted: {plan.attainment:.0%}")
    axes.set(xlabel="Replicas", ylabel="Requests within the SLO (%)", ylim=(0, 104))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend()
    return figure, f"Share of the trace's requests within the SLO by number of replicas. {'; '.join(said)}."


def rates_figure(plan: CapacityPlan) -> tuple[Figure, str]:
    """Return what one replica keeps up with each setting, and what it shows."""
    settings = list(dict.fromkeys(one.setting for one in plan.rated))
    figure = Figure(figsize=(7, 0.9 + 0.42 * len(settings)))
    axes = figure.subplots()
    height = 0.8 / len(plan.sizing)
    for k, ((colour, _, hatch), sized) in enumerate(zip(LOOKS, plan.sizing, strict=False)):
        rows = [one for one in plan.rated if one.cost == sized.cost]
        where = [settings.index(one.setting) + (k - (len(plan.sizing) - 1) / 2) * height for one in rows]
        means = [one.rate.mean for one in rows]
        reach = [
            [one.rate.mean - max(0.0, one.rate.low) for one in rows],
            [one.rate.high - one.rate.mean for one in rows],
        ]
        axes.barh(where, means, height, xerr=reach, color=colour, hatch=hatch, edgecolor="white", label=sized.cost)
    axes.set_yticks(range(len(settings)), [str(one) for one in settings], fontsize=8)
    axes.invert_yaxis()
    axes.set(xlabel="Requests/s of one replica within the SLO (bars: 95 % intervals over resampled traces)", ylim=None)
    axes.legend(title="price")
    best = max(plan.rated, key=lambda one: one.rate.mean)
    worst = min(plan.rated, key=lambda one: one.rate.mean)
    return figure, (
        f"Rate that one replica keeps up within the SLO, for {len(settings)} settings. The most: "
        f"{best.rate.mean:.3g} requests/s with {best.setting} ({best.cost} price); the least: "
        f"{worst.rate.mean:.3g} with {worst.setting} ({worst.cost} price)."
    )


def trace_figure(load: Workload) -> tuple[Figure, str]:
    """Return the trace's arrivals over time and its lengths, and what they show."""
    figure = Figure(figsize=(7, 3))
    left, right = figure.subplots(1, 2)
    length = float(load.arrival[-1] - load.arrival[0])
    counts, edges = np.histogram(load.arrival, bins=60)
    width = length / 60
    left.stairs(counts / width, edges, color=LOOKS[0][0], fill=True)
    left.set(xlabel="Time (s)", ylabel="Arrivals (requests/s)")
    shares = (np.arange(len(load)) + 1) / len(load) * 100
    for tokens, name, dash in ((load.prompt, "prompt", "-"), (load.output, "output", "--")):
        right.plot(np.sort(tokens), shares, dash, label=name, color=LOOKS[dash == "--"][0])
    right.set(xscale="log", xlabel="Tokens", ylabel="Requests of at most that (%)")
    right.legend()
    figure.tight_layout()
    return figure, (
        f"Left: arrivals over {length:.0f} s, mean {load.rate:.3g} requests/s, at most {counts.max() / width:.3g} over "
        f"{width:.1f} s. Right: distribution of prompt lengths (median {np.median(load.prompt):.0f} tokens) and output "
        f"lengths (median {np.median(load.output):.0f})."
    )


def _row(one: Rated, plan: CapacityPlan) -> str:
    name = html.escape(str(one.setting))
    chosen = " (chosen)" if one.setting == plan.setting else ""
    cells = (f"{name}{chosen}", one.cost, f"{one.rate:.2f}", f"{one.drain:.2f}")
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def page(plan: CapacityPlan, load: Workload) -> str:
    """Return the page."""
    figures = (attainment_figure(plan), rates_figure(plan), trace_figure(load))
    drawn = [
        f"<figure>{svg(figure, alt)}<figcaption>{html.escape(alt)}</figcaption></figure>" for figure, alt in figures
    ]
    rows = "".join(_row(one, plan) for one in plan.rated)
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in plan.assumptions)
    title = f"Capacity for {html.escape(plan.trace)}: {html.escape(plan.model)} on {html.escape(plan.gpu)}"
    sizes = "; ".join(
        f"{one.cost} price: {one.replicas[0]} for the trace, {one.spread()} over all" for one in plan.sizing
    )
    good = "No other setting is as good within 1 % under every price."
    if plan.as_good:
        good = f"As good within 1 % under every price: {'; '.join(str(one) for one in plan.as_good)}."
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{title}</title><style>{STYLE}</style></head>"
        f'<body><main><h1>{title}</h1><p class="verdict">{html.escape(plan.verdict())}</p>'
        f"<h2>How many replicas</h2><p>{html.escape(sizes)}.</p>{drawn[0]}"
        "<h2>Which setting</h2><p>The best setting of a first look at all, and those that differ from it in one thing: "
        "the rate that one "
        "replica keeps up within the SLO, and its drain rate (the most that it works off at all), in requests/s with "
        f"95 % intervals over resampled traces.</p>{drawn[1]}<table><thead><tr><th>Setting</th><th>Price</th>"
        f"<th>Within the SLO</th><th>Drain rate</th></tr></thead><tbody>{rows}</tbody></table>"
        f"<p>{html.escape(good)}</p>"
        f"<h2>The trace</h2>{drawn[2]}<h2>What was assumed</h2><ul>{notes}</ul></main></body></html>\n"
    )


def write_report(plan: CapacityPlan, load: Workload, path: str | Path) -> Path:
    """Write the page and return where."""
    path = Path(path)
    path.write_text(page(plan, load), encoding="utf-8")
    return path
