/* What a lab's page offers beside its sliders: settings worth a look, a goal, a pinned setting, links. Used by labs.js. */
window.labTools = (function () {
  "use strict";
  const { element } = window.labCharts;

  function button(words, act, more = {}) {
    const made = element("button", { type: "button", class: "lab-button", ...more }, words);
    made.addEventListener("click", () => act(made));
    return made;
  }

  // Put a text on the clipboard, and say so on the button for a moment.
  async function copy(made, text) {
    const before = made.dataset.words || (made.dataset.words = made.textContent);
    let said = "Copied";
    try {
      await navigator.clipboard.writeText(text);
    } catch (error) {
      const box = element("textarea", { class: "lab-unseen", readonly: true }, text);
      document.body.append(box);
      box.select();
      if (!document.execCommand("copy")) said = "Cannot copy";
      box.remove();
      made.focus();
    }
    made.textContent = said;
    setTimeout(() => { made.textContent = before; }, 1800);
  }

  // The setting as a notebook's cell would have it: only what differs from the default.
  function python(lab) {
    const given = lab.data.controls.flatMap((control, i) => {
      const value = control.values[lab.setting[i]];
      return lab.setting[i] === control.default ? [] : [`, ${control.name}=${typeof value === "string" ? JSON.stringify(value) : value}`];
    });
    return `from labcode.course import show\n\nshow("${lab.id}"${given.join("")})`;
  }

  class Tools {
    constructor(lab) {
      this.lab = lab;
      const { data } = lab;
      this.pin = null;
      this.pinButton = button("Pin this", () => this.hold(this.pin ? null : [...lab.setting]), { title: "Keep this setting in the charts to compare others with", class: "lab-button lab-pin" });
      this.actions = element("div", { class: "lab-actions" },
        button("Reset", () => lab.move(data.controls.map((control) => control.default)), { class: "lab-button lab-reset" }),
        this.pinButton,
        button("Copy link", (made) => this.link(made), { class: "lab-button lab-link" }),
        button("Copy Python", (made) => copy(made, python(lab)), { class: "lab-button lab-python" }));
      this.presets = data.presets.length ? element("div", { class: "lab-presets", role: "group", "aria-label": "Settings worth a look" },
        ...data.presets.map(([words, setting]) => button(words, () => { lab.uncover(); lab.move([...setting]); }, { class: "lab-chip" }))) : null;
      this.challenge = data.challenge ? element("p", { class: "lab-challenge", role: "status" }) : null;
      this.note = element("p", { class: "lab-pinned", hidden: true });
    }

    place(setting) {
      return setting.reduce((at, j, i) => at * this.lab.data.controls[i].values.length + j, 0);
    }

    // After every move: is the goal reached, and what differs from what is pinned?
    show(setting) {
      if (this.challenge) {
        const met = this.lab.data.challenge.met.includes(this.place(setting));
        const words = met ? " Reached ✓" : " Not yet.";
        if (this.challenge.dataset.met !== String(met)) {
          this.challenge.dataset.met = String(met);
          this.challenge.replaceChildren(element("b", {}, "Challenge. "), this.lab.data.challenge.goal, element("b", {}, words));
        }
      }
      this.note.hidden = !this.pin;
      this.pinButton.textContent = this.pin ? "Unpin" : "Pin this";
      if (!this.pin) return;
      const differs = this.lab.data.controls.flatMap((control, i) => this.pin[i] === setting[i] ? [] : [`${control.label} ${control.texts[this.pin[i]]}, now ${control.texts[setting[i]]}`]);
      this.note.replaceChildren(element("b", {}, "Pinned (dotted): "), differs.join("; ") || "this setting", ". ", this.lab.decode(this.pin).headline);
    }

    hold(setting) {
      this.pin = setting;
      const state = setting ? this.lab.decode(setting) : null;
      this.lab.charts.forEach((chart, i) => chart.pin(state ? state.panels[i] : null));
      this.lab.move([...this.lab.setting]);
    }

    address() {
      return this.pin ? { pin: this.pin.map((j, i) => this.lab.data.controls[i].values[j]).join("~") } : {};
    }

    // What an address asks to be pinned, if it fits this lab.
    understand(query) {
      const given = (query.get("pin") || "").split("~");
      const found = this.lab.data.controls.map((control, i) => control.values.findIndex((value) => String(value) === given[i]));
      return given.length === found.length && found.every((j) => j >= 0) ? found : null;
    }

    link(made) {
      const hash = "#" + this.lab.address();
      copy(made, location.href.split("#")[0] + hash);
      try { history.replaceState(history.state, "", hash); } catch (error) { /* A viewer that forbids it. */ }
    }
  }

  return { Tools };
})();
