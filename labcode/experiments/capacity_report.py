"""A capacity plan as one HTML page that needs nothing else: figures are inline SVG, each with a text alternative."""

from __future__ import annotations

import html
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from labcode.experiments.capacity_plan import CapacityPlan, Rated
from labcode.workload import Workload

STYLE = (
    ":root{color-scheme:light dark;--paper:#fff;--ink:#1a1a1a;--soft:#444;--rule:#ccc;--first:#0b5394;--second:#b45f06}"
    "@media(prefers-color-scheme:dark){:root{--paper:#16181c;--ink:#e8e6e3;--soft:#b5b3b0;--rule:#4a4d52;"
    "--first:#7db8f0;--second:#f0a35e}}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:var(--ink);"
    "background:var(--paper);overflow-wrap:anywhere}.wide{overflow-x:auto}table{border-collapse:collapse}"
    "td,th{padding:.25rem .75rem;border-bottom:1px solid var(--rule);text-align:right;white-space:nowrap}"
    "td:first-child,th:first-child{text-align:left;white-space:normal;min-width:14rem}svg{fill:var(--ink);width:100%;min-width:34rem;max-width:46rem;"
    "height:auto}figure{margin:1.5rem 0}figcaption{color:var(--soft)}.verdict{font-size:1.2rem;"
    "border-left:4px solid var(--first);padding-left:1rem}"
)
#: What the page puts in the place of the figures' colours, so that they follow light and dark.
VARIABLES = {
    "#ffffff": "var(--paper)",
    "#000000": "var(--ink)",
    "#444444": "var(--soft)",
    "#cccccc": "var(--rule)",
    "#0b5394": "var(--first)",
    "#b45f06": "var(--second)",
}
#: Colour, marker and hatch of each price: nothing hangs on colour alone.
LOOKS = (("#0b5394", "o", ""), ("#b45f06", "s", "//"))


def svg(figure: Figure, alt: str) -> str:
    """Return a figure as an SVG element with a text alternative, its colours the page's variables."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight")
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.S)
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, variable)
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
        look: dict[str, Any] = {"color": colour, "hatch": hatch, "edgecolor": "white", "ecolor": "#000000"}
        axes.barh(where, means, height, xerr=reach, label=sized.cost, **look)
    axes.set_yticks(range(len(settings)), [str(one) for one in settings], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("Requests/s of one replica within the SLO (thin lines: 95 % intervals over resampled traces)")
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


def _table(plan: CapacityPlan) -> str:
    """Return what one replica does with each setting, one row a setting, two columns a price."""
    costs = [one.cost for one in plan.sizing]
    found = {(one.setting, one.cost): one for one in plan.rated}
    head = "".join(f"<th>{cost}: within the SLO</th><th>drain rate</th>" for cost in costs)
    rows = []
    for setting in dict.fromkeys(one.setting for one in plan.rated):
        numbers: list[Rated] = [found[setting, cost] for cost in costs]
        cells = "".join(f"<td>{one.rate:.2f}</td><td>{one.drain:.2f}</td>" for one in numbers)
        name = html.escape(str(setting))
        chosen = f"<strong>{name} (chosen)</strong>" if setting == plan.setting else name
        rows.append(f"<tr><td>{chosen}</td>{cells}</tr>")
    return f"<table><thead><tr><th>Setting</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def page(plan: CapacityPlan, load: Workload) -> str:
    """Return the page."""
    figures = (attainment_figure(plan), rates_figure(plan), trace_figure(load))
    drawn = [
        f'<figure><div class="wide" tabindex="0">{svg(figure, alt)}</div>'
        f"<figcaption>{html.escape(alt)}</figcaption></figure>"
        for figure, alt in figures
    ]
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
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head>"
        f'<body><main><h1>{title}</h1><p class="verdict">{html.escape(plan.verdict())}</p>'
        f"<h2>How many replicas</h2><p>{html.escape(sizes)}. {html.escape(plan.headroom())}</p>{drawn[0]}"
        "<h2>Which setting</h2><p>The best setting of a first look at all, and those that differ from it in one thing: "
        "the rate that one "
        "replica keeps up within the SLO, and its drain rate (the most that it works off at all), in requests/s with "
        f"95 % intervals over resampled traces.</p>{drawn[1]}"
        f'<div class="wide" tabindex="0">{_table(plan)}</div>'
        f"<p>{html.escape(good)}</p>"
        f"<h2>The trace</h2>{drawn[2]}<h2>What was assumed</h2><ul>{notes}</ul></main></body></html>\n"
    )


def write_report(plan: CapacityPlan, load: Workload, path: str | Path) -> Path:
    """Write the page and return where."""
    path = Path(path)
    path.write_text(page(plan, load), encoding="utf-8")
    return path
