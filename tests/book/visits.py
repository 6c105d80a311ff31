"""One page open in one view, cut off from the network, and what went wrong while it loaded."""

from __future__ import annotations

from typing import Any

VIEWS: dict[str, dict[str, Any]] = {
    "desk": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
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
    view : str, optional
        Which of `VIEWS` the context has.

    Attributes
    ----------
    name, view : str
        Name of the page, as in the table of contents, and the view.
    errors : list of str
        What the page threw or wrote to the console as an error.
    outside : list of str
        Addresses on other servers that it asked for.
    failed : list of str
        Answers of 400 and above.
    """

    def __init__(self, context: Any, url: str, view: str = "desk") -> None:
        self.view, self.name = view, "book/" + url.split("/book/")[1].split(".html")[0]
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
        """Bring everything that loads only when it comes into view there, and wait until it has arrived."""
        self.page.evaluate(
            """async () => {
                const frames = async (n) => { while (n--) await new Promise(requestAnimationFrame); };
                for (const place of document.querySelectorAll('.lab[data-lab], img, .prev-next-footer')) {
                    place.scrollIntoView({ block: 'center' });
                    await frames(2);
                }
                if (window.MathJax && MathJax.startup) await MathJax.startup.promise;
            }"""
        )
        self.page.wait_for_function(
            """() => [...document.images].every((image) => image.complete)
                && !document.querySelector('[data-lab]:not(.lab-ready, :has(.lab-trouble))')"""
        )

    def change_theme(self, scheme: str) -> None:
        """Let the reader's system be light or dark, and wait until the page follows."""
        self.page.emulate_media(color_scheme=scheme)
        self.page.wait_for_function("scheme => document.documentElement.dataset.theme === scheme", arg=scheme)
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
