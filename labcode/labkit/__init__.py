"""The lab kit: one definition of a lab, shown in a kernel, in the page without one, and testable without a picture.

`lab` what a lab is · `prediction` what it asks first · `challenge` a goal · `panel` what a picture holds · `flow` runs
that move · `theme`, `scales` how it looks · `render_matplotlib`, `render_vega` the two renderers · `kernel_view`,
`page_view` the two views · `page_data`, `build` the page's data.
"""

from labcode.labkit.challenge import Challenge
from labcode.labkit.lab import Control, Lab, Result
from labcode.labkit.panel import Axis, Mark, Panel, Series
from labcode.labkit.prediction import Prediction

__all__ = ["Axis", "Challenge", "Control", "Lab", "Mark", "Panel", "Prediction", "Result", "Series"]
