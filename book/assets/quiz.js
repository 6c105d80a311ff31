/* A quiz in the page: options become buttons, the fold with the answer goes, and feedback comes for what was chosen. */
(function () {
  "use strict";
  const KEY = "labcode-quiz:";

  function kept(id) {
    try { return localStorage.getItem(KEY + id); } catch (error) { return null; } // A browser that keeps nothing.
  }

  function keep(id, text) {
    try { localStorage.setItem(KEY + id, text); } catch (error) { /* It will be asked again next time. */ }
  }

  function choose(section, button, announce) {
    section.querySelectorAll("button").forEach((other) => {
      other.setAttribute("aria-pressed", String(other === button));
      other.classList.toggle("quiz-right", other === button && other.dataset.right === "true");
      other.classList.toggle("quiz-wrong", other === button && other.dataset.right !== "true");
    });
    section.querySelector(".quiz-said").textContent = button.dataset.said;
    section.querySelector(".quiz-more").hidden = false;
    if (announce) keep(section.dataset.ask, button.textContent);
  }

  document.querySelectorAll(".quiz-question").forEach((section) => {
    section.querySelector("details").remove();
    section.querySelectorAll(".quiz-options li").forEach((item) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = item.textContent;
      button.dataset.right = item.dataset.right;
      button.dataset.said = item.dataset.said;
      button.setAttribute("aria-pressed", "false");
      button.addEventListener("click", () => choose(section, button, true));
      item.replaceChildren(button);
    });
    const before = kept(section.dataset.ask);
    const button = [...section.querySelectorAll("button")].find((one) => one.textContent === before);
    if (button) choose(section, button, false);
  });
})();
