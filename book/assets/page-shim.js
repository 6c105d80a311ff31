/* Two repairs to the theme, for every page. Asks for nothing; a page without it is complete. */
"use strict";

(function () {
  // What scrolls sideways can also be scrolled with the keyboard.
  function makeScrollable() {
    document.querySelectorAll(".bd-article pre, .bd-article div.cell_output, .bd-article div.math, .bd-article mjx-container[display='true']")
      .forEach((box) => {
        if (box.scrollWidth > box.clientWidth + 1 && !box.hasAttribute("tabindex")) box.tabIndex = 0;
      });
  }

  // A link into a folded answer opens it.
  function unfoldTarget() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let box = target; box; box = box.parentElement) {
      if (box.tagName === "DETAILS") box.open = true;
      else if (box.classList.contains("toggle-hidden")) {
        const button = box.querySelector(".toggle-button");
        if (button) button.click();
      }
    }
    target.scrollIntoView();
  }

  addEventListener("load", () => { makeScrollable(); unfoldTarget(); });
  addEventListener("resize", makeScrollable);
  addEventListener("hashchange", unfoldTarget);
})();
