"""The kernel view of a lab: ipywidgets around one picture, redrawn in place.

Sliders report every step of a drag. The browser's side of a widget sends its next value only when the kernel is idle
again, and only the newest, so a handler that redraws at once never falls behind the reader's hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from html import escape
from typing import Any

import ipywidgets as widgets

from labcode import checks
from labcode.labkit.flow import Flow
from labcode.labkit.flow_picture import pictures
from labcode.labkit.lab import NUMBERS, Control, Lab, Result
from labcode.labkit.prediction import Prediction
from labcode.labkit.render_matplotlib import Picture
from labcode.labkit.theme import colours

FRAMES = 200  # From the start of a flow to its end, at ten a second.
INKS = colours("light")
_STYLE = {"description_width": "initial"}


class Live:
    """Controls, headline, picture and sentences of a lab in a notebook.

    Parameters
    ----------
    lab : Lab
    setting : mapping, optional
        Control name -> value, to open with; headline and picture are then not covered.

    Attributes
    ----------
    view : ipywidgets.VBox
        What to display.
    controls : dict of str to widget
        By control name; setting a widget's `value` redraws.
    picture : ipywidgets.Image
        PNG of the panels.
    answer : str or None
        What the reader predicted ("" for "just show me"); None while the question is open. Kept as long as the kernel.
    """

    def __init__(self, lab: Lab, setting: Mapping[str, Any] | None = None) -> None:
        self.lab = lab
        self.controls = {control.name: _widget(control) for control in lab.controls}
        self.headline = widgets.HTML()
        self.message = widgets.HTML()
        self.sentences = widgets.HTML()
        self.picture = widgets.Image(format="png", layout=widgets.Layout(width="100%", max_width="920px"))
        self.answer: str | None = None
        self.flow: Flow | None = None
        self.lanes = widgets.HTML()
        self.play = widgets.Play(min=0, max=FRAMES, interval=100, description="Play")
        self.clock = widgets.IntSlider(min=0, max=FRAMES, description="Time", readout=False)
        widgets.jslink((self.play, "value"), (self.clock, "value"))
        self.clock.observe(lambda _change: self._draw_flow(), names="value")
        self.player = widgets.VBox([self.lanes, widgets.HBox([self.play, self.clock])])
        self.player.layout.display = "none"
        self._drawn: Picture | None = None
        self._scale: list[Any] = []
        self._quiet = False
        reset = widgets.Button(description="Reset", tooltip="Back to the default setting", icon="undo")
        reset.on_click(lambda _button: self.reset())
        for widget in self.controls.values():
            widget.observe(self._changed, names="value")
        kinds = ", ".join(NUMBERS[kind] for kind in lab.numbers)
        title = widgets.HTML(f"<b style='font-size:1.15em'>{escape(lab.title)}</b>{kinds and f' ({kinds})'}")
        bar = widgets.Box(
            [*self.controls.values(), reset], layout=widgets.Layout(flex_flow="row wrap", align_items="center")
        )
        self.question = widgets.VBox()
        self.stage = widgets.VBox([self.headline, self.message, self.player, self.picture, self.sentences])
        self.goal = widgets.HTML()
        chips = [_chip(words, partial(self.open, lab.whole(preset))) for words, preset in lab.presets.items()]
        more = widgets.Box(chips, layout=widgets.Layout(flex_flow="row wrap"))
        self.presets = chips
        self.view = widgets.VBox([title, self.question, bar, *([more] if chips else []), self.goal, self.stage])
        if lab.predict is not None:
            self.question.children = self._ask(lab.predict)
            self.stage.layout.display = "none"
        if setting:
            self.open(lab.whole(setting))
        else:
            self.redraw()

    @property
    def covered(self) -> bool:
        """Whether headline and picture wait for an answer."""
        return bool(self.stage.layout.display == "none")

    def commit(self, answer: str) -> None:
        """Take the reader's answer ("" for none), go to the deciding setting, and say what happened.

        Raises
        ------
        ValueError
            If `answer` is none of the options, or the lab asks nothing.
        """
        if self.lab.predict is None:
            raise ValueError(f"answer = {answer!r}: lab {self.lab.id!r} asks nothing")
        checks.one_of("answer", answer, ["", *self.lab.predict.options])
        self.answer = answer
        self._go(self.lab.deciding)
        verdict = self.lab.verdict()
        assert verdict is not None
        said = (
            "Right: " if answer == verdict.right else f"You said “{escape(answer)}”. The lab says: " if answer else ""
        )
        self.question.children = [
            widgets.HTML(
                f"<details open><summary role='status'>{said}<b>{escape(verdict.right)}</b>.</summary>"
                f"<p>{escape(self.lab.predict.question)} {escape(verdict.why)}</p></details>"
            )
        ]
        self.stage.layout.display = ""

    def _ask(self, predict: Prediction) -> list[widgets.Widget]:
        """Return the question with a button for each option."""
        buttons = []
        for option in (*predict.options, ""):
            button = widgets.Button(
                description=option or "Just show me",
                layout=widgets.Layout(width="auto"),
                button_style="" if option else "info",
            )
            button.on_click(lambda _button, option=option: self.commit(option))
            buttons.append(button)
        return [
            widgets.HTML(f"<b>Predict first.</b> {escape(predict.question)}"),
            widgets.Box(buttons, layout=widgets.Layout(flex_flow="row wrap")),
        ]

    @property
    def setting(self) -> dict[str, Any]:
        """The present values of the controls."""
        return {name: widget.value for name, widget in self.controls.items()}

    def reset(self) -> None:
        """Go back to the default setting, redrawing once."""
        self._go(self.lab.default)

    def open(self, setting: Mapping[str, Any], _button: object = None) -> None:
        """Go to a whole setting, without a cover."""
        self.stage.layout.display = ""
        self._go(setting)

    def _go(self, setting: Mapping[str, Any]) -> None:
        self._quiet = True
        try:
            for name, value in setting.items():
                self.controls[name].value = value
        finally:
            self._quiet = False
        self.redraw()

    def redraw(self) -> None:
        """Compute and show the present setting; a `ValueError` of the lab is said in words over the last picture."""
        try:
            result = self.lab.run(**self.setting)
        except ValueError as error:
            self.message.value = f"<p role='alert' style='color:#b3202f'><b>Not possible:</b> {escape(str(error))}</p>"
            return
        if self.message.value:
            self.message.value = ""
        self._show(result)

    def _show(self, result: Result) -> None:
        self.picture.layout.display = "" if result.panels else "none"
        scale = [self.controls[name].value for name in self.lab.scaled_by]
        if not result.panels:
            self._drawn = None
        elif self._drawn is None or len(self._drawn.axes) != len(result.panels) or scale != self._scale:
            self._drawn, self._scale = Picture(result.panels), scale
        else:
            self._drawn.update(result.panels)
        if self._drawn is not None:
            self.picture.value = self._drawn.png()
        self._show_flow(result.flow)
        self.headline.value = (
            f"<p role='status' style='font-size:1.05em;margin:.4em 0'><b>{escape(result.headline)}</b></p>"
        )
        if self.lab.challenge is not None:
            met = self.lab.challenge.met(self.setting, result)
            mark = "✓ reached" if met else "not yet"
            self.goal.value = f"<b>Challenge.</b> {escape(self.lab.challenge.goal)} <b>{mark}</b>"
        items = "".join(f"<li><b>{escape(p.title)}.</b> {escape(p.text)}</li>" for p in result.panels if p.text)
        self.sentences.value = f"<ul style='line-height:1.4'>{items}</ul>" if items else ""

    def _show_flow(self, flow: Flow | None) -> None:
        """Show the moment of the clock in the runs that can be played, if the lab has some."""
        first, self.flow = self.flow is None, flow
        self.player.layout.display = "none" if flow is None else ""
        if flow is not None and first:
            self.clock.value = round(FRAMES * flow.still / flow.end)
        self._draw_flow()

    def _draw_flow(self) -> None:
        if self.flow is None:
            return
        t = self.flow.end * self.clock.value / FRAMES
        lanes = "".join(f"<div style='flex:1 1 20em'>{lane}</div>" for lane in pictures(self.flow, t, INKS.__getitem__))
        self.lanes.value = (
            f"<b>{escape(self.flow.title)}</b> at {1000 * t:.0f} ms"
            f"<div style='display:flex;flex-wrap:wrap;gap:1.5em;max-width:920px;font-family:sans-serif'>{lanes}</div>"
        )

    def _changed(self, _change: object) -> None:
        if not self._quiet:
            self.stage.layout.display = ""  # Whoever moves a control wants to see; the question stays open.
            self.redraw()


def _chip(words: str, act: Callable[[object], None]) -> widgets.Button:
    """Return a small button."""
    chip = widgets.Button(description=words, layout=widgets.Layout(width="auto"))
    chip.on_click(act)
    return chip


def _widget(control: Control) -> widgets.Widget:
    """Return a drop-down list for a choice and a slider for numbers."""
    options = [(control.text(value), value) for value in control.values]
    common = {"options": options, "value": control.default, "description": control.label, "style": _STYLE}
    if control.choice:
        return widgets.Dropdown(**common, layout=widgets.Layout(width="max-content", margin="2px 24px 2px 2px"))
    # The value stands to the right of a slider, in a box of its own width; the margin keeps it off the next label.
    room = widgets.Layout(width="440px", margin="2px 24px 2px 2px")
    return widgets.SelectionSlider(**common, continuous_update=True, layout=room)
