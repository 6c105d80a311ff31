"""Take the picture of the flagship lab for the README: ``make screenshot``, after ``make book SERVE=0``."""

from __future__ import annotations

import argparse
from pathlib import Path

from tools.browser import chromium
from tools.serve import serving

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "book" / "assets" / "flagship.png"


def picture(page_name: str, lab: str, target: Path, width: int = 1280) -> None:
    """Save the lab with this id, as the built page `page_name` shows it once its sliders are alive, as a PNG.

    Raises
    ------
    playwright TimeoutError
        If the page has no such lab, or if no slider appears in it.
    """
    with serving(ROOT / "_build" / "html") as url, chromium() as browser:
        page = browser.new_page(
            viewport={"width": width, "height": 1000}, device_scale_factor=1.5, reduced_motion="reduce"
        )
        page.goto(f"{url}/{page_name}.html#{lab}")
        place = page.locator(f'[data-lab="{lab}"]')
        place.scroll_into_view_if_needed()
        place.locator('input[type="range"], select, [role="slider"]').first.wait_for()
        page.wait_for_load_state("networkidle")
        show = place.get_by_role("button", name="Just show me")
        if show.count():
            show.click()
        page.wait_for_timeout(500)
        target.parent.mkdir(parents=True, exist_ok=True)
        place.screenshot(path=str(target))
    print(f"{target.relative_to(ROOT)}: {target.stat().st_size / 1000:.0f} kB")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tools.screenshot", description=__doc__)
    parser.add_argument("--page", default="book/09-knobs")
    parser.add_argument("--lab", default="ch09-knobs")
    options = parser.parse_args()
    picture(options.page, options.lab, TARGET)


if __name__ == "__main__":
    main()
