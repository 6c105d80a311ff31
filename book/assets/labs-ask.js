/* The question before a lab: an answer is chosen, kept in this browser, and judged by the lab. Used by labs.js. */
window.labAsk = (function () {
  "use strict";
  const { element } = window.labCharts;
  const KEY = "labcode-answer:";

  // What was answered before, as an option's text ("" for "just show me"); null if nothing fits.
  function kept(id, options) {
    try {
      const answer = localStorage.getItem(KEY + id);
      return answer === "" || options === undefined || options.includes(answer) ? answer : null;
    } catch (error) { return null; } // A browser that keeps nothing.
  }

  function keep(id, answer) {
    try {
      if (answer === null) localStorage.removeItem(KEY + id);
      else localStorage.setItem(KEY + id, answer);
    } catch (error) { /* It will be asked again next time. */ }
  }

  class Ask {
    constructor(lab, ask) {
      this.lab = lab;
      this.ask = ask;
      this.node = element("div", { class: "lab-ask" });
      this.cover = element("div", { class: "lab-cover" }, element("p", {}, "Choose an answer above, and the lab shows what happens."));
      const show = element("button", { type: "button", class: "lab-button lab-show" }, "Just show me");
      show.addEventListener("click", () => this.answer(""));
      this.cover.append(show);
      const before = kept(lab.id, ask.options);
      if (before === null) this.put(false);
      else { this.open(); this.judge(before, false); }
    }

    // The question with its options as buttons.
    put(focus) {
      const id = `${this.lab.id}-question`;
      const options = this.ask.options.map((text) => {
        const button = element("button", { type: "button", class: "lab-option" }, text);
        button.addEventListener("click", () => this.answer(text));
        return element("li", {}, button);
      });
      this.node.replaceChildren(element("p", { class: "lab-question", id }, element("b", { class: "lab-first" }, "Predict first."), " " + this.ask.question),
        element("div", { role: "group", "aria-labelledby": id }, element("ul", { class: "lab-options" }, ...options)));
      if (focus) this.node.querySelector("button").focus();
    }

    open() {
      this.lab.node.removeAttribute("data-covered");
      this.cover.remove();
    }

    answer(text) {
      keep(this.lab.id, text);
      this.open();
      this.lab.move([...this.ask.reveal]);
      this.judge(text, true);
      if (this.lab.player) { this.lab.player.go(0); this.lab.player.start(); }
    }

    // What you said and what happened; folded to a line when the page is seen again.
    judge(text, fresh) {
      const { options, right, why, question } = this.ask;
      const good = text === options[right];
      const word = text === "" ? "The answer: " : good ? "Right: " : `You said “${text}”. The lab says: `;
      const summary = element("summary", {}, element("span", { class: "lab-sign", "aria-hidden": "true" }, text === "" ? "→" : good ? "✓" : "✗"), element("span", {}, word, element("b", {}, options[right]), "."));
      const there = element("button", { type: "button", class: "lab-again" }, "Show that setting");
      const again = element("button", { type: "button", class: "lab-again" }, "Answer again");
      there.addEventListener("click", () => this.lab.move([...this.ask.reveal]));
      again.addEventListener("click", () => {
        keep(this.lab.id, null);
        this.lab.node.setAttribute("data-covered", "");
        this.lab.stage.append(this.cover);
        this.put(true);
      });
      const box = element("details", { class: `lab-verdict ${text === "" ? "" : good ? "lab-good" : "lab-other"}`, open: fresh }, summary,
        element("p", { class: "lab-asked" }, question), element("p", { class: "lab-why" }, why), element("p", { class: "lab-more" }, there, again));
      const live = element("div", { role: "status" });
      this.node.replaceChildren(live);
      live.append(box);
      if (!fresh) return;
      summary.focus({ preventScroll: true });
      this.lab.node.dispatchEvent(new CustomEvent("lab:judged", { bubbles: true, detail: { id: this.lab.id } }));
    }
  }

  return { Ask, kept };
})();
