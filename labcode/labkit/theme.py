"""What each role looks like: one table behind both renderers and the page's style sheet.

Colours follow Okabe and Ito (https://jfly.uni-koeln.de/color/), darkened where they had less than 3:1 contrast on
white and lightened for the dark theme. A role is never told apart by colour alone: lines have a dash, points a shape,
bars a hatch.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """How one role is drawn.

    Parameters
    ----------
    light, dark : str
        Hex colour in the light and the dark theme.
    dash : tuple of float
        On and off lengths in pixels; () is a solid line.
    width : float
        Line width in pixels.
    shape : str
        Point shape by its Vega name.
    marker : str
        The same shape by its matplotlib name.
    hatch : str
        matplotlib hatch of bars; "" is a solid fill.
    """

    light: str
    dark: str
    dash: tuple[float, ...]
    width: float
    shape: str
    marker: str
    hatch: str


ROLE_LOOKS = {
    "ours": Look("#0072b2", "#56b4e9", (), 3.2, "circle", "o", ""),
    "baseline": Look("#c9510c", "#ff9350", (7, 3), 2.0, "square", "s", "////"),
    "alt1": Look("#00805d", "#3fcf9f", (2, 2), 2.2, "triangle-up", "^", "...."),
    "alt2": Look("#a8457e", "#ec9fcb", (9, 3, 2, 3), 2.0, "diamond", "D", "xxxx"),
    "alt3": Look("#946500", "#f0c24b", (4, 2, 1, 2, 1, 2), 2.0, "triangle-down", "v", "----"),
    "muted": Look("#77808b", "#98a3b0", (1, 3), 1.6, "cross", "P", "||||"),
}

# Everything that is not data: text, axis lines, grid, background, limits.
INK_LIGHT = {
    "ink": "#1d2733",
    "quiet": "#5b6673",
    "axis": "#a9b2bd",
    "grid": "#e6e9ee",
    "paper": "#ffffff",
    "limit": "#b3202f",
    "mark": "#11181f",
}
INK_DARK = {
    "ink": "#e8edf2",
    "quiet": "#a7b1bd",
    "axis": "#66717e",
    "grid": "#323a44",
    "paper": "#1a2027",
    "limit": "#ff7b86",
    "mark": "#f7fafc",
}

# Hatches of bars in the page: the path in a tile of 5 x 5; "ours" is solid.
HATCHES = {
    "baseline": "M-1,6L6,-1M-1,1L1,-1M4,6L6,4",
    "alt1": "M1.5,2.5h2",
    "alt2": "M0,0L5,5M5,0L0,5",
    "alt3": "M0,2.5h5",
    "muted": "M2.5,0v5",
}

DASH_LIMIT = (5.0, 3.0)
SHAPES_UP_TO = 16  # Points of a line; a longer one has no room for shapes and is told apart by its dash.
FONT = "-apple-system, BlinkMacSystemFont, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"


def variable(name: str) -> str:
    """Return the CSS variable that holds a role's or an ink's colour, e.g. ``var(--lab-ours)``."""
    return f"var(--lab-{name})"


def colours(theme: str) -> dict[str, str]:
    """Return name -> hex colour of every role and ink in a theme, "light" or "dark"."""
    inks = {"light": INK_LIGHT, "dark": INK_DARK}
    if theme not in inks:
        raise ValueError(f"theme = {theme!r}: known are light, dark")
    return {role: getattr(look, theme) for role, look in ROLE_LOOKS.items()} | inks[theme]
