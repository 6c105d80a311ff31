"""A chart whose axis has a title longer than itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from labcode.labkit.panel import Axis, Series
from labcode.labkit.render_vega import panel_spec
from tests.labkit.test_in_a_browser import Opened, site  # noqa: F401  (a fixture)
from tools.serve import serving

pytestmark = [pytest.mark.browser, pytest.mark.slow]

DRAWN_AGAIN = """async spec => {
    const place = document.body.appendChild(document.createElement('div')), widths = [];
    const options = {mode: 'vega', renderer: 'svg', actions: false};
    const view = (await window.labEmbed(place, {...spec, width: 330}, options)).view;
    for (let k = 0; k < 8; k++) {
        await view.data('d0', [{x: 1, y: 1 + k}, {x: 9, y: 2}]).signal('ydom', [0, 9 + k]).runAsync();
        widths.push(view.scale('x').range()[1]);
    }
    return widths;
}"""


def test_a_title_longer_than_the_plot_does_not_shrink_it(browser: Any, site: Path) -> None:  # noqa: F811
    """Drawn again and again, a plot keeps its width, however long the title of its axis."""
    title = Axis("Longest gap between two tokens of a client that reads all of its answer", "ms")
    spec = panel_spec(Axis("Time", "s"), title, [Series("a", "line", (1, 9), (1, 2))], False)
    with serving(site) as url, Opened(browser, f"{url}/index.html") as at:
        widths = at.page.evaluate(DRAWN_AGAIN, spec)
        assert widths[-1] == widths[1] > 200, widths
