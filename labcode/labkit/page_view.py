"""The page view of a lab: its default setting, still, in a place that the page's script brings to life.

What stands here is laid out as the live lab will be (question, controls, headline, a figure for each panel), so that
nothing on the page moves when the script takes over. Without a script, on paper, or before the lab comes into view,
the reader sees the question, the setting in words, the pictures and their sentences. Where scripts run, the style
sheet covers headline and pictures until the question is answered.
"""

from __future__ import annotations

from html import escape

from labcode.labkit.build import lab_digest
from labcode.labkit.flow import Flow
from labcode.labkit.flow_picture import legend, pictures
from labcode.labkit.lab import NUMBERS, Control, Lab
from labcode.labkit.panel import Panel, Series
from labcode.labkit.render_matplotlib import PLAIN_SIZE, draw
from labcode.labkit.svg import inline
from labcode.labkit.swatch import swatch
from labcode.labkit.theme import SHAPES_UP_TO

#: Room for the buttons that the script will put there.
ROOM = "".join(
    f'<span class="lab-button" aria-hidden="true">{words}</span>'
    for words in ("Reset", "Pin this", "Copy link", "Copy Python")
)


def badges(lab: Lab) -> str:
    """Return a badge for each kind of number that the lab shows."""
    return "".join(f' <span class="num-{kind}">{NUMBERS[kind]}</span>' for kind in lab.numbers)


def _question(lab: Lab) -> str:
    if lab.predict is None:
        return ""
    options = "".join(f'<li><span class="lab-option">{escape(option)}</span></li>' for option in lab.predict.options)
    return (
        f'<div class="lab-ask"><p class="lab-question"><b class="lab-first">Predict first.</b> '
        f'{escape(lab.predict.question)}</p><ul class="lab-options">{options}</ul></div>'
    )


def _chips(lab: Lab) -> str:
    """Return room for the settings worth a look; without a script they could do nothing."""
    chips = "".join(f'<span class="lab-chip">{escape(words)}</span>' for words in lab.presets)
    return f'<div class="lab-presets">{chips}</div>' if chips else ""


def _goal(lab: Lab) -> str:
    if lab.challenge is None:
        return ""
    return f'<p class="lab-challenge"><b>Challenge. </b>{escape(lab.challenge.goal)}<b> Not yet.</b></p>'


def _control(control: Control) -> str:
    """Return a control that stands still: its label, its value, and the room that a slider or a list will take."""
    label, value = escape(control.label), escape(control.text(control.default))
    if control.choice:
        return (
            f'<div class="lab-control"><span class="lab-label">{label}</span>'
            f'<span class="lab-chosen">{value}</span></div>'
        )
    ends = (escape(control.text(end)) for end in (control.values[0], control.values[-1]))
    return (
        f'<div class="lab-control"><div class="lab-name"><span class="lab-label">{label}</span><output>{value}</output>'
        f'</div><div class="lab-track"></div><div class="lab-ends">{"".join(f"<span>{end}</span>" for end in ends)}'
        "</div></div>"
    )


def _entry(s: Series) -> str:
    none = s.empty and s.kind != "cells"
    shapes = s.kind == "line" and 0 < len(s.x) <= SHAPES_UP_TO
    row = f"{swatch(s, shapes)}{escape(s.name)}"
    return f'<li class="lab-none">{row} (no data)</li>' if none else f"<li>{row}</li>"


def _moving(flow: Flow) -> str:
    """Return a flow as it stands still, with room for the player."""
    return (
        f'<figure class="lab-panel lab-flow"><figcaption class="lab-panel-title">{escape(flow.title)}</figcaption>'
        f'<ul class="lab-legend">{legend()}</ul><div class="lab-lanes">{"".join(pictures(flow, flow.still))}</div>'
        f'<div class="lab-player"><output class="lab-time">{1000 * flow.still:.0f} ms</output></div>'
        f'<p class="lab-text">{escape(flow.in_words(flow.still))}</p></figure>'
    )


def _figure(panel: Panel, salt: str) -> str:
    alt = f"{panel.title}. {panel.y.label} against {panel.x.label}. {panel.text}"
    picture = inline(draw([panel], PLAIN_SIZE, plain=True), alt, f"{salt}-{panel.key}")
    return (
        f'<figure class="lab-panel"><figcaption class="lab-panel-title">{escape(panel.title)}</figcaption>'
        f'<ul class="lab-legend">{"".join(map(_entry, panel.series))}</ul>'
        f'<div class="lab-frame"><div class="lab-chart">{picture}</div></div>'
        f'<p class="lab-text">{escape(panel.text)}</p><div class="lab-numbers"></div></figure>'
    )


class Still:
    """HTML of a lab's default setting, as IPython shows it.

    Parameters
    ----------
    lab : Lab
    """

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.result = lab.run()
        self.alt = lab.alt_text(self.result, lab.default)

    def _repr_html_(self) -> str:
        lab, panels = self.lab, self.result.panels
        figures = "".join(_figure(panel, lab.id) for panel in panels)
        if self.result.flow is not None:
            figures = _moving(self.result.flow) + figures
        columns = min(len(panels), 2) or 1
        covered = ' data-covered=""' if lab.predict is not None else ""
        # The version keeps a browser from pairing a new page with an old data file.
        return (
            f'<div class="lab" id="{lab.id}" data-lab="{lab.id}" data-version="{lab_digest(lab)}"{covered} '
            f'role="group" aria-label="Lab: {escape(lab.title)}"><div class="lab-head"><p class="lab-title">'
            f'<span class="lab-tag">Lab</span> {escape(lab.title)}{badges(lab)}</p></div>'
            f'<div class="lab-body lab-still">{_question(lab)}<div class="lab-side">'
            f'<div class="lab-controls lab-controls-{len(lab.controls)}">{"".join(map(_control, lab.controls))}</div>'
            f'{_chips(lab)}<div class="lab-actions">{ROOM}</div>{_goal(lab)}</div><div class="lab-stage">'
            f'<p class="lab-setting">{escape(lab.in_words(lab.default))}</p>'
            f'<p class="lab-headline">{escape(self.result.headline)}</p>'
            f'<div class="lab-panels lab-panels-{columns}" role="group" aria-label="{escape(self.alt)}">'
            f"{figures}</div></div></div></div>"
        )

    def __repr__(self) -> str:
        return f"Lab: {self.lab.title}. {self.result.headline}"
