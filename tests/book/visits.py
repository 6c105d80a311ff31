"""One page open in one view, cut off from the network, and what went wrong while it loaded."""

from __future__ import annotations

from typing import Any

VIEWS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 375, "height": 720}, "color_scheme": "light", "has_touch": True, "is_mobile": True},
}


class Visit:
    """A page that has loaded.

    Parameters
    ----------
    context : playwright BrowserContext
        Shared by the visits in one view, so that scripts and fonts of all pages are fetched once.
    url : str
        Page on the test's own server. The browser can reach no other (`tools.browser.FLAGS`); asking is noted.

    Attributes
    ----------
    errors : list of str
        What the page threw or wrote to the console as an error.
    outside : list of str
        Addresses on other servers that it asked for.
    failed : list of str
        Answers of 400 and above.
    """

    def __init__(self, context: Any, url: str) -> None:
        self.page = context.new_page()
        self.errors: list[str] = []
        self.outside: list[str] = []
        self.failed: list[str] = []
        home = url.split("/book/")[0]

        def asked(request: Any) -> None:
            if not request.url.startswith((home, "data:", "blob:")):
                self.outside.append(request.url)

        def answered(response: Any) -> None:
            if response.status >= 400:
                self.failed.append(f"{response.status} {response.url}")

        self.page.on("request", asked)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        self.page.on("response", answered)
        self.page.goto(url, wait_until="load")

    def close(self) -> None:
        """Forget what the page stored, and close it."""
        self.page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
        self.page.close()

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
