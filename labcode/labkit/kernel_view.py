"""The kernel view of a lab: ipywidgets around one picture, redrawn in place.

Sliders report every step of a drag. The browser's side of a widget sends its next value only when the kernel is idle
again, and only the newest, so a handler that redraws at once never falls behind the reader's hand.
"""

from __future__ import annotations

from html import escape
from typing import Any

import ipywidgets as widgets

from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.render_matplotlib import Picture

_STYLE = {"description_width": "initial"}


class Live:
    """Controls, headline, picture and sentences of a lab in a notebook.

    Parameters
    ----------
    lab : Lab

    Attributes
    ----------
    view : ipywidgets.VBox
        What to display.
    controls : dict of str to widget
        By control name; setting a widget's `value` redraws.
    picture : ipywidgets.Image
        PNG of the panels.
    """

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.controls = {control.name: _widget(control) for control in lab.controls}
        self.headline = widgets.HTML()
        self.message = widgets.HTML()
        self.sentences = widgets.HTML()
        self.picture = widgets.Image(format="png", layout=widgets.Layout(width="100%", max_width="920px"))
        self._drawn: Picture | None = None
        self._quiet = False
        reset = widgets.Button(description="Reset", tooltip="Back to the default setting", icon="undo")
        reset.on_click(lambda _button: self.reset())
        for widget in self.controls.values():
            widget.observe(self._changed, names="value")
        rows = [widgets.HTML(f"<b style='font-size:1.15em'>{escape(lab.title)}</b>")]
        if lab.predict:
            rows.append(_prediction(lab.predict))
        bar = widgets.Box(
            [*self.controls.values(), reset], layout=widgets.Layout(flex_flow="row wrap", align_items="center")
        )
        self.view = widgets.VBox([*rows, bar, self.headline, self.message, self.picture, self.sentences])
        self.redraw()

    @property
    def setting(self) -> dict[str, Any]:
        """The present values of the controls."""
        return {name: widget.value for name, widget in self.controls.items()}

    def reset(self) -> None:
        """Go back to the default setting, redrawing once."""
        self._quiet = True
        try:
            for name, value in self.lab.default.items():
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
        if self._drawn is None or len(self._drawn.axes) != len(result.panels):
            self._drawn = Picture(result.panels)
        else:
            self._drawn.update(result.panels)
        self.picture.value = self._drawn.png()
        self.headline.value = (
            f"<p role='status' style='font-size:1.05em;margin:.4em 0'><b>{escape(result.headline)}</b></p>"
        )
        items = "".join(f"<li><b>{escape(p.title)}.</b> {escape(p.text)}</li>" for p in result.panels if p.text)
        self.sentences.value = f"<ul style='line-height:1.4'>{items}</ul>" if items else ""

    def _changed(self, _change: object) -> None:
        if not self._quiet:
            self.redraw()


def _widget(control: Control) -> widgets.Widget:
    """Return a drop-down list for a choice and a slider for numbers."""
    options = [(control.text(value), value) for value in control.values]
    common = {"options": options, "value": control.default, "description": control.label, "style": _STYLE}
    if control.choice:
        return widgets.Dropdown(**common, layout=widgets.Layout(width="max-content"))
    return widgets.SelectionSlider(**common, continuous_update=True, layout=widgets.Layout(width="420px"))


def _prediction(question: str) -> widgets.Widget:
    """Return the question with a line to write an answer into; locking it shows it beside what happens."""
    answer = widgets.Text(placeholder="Your prediction", layout=widgets.Layout(width="420px"))
    lock = widgets.Button(description="Lock it in", icon="lock")
    kept = widgets.HTML()

    def keep(_button: object) -> None:
        if answer.value.strip():
            answer.disabled = lock.disabled = True
            kept.value = f"<i>You predicted: {escape(answer.value)}</i>"

    lock.on_click(keep)
    return widgets.VBox([widgets.HTML(f"<b>Predict first.</b> {escape(question)}"), widgets.HBox([answer, lock]), kept])
