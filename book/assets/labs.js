/* Labs without a kernel: sliders over states that were computed when the book was built.
 *
 * A page holds placeholders `<div class="lab" data-lab="ID">` with a still picture. When one comes near the view, this script loads
 * the chart library (once) and labs/ID.js, which labcode.labkit.build wrote, and puts controls and charts in the picture's place.
 * Script tags load from file:// and http alike. Every chart is a Vega view that stays alive: a slider moves data into it.
 */
(function () {
  "use strict";
  const base = new URL("labs/", document.currentScript.src).href;
  const loading = {};
  const labs = new Map(); // lab id -> Lab
  const { Chart, element, hatches } = window.labCharts;
  const { Ask, kept } = window.labAsk;
  const { Player } = window.labFlow;
  const { Tools } = window.labTools;

  // ---- small things ----------------------------------------------------------------------------------------------------
  function load(url) {
    if (!loading[url]) {
      loading[url] = new Promise(function (resolve, reject) {
        const script = document.createElement("script");
        script.src = url;
        script.onload = resolve;
        script.onerror = () => { delete loading[url]; reject(new Error("cannot load " + url)); };
        document.head.append(script);
      });
    }
    return loading[url];
  }

  // ---- the address: #lab-id?rate=16&policy=max;other-lab?... -----------------------------------------------------------
  function readAddress() {
    const found = new Map();
    let hash = location.hash.slice(1);
    try { hash = decodeURI(hash); } catch (error) { /* Not every text after # is ours. */ }
    for (const part of hash.split(";")) {
      const [id, query] = part.split("?");
      if (query !== undefined) found.set(id, new URLSearchParams(query));
    }
    return found;
  }

  // Browsers limit how often an address may change: at once if the last change is a while ago, otherwise a little later.
  const PAUSE = 100;
  let written = -Infinity, waiting = 0;
  function writeAddress(first, tries = 3) {
    clearTimeout(waiting);
    const early = written + PAUSE - performance.now();
    if (early > 0) { waiting = setTimeout(() => writeAddress(first, tries), early); return; }
    written = performance.now();
    const moved = [...labs.values()].filter((lab) => lab.ready && !lab.atDefault());
    moved.sort((a, b) => (b === first) - (a === first));
    const hash = moved.length ? "#" + moved.map((lab) => lab.address()).join(";") : "#" + first.id;
    try {
      history.replaceState(history.state, "", hash);
    } catch (error) {
      written += 20 * PAUSE; // Too often, or a viewer that forbids it.
      if (tries > 1) waiting = setTimeout(() => writeAddress(first, tries - 1), 21 * PAUSE);
    }
  }

  // ---- one lab ---------------------------------------------------------------------------------------------------------
  class Lab {
    constructor(node) {
      this.node = node;
      this.id = node.dataset.lab;
      this.ready = false;
    }

    start() {
      if (this.started) return this.started;
      this.started = (async () => {
        this.node.setAttribute("aria-busy", "true");
        const version = this.node.dataset.version ? "?v=" + this.node.dataset.version : "";
        try {
          const charts = this.node.querySelector(".lab-chart") ? [load(base + "vega-bundle.js")] : []; // Not for a flow alone.
          await Promise.all([...charts, load(base + this.id + ".js" + version)]);
          await this.build(window.labData[this.id]);
        } catch (error) {
          // The still picture stays, and says why it stays still.
          this.started = null;
          this.node.removeAttribute("data-covered");
          if (!this.node.querySelector(".lab-trouble")) {
            this.node.append(element("p", { class: "lab-trouble", role: "note" },
              `The sliders of this lab could not be started (${error.message}). In a notebook, show("${this.id}") makes them.`));
          }
        }
        this.node.removeAttribute("aria-busy");
      })();
      return this.started;
    }

    async build(data) {
      if (!data) throw new Error(`no data for ${this.id}`);
      this.data = data;
      this.setting = data.controls.map((control) => control.default);
      this.inputs = data.controls.map((control, i) => this.input(control, i));
      this.headline = element("p", { class: "lab-headline", role: "status", "aria-live": "polite" });
      this.alt = element("p", { class: "lab-unseen", id: `${this.id}-alt` });
      this.aside = element("p", { class: "lab-unseen", role: "status" });
      this.charts = data.panels.map((panel) => new Chart(panel, this));
      this.tools = new Tools(this);
      this.words = element("p", { class: "lab-setting" });
      const panels = element("div", { class: `lab-panels lab-panels-${Math.min(this.charts.length, 2) || 1}`, role: "group",
        "aria-label": "Charts", "aria-describedby": `${this.id}-alt` }, ...this.charts.map((chart) => chart.node));
      if (data.flows) {
        this.player = new Player(data.flows[0].title, data.flowLegend, this.id);
        this.player.hear = (t) => {
          for (const chart of this.charts) if (chart.panel.x.key === "time" && chart.view) chart.link(chart.panel.x.unit === "ms" ? 1e3 * t : t);
        };
        panels.prepend(this.player.node);
      }
      this.stage = element("div", { class: "lab-stage" }, this.words, this.headline, this.tools.note, this.alt, this.aside, panels);
      const live = element("div", { class: "lab-body lab-live" },
        element("div", { class: "lab-side" },
          element("div", { class: `lab-controls lab-controls-${this.inputs.length}`, role: "group", "aria-label": "Controls" }, ...this.inputs.map((input) => input.node)),
          ...[this.tools.presets, this.tools.actions, this.tools.challenge].filter(Boolean)),
        this.stage);
      if (data.ask) {
        this.ask = new Ask(this, data.ask);
        live.prepend(this.ask.node);
        if (this.node.hasAttribute("data-covered")) this.stage.append(this.ask.cover);
      }
      // Made ready out of sight, as wide as the still picture, and put in its place when everything is drawn.
      const still = this.node.querySelector(".lab-still");
      live.classList.add("lab-waking");
      still.after(live);
      try {
        await Promise.all(this.charts.map((chart) => chart.start()));
        const asked = readAddress().get(this.id);
        if (asked) {
          this.uncover();
          this.held(asked);
        }
        await this.apply(asked ? this.understand(asked) : this.setting);
      } catch (error) {
        live.remove();
        throw error;
      }
      still.remove();
      live.classList.remove("lab-waking");
      this.ready = true;
      if (data.plays && window.innerWidth >= 800) this.player.go(0), this.player.start();
      new ResizeObserver(() => this.fit()).observe(panels);
      this.node.classList.add("lab-ready");
      this.node.dispatchEvent(new CustomEvent("lab:ready", { bubbles: true, detail: { id: this.id } }));
    }

    // Whether another panel shows what a place on this chart's axis stands for.
    links(chart) {
      const { key } = chart.panel.x;
      return this.charts.some((other) => other !== chart && other.panel.x.key === key) || Boolean(this.data.flows && (key === "request" || key === "time"));
    }

    // Mark the same place in all panels that have it.
    mark(from, x) {
      const { key } = from.panel.x;
      for (const chart of this.charts) if (chart !== from && chart.panel.x.key === key) chart.link(x);
      if (this.player && key === "request") this.player.mark(x);
    }

    // What a screen reader hears of a place that a key walked to.
    said(words) {
      this.aside.textContent = words;
    }

    input(control, i) {
      const id = `${this.id}-${control.name}`;
      const label = element("label", { for: id }, control.label);
      if (control.choice) {
        const select = element("select", { id, name: control.name }, ...control.texts.map((text, j) => element("option", { value: j }, text)));
        select.addEventListener("change", () => this.turn(i, Number(select.value)));
        return { node: element("div", { class: "lab-control" }, label, select), set: (j) => { select.value = j; } };
      }
      const output = element("output", { for: id });
      const last = control.values.length - 1;
      const range = element("input", { type: "range", id, name: control.name, min: 0, max: last, step: 1 });
      range.addEventListener("input", () => this.turn(i, Number(range.value)));
      const ends = element("div", { class: "lab-ends", "aria-hidden": "true" }, element("span", {}, control.texts[0]), element("span", {}, control.texts[last]));
      const set = (j) => {
        range.value = j;
        range.setAttribute("aria-valuetext", control.texts[j]);
        range.style.setProperty("--lab-done", `${(100 * j) / last}%`);
        output.textContent = control.texts[j];
      };
      return { node: element("div", { class: "lab-control" }, element("div", { class: "lab-name" }, label, output), range, ends), set };
    }

    // Many steps of a drag in one frame become one drawing, of the newest.
    turn(i, j) {
      const next = [...(this.wanted || this.setting)];
      next[i] = j;
      this.inputs[i].set(j);
      this.uncover();
      this.move(next);
    }

    // The setting that an address pins.
    held(query) {
      const pin = this.tools.understand(query);
      if (!pin) return;
      this.tools.pin = pin;
      const { panels } = this.decode(pin);
      this.charts.forEach((chart, i) => chart.pin(panels[i]));
    }

    // Whoever moves a control, or follows a link to a setting, wants to see: the question stays open above.
    uncover() {
      if (this.ask) this.ask.open();
    }

    move(setting) {
      const since = performance.now();
      if (!this.wanted) {
        requestAnimationFrame(async () => {
          const wanted = this.wanted;
          this.wanted = null;
          await this.apply(wanted);
          this.node.dataset.redrawMs = (performance.now() - since).toFixed(1);
          writeAddress(this);
          this.node.dispatchEvent(new CustomEvent("lab:drawn", { bubbles: true, detail: { id: this.id, ms: performance.now() - since } }));
        });
      }
      this.wanted = setting;
    }

    async apply(setting) {
      this.setting = setting;
      setting.forEach((j, i) => this.inputs[i].set(j));
      const state = this.decode(setting);
      if (this.headline.textContent !== state.headline) this.headline.textContent = state.headline;
      this.words.textContent = this.data.controls.map((control, i) => `${control.label}: ${control.texts[setting[i]]}`).join(", ");
      this.alt.textContent = state.alt;
      this.charts.forEach((chart, i) => chart.show(state.panels[i]));
      this.tools.show(setting);
      this.sayScales();
      if (this.player) {
        this.player.show(this.data.flows[state.flow]);
        this.player.hear(this.player.t);
      }
      await Promise.all(this.charts.map((chart) => chart.view.runAsync()));
      this.charts.forEach((chart) => chart.apart());
    }

    // Axes that changed say so, for a moment beside the chart's title and to a screen reader.
    sayScales() {
      const said = [];
      for (const chart of this.charts) {
        const words = chart.newScale();
        chart.title.toggleAttribute("data-scale", Boolean(words));
        if (!words) continue;
        chart.title.dataset.scale = "new scale";
        clearTimeout(chart.fading);
        chart.fading = setTimeout(() => chart.title.removeAttribute("data-scale"), 2500);
        said.push(`${chart.panel.title}: ${words}`);
      }
      this.aside.textContent = said.join("; ");
    }

    // A row of the table of states, with its indices replaced by what they stand for.
    decode(setting) {
      const { controls, panels, strings, arrays, marks, states } = this.data;
      const row = states[setting.reduce((place, j, i) => place * controls[i].values.length + j, 0)];
      let at = 0;
      const next = () => row[at++];
      const array = (i) => (i < 0 ? null : arrays[i]);
      const headline = strings[next()], said = next();
      const decoded = panels.map((panel) => ({
          text: strings[next()], marks: marks[next()].map(([kind, x, y, label]) => [kind, x, y, strings[label]]),
          xdom: array(next()), ydom: array(next()),
          series: panel.series.map(() => ({ x: array(next()), y: array(next()), y2: array(next()) })),
        }));
      return { headline, alt: said < 0 ? headline : strings[said], panels: decoded, flow: this.data.flows ? next() : null };
    }

    fit() {
      for (const chart of this.charts) {
        if (chart.fit()) { chart.ticks(); chart.view.runAsync().then(() => chart.apart()); }
      }
    }

    atDefault() {
      return !this.tools.pin && this.setting.every((j, i) => j === this.data.controls[i].default);
    }

    address() {
      const values = this.data.controls.map((control, i) => [control.name, control.values[this.setting[i]]]);
      const query = new URLSearchParams([...values, ...Object.entries(this.tools.address())]);
      return `${this.id}?${query}`;
    }

    // What an address asks for; a value that is not on a slider becomes the nearest that is.
    understand(query) {
      return this.data.controls.map(function (control) {
        const given = query.get(control.name);
        if (given === null) return control.default;
        if (control.choice) return control.values.includes(given) ? control.values.indexOf(given) : control.default;
        const value = Number(given);
        if (given.trim() === "" || !Number.isFinite(value)) return control.default;
        return control.values.reduce((best, v, j) => Math.abs(v - value) < Math.abs(control.values[best] - value) ? j : best, 0);
      });
    }
  }

  // ---- the page --------------------------------------------------------------------------------------------------------
  async function arrive(scroll) {
    const asked = readAddress();
    let first = true;
    for (const [id, query] of asked) {
      const lab = labs.get(id);
      if (!lab) continue;
      if (first && scroll) lab.node.scrollIntoView({ block: "start" });
      first = false;
      lab.node.removeAttribute("data-covered");
      if (lab.ready) { lab.uncover(); lab.held(query); lab.move(lab.understand(query)); }
      else lab.start();
    }
  }

  function begin() {
    const nodes = document.querySelectorAll(".lab[data-lab]");
    if (!nodes.length) return;
    hatches();
    const watcher = new IntersectionObserver(function (entries) {
      for (const entry of entries) {
        if (entry.isIntersecting) {
          watcher.unobserve(entry.target);
          labs.get(entry.target.dataset.lab).start();
        }
      }
    }, { rootMargin: "400px 0px" });
    for (const node of nodes) {
      if (labs.has(node.dataset.lab)) continue;
      labs.set(node.dataset.lab, new Lab(node));
      if (kept(node.dataset.lab) !== null) node.removeAttribute("data-covered");
      watcher.observe(node);
    }
    // A wide lab lies over the page's margin, where the contents are: they step aside meanwhile.
    const inView = new Set();
    const margin = new IntersectionObserver(function (entries) {
      for (const entry of entries) inView[entry.isIntersecting ? "add" : "delete"](entry.target);
      document.body.classList.toggle("lab-in-view", inView.size > 0);
    }, { rootMargin: "-64px 0px 0px 0px" });
    for (const node of nodes) margin.observe(node);
    window.addEventListener("hashchange", () => arrive(false));
    arrive(true);
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
  else begin();
})();
