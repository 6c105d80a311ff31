"""One page open in one view, cut off from the network, and what went wrong while it loaded."""

from __future__ import annotations

from typing import Any

VIEWS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 375, "height": 720}, "color_scheme": "light", "has_touch": True, "is_mobile": True},
}


class Visit:
    """A page in a fresh context.

    Parameters
    ----------
    browser : playwright Browser
    url : str
        Page on the test's own server; requests to any other are refused and noted.
    view : str
        A key of `VIEWS`.

    Attributes
    ----------
    errors : list of str
        What the page threw or wrote to the console as an error.
    outside : list of str
        Addresses on other servers that it asked for.
    failed : list of str
        Answers of 400 and above.
    """

    def __init__(self, browser: Any, url: str, view: str) -> None:
        self.context = browser.new_context(**VIEWS[view], reduced_motion="reduce")
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.outside: list[str] = []
        self.failed: list[str] = []
        home = url.split("/book/")[0]

        def route(handler: Any) -> None:
            if handler.request.url.startswith((home, "data:", "blob:")):
                handler.continue_()
            else:
                self.outside.append(handler.request.url)
                handler.abort()

        def answered(response: Any) -> None:
            if response.status >= 400:
                self.failed.append(f"{response.status} {response.url}")

        self.page.route("**/*", route)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        self.page.on("response", answered)
        self.page.goto(url, wait_until="load")

    def scroll_through(self) -> None:
        """Bring everything into view once: labs and images load only then."""
        self.page.evaluate(
            """async () => {
                for (let y = 0; y < document.documentElement.scrollHeight; y += 600) {
                    window.scrollTo(0, y);
                    await new Promise(done => setTimeout(done, 30));
                }
                if (window.MathJax && MathJax.startup) await MathJax.startup.promise;
            }"""
        )
        self.page.wait_for_load_state("networkidle")
