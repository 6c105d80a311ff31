"""A lab: at most four controls, a pure `compute(**params) -> Result`, a question to answer first, and alt text."""

from __future__ import annotations

import itertools
import keyword
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from labcode import checks
from labcode.labkit.challenge import Challenge
from labcode.labkit.flow import Flow
from labcode.labkit.panel import Panel, said
from labcode.labkit.prediction import Prediction, Verdict
from labcode.labkit.words import counted

MAX_CONTROLS = 4
MAX_STATES = 1000  # The page's data file holds every state; beyond this it cannot stay small.
#: Kinds of numbers, and the words of their badges.
NUMBERS = {
    "paper": "paper GPU",
    "measured": "measured here",
    "quoted": "quoted",
    "arithmetic": "arithmetic",
}


@dataclass(frozen=True)
class Control:
    """A slider over numbers, or a choice among strings.

    Parameters
    ----------
    name : str
        Keyword argument of the lab's `compute`.
    label : str
        What the reader sees, e.g. "Arrival rate".
    values : tuple
        At least two: all numbers, ascending (a slider), or all strings (a choice).
    default : value
        One of `values`.
    unit : str
        Unit of the numbers, e.g. "req/s".
    format : callable
        value -> text beside the slider, e.g. ``"{:.2f}".format``; `str` by default.
    """

    name: str
    label: str
    values: tuple[Any, ...]
    default: Any
    unit: str = ""
    format: Callable[[Any], str] = str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier() or keyword.iskeyword(self.name):
            raise ValueError(f"Control name = {self.name!r}: a name that can be a keyword argument is needed")
        here = f"Control {self.name!r}"
        object.__setattr__(self, "label", said(f"{here}: label", self.label))
        values = tuple(
            v.item() if hasattr(v, "item") else v for v in self.values
        )  # numpy scalars would not go into JSON
        if len(values) < 2:
            raise ValueError(f"{here}: values = {values!r}: at least two are needed")
        if not all(isinstance(v, str) for v in values):
            for v in values:
                checks.number(f"{here}: values", v)
            if any(b <= a for a, b in itertools.pairwise(values)):
                raise ValueError(f"{here}: values = {values!r}: numbers must ascend, each once")
        elif len(set(values)) != len(values) or not all(v.strip() for v in values):
            raise ValueError(f"{here}: values = {values!r}: non-empty texts, each once")
        object.__setattr__(self, "values", values)
        if not isinstance(self.unit, str):
            raise ValueError(f"{here}: unit = {self.unit!r}: a text is needed")
        if not callable(self.format):
            raise ValueError(f"{here}: format = {self.format!r}: a function from value to text is needed")
        default = self.default.item() if hasattr(self.default, "item") else self.default
        object.__setattr__(self, "default", checks.one_of(f"{here}: default", default, values))
        for v in values:
            said(f"{here}: format({v!r})", self.format(v))

    @property
    def choice(self) -> bool:
        """Whether the control chooses among strings (otherwise it slides over numbers)."""
        return isinstance(self.values[0], str)

    def text(self, value: Any) -> str:
        """Return `value` as the reader sees it, with its unit."""
        shown = self.format(value)
        return counted(1, self.unit) if shown == "1" else f"{shown} {self.unit}".strip()


@dataclass(frozen=True)
class Result:
    """What a lab computed for one setting.

    Parameters
    ----------
    panels : tuple of Panel
        The same keys in every state of a lab; none where a flow says it all.
    headline : str
        One line that says what just happened, with its numbers.
    flow : Flow, optional
        Runs that the reader can play; in every state of a lab or in none.
    """

    panels: tuple[Panel, ...]
    headline: str
    flow: Flow | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "panels", tuple(self.panels))
        object.__setattr__(self, "headline", said("Result headline", self.headline))
        if not self.panels and self.flow is None:
            raise ValueError("Result panels = (): at least one panel, or a flow, is needed")
        keys = [panel.key for panel in self.panels]
        if len(set(keys)) != len(keys):
            raise ValueError(f"Result panels: keys {keys!r}: each key once")

    def panel(self, key: str) -> Panel:
        """Return the panel with this key; raise `ValueError` if there is none."""
        found = {panel.key: panel for panel in self.panels}
        checks.one_of("panel", key, found)
        return found[key]


def describe(result: Result, params: Mapping[str, Any]) -> str:
    """Return alt text made of the panels' titles and sentences: what a lab says of itself if it has no `alt`."""
    parts = [f"{panel.title}. {panel.text}".strip() for panel in result.panels]
    return f"{len(parts)} chart{'s' * (len(parts) > 1)}. {' '.join(parts)} {result.headline}"


@dataclass(frozen=True)
class Lab:
    """One definition from which come the live kernel view, the page's sliders and the tests.

    Parameters
    ----------
    id : str
        Lower-case words joined by "-", e.g. "ch08-load-sweep"; a link `#ch08-load-sweep` leads to the lab.
    title : str
        Heading of the lab.
    controls : tuple of Control
        One to four, names differ.
    compute : callable
        ``compute(**params) -> Result``; pure and seeded: the same setting always gives the same numbers.
    predict : Prediction, optional
        What the reader says before headline and charts are uncovered.
    alt : callable
        ``alt(result, params) -> str``, the text alternative of the picture; at least 20 characters.
    numbers : tuple of {"paper", "measured", "quoted", "arithmetic"}
        What kind of numbers the lab shows; a badge says so beside its title.
    scaled_by : tuple of str
        Names of controls whose value changes the scale of things. The axes have one range for every value of these
        (by default one range for the whole lab).
    presets : mapping
        Words on a button -> control name -> value, the others at their defaults: settings worth a look.
    challenge : Challenge, optional
        A goal to reach with the controls.
    plays : bool
        Whether the flow starts by itself in a wide window, unless the reader wants no motion.
    """

    id: str
    title: str
    controls: tuple[Control, ...]
    compute: Callable[..., Result]
    predict: Prediction | None = None
    alt: Callable[[Result, dict[str, Any]], str] = describe
    numbers: tuple[str, ...] = ()
    scaled_by: tuple[str, ...] = ()
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    challenge: Challenge | None = None
    plays: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", self.id):
            raise ValueError(f"Lab id = {self.id!r}: lower-case words joined by '-' are needed")
        here = f"Lab {self.id!r}"
        object.__setattr__(self, "title", said(f"{here}: title", self.title))
        object.__setattr__(self, "controls", tuple(self.controls))
        if not 1 <= len(self.controls) <= MAX_CONTROLS:
            raise ValueError(f"{here}: {len(self.controls)} controls: 1 to {MAX_CONTROLS} are allowed")
        names = [control.name for control in self.controls]
        if len(set(names)) != len(names):
            raise ValueError(f"{here}: controls are named {names!r}; each name once")
        if self.size > MAX_STATES:
            raise ValueError(f"{here}: {self.size} states: at most {MAX_STATES}, use fewer values")
        if not callable(self.compute) or not callable(self.alt):
            raise ValueError(f"{here}: compute and alt must be functions")
        if self.predict is not None and not isinstance(self.predict, Prediction):
            raise ValueError(f"{here}: predict = {self.predict!r}: a Prediction is needed")
        for kind in self.numbers:
            checks.one_of(f"{here}: numbers", kind, tuple(NUMBERS))
        for name in self.scaled_by:
            checks.one_of(f"{here}: scaled_by", name, tuple(names))
        for words, setting in self.presets.items():
            said(f"{here}: preset", words)
            self.whole(setting)
        if self.challenge is not None and not isinstance(self.challenge, Challenge):
            raise ValueError(f"{here}: challenge = {self.challenge!r}: a Challenge is needed")
        self.whole({} if self.predict is None else self.predict.reveal)

    @property
    def size(self) -> int:
        """Number of states: the product of the numbers of values."""
        return math.prod(len(control.values) for control in self.controls)

    @property
    def default(self) -> dict[str, Any]:
        """The default setting, control name -> value."""
        return {control.name: control.default for control in self.controls}

    def states(self) -> Iterator[dict[str, Any]]:
        """Yield every setting; the last control varies fastest."""
        for values in itertools.product(*(control.values for control in self.controls)):
            yield dict(zip((control.name for control in self.controls), values, strict=True))

    def run(self, **params: Any) -> Result:
        """Compute one setting; controls left out keep their defaults.

        Raises
        ------
        ValueError
            If a name is not a control, a value is not among the control's values, or `compute` returns no `Result`.
        """
        result = self.compute(**self.whole(params))
        if not isinstance(result, Result):
            raise ValueError(f"Lab {self.id!r}: compute returned {type(result).__name__}: a Result is needed")
        return result

    def whole(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return a whole setting: `params` over the defaults.

        Raises
        ------
        ValueError
            If a name is not a control, or a value is not among the control's values.
        """
        for name in params:
            checks.one_of(f"Lab {self.id!r}: control", name, [control.name for control in self.controls])
        setting = self.default | dict(params)
        for control in self.controls:
            checks.one_of(f"Lab {self.id!r}: {control.name}", setting[control.name], control.values)
        return setting

    @property
    def deciding(self) -> dict[str, Any]:
        """The setting that answers the question (the default one without a question), control name -> value."""
        return self.whole({} if self.predict is None else self.predict.reveal)

    def verdict(self, result: Result | None = None) -> Verdict | None:
        """Return what the lab says of its own question, None without one; `result` is that of `deciding`."""
        if self.predict is None:
            return None
        return self.predict.verdict(self.run(**self.deciding) if result is None else result)

    def in_words(self, params: Mapping[str, Any]) -> str:
        """Return a setting as the reader sees it: "Arrival rate: 8 req/s, Seats: 64"."""
        return ", ".join(f"{c.label}: {c.text(params[c.name])}" for c in self.controls)

    def alt_text(self, result: Result, params: dict[str, Any]) -> str:
        """Return the text alternative for `result`; raise `ValueError` if it says less than 20 characters."""
        text = said(f"Lab {self.id!r}: alt text", self.alt(result, params))
        if len(text) < 20:
            raise ValueError(f"Lab {self.id!r}: alt text = {text!r}: at least 20 characters are needed")
        return text
