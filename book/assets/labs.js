/* Brings the labs of a page to life: controls and charts over states that were computed when the book was built.
   Works without a kernel, a network and a server. The chart library and a lab's data are fetched (by script tags, which file://
   allows too) when the lab comes near the view. The format of the data: labcode/labs/page.py; of the charts: labcode/labs/vega.py. */
"use strict";

(function () {
  const HERE = new URL("labs/", document.currentScript.src);
  const HATCHES = { baseline: "M0,6L6,0", alt1: "M1,3h2", alt2: "M0,6L6,0M0,0L6,6", alt3: "M0,3h6", muted: "M3,0v6" };
  const SHAPES = {
    circle: "M0,-4A4,4,0,1,1,0,4A4,4,0,1,1,0,-4Z", square: "M-3.5,-3.5h7v7h-7Z", "triangle-up": "M0,-4.5L4.2,3.2H-4.2Z",
    diamond: "M0,-4.8L4,0L0,4.8L-4,0Z", "triangle-down": "M0,4.5L4.2,-3.2H-4.2Z", cross: "M-4,-1.3h2.7v-2.7h2.6v2.7h2.7v2.6h-2.7v2.7h-2.6v-2.7h-2.7Z",
  };
  const SVG = "http://www.w3.org/2000/svg";
  const loading = {};

  function load(file, version) {
    const address = new URL(file, HERE);
    if (version) address.searchParams.set("v", version);
    return (loading[address] ??= new Promise((done, failed) => {
      const tag = document.createElement("script");
      tag.src = address;
      tag.onload = done;
      tag.onerror = () => failed(new Error(`${file} could not be loaded`));
      document.head.append(tag);
    }));
  }

  function element(name, properties = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(properties)) {
      if (key.startsWith("aria-") || key === "role" || key === "for") made.setAttribute(key, value);
      else made[key] = value;
    }
    made.append(...children);
    return made;
  }

  function drawn(name, attributes, ...children) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  /* Hatches of bars, once a page; charts refer to them by id. */
  function addHatches() {
    if (document.getElementById("lab-hatches")) return;
    const patterns = Object.entries(HATCHES).map(([role, d]) =>
      drawn("pattern", { id: `lab-hatch-${role}`, width: 6, height: 6, patternUnits: "userSpaceOnUse" },
        drawn("rect", { width: 6, height: 6, style: "fill: var(--lab-paper)" }),
        drawn("path", { d, style: `stroke: var(--lab-${role}); stroke-width: 1.4; fill: none` })));
    document.body.append(drawn("svg", { id: "lab-hatches", width: 0, height: 0, "aria-hidden": "true",
      style: "position: absolute" }, drawn("defs", {}, ...patterns)));
  }

  /* Ticks of a log axis: powers of ten if there are several, otherwise 1, 2, 5 times them. */
  function logTicks([low, high]) {
    const decades = Math.log10(high / low);
    const every = Math.max(1, Math.ceil(decades / 6));
    const ticks = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
      for (const factor of decades < 2.2 ? [1, 2, 5] : [1]) {
        const tick = Number(`${factor}e${power}`);
        if (tick >= low * 0.999 && tick <= high * 1.001 && (decades < 2.2 || power % every === 0)) ticks.push(tick);
      }
    }
    return ticks.length > 1 ? ticks : [low, high];
  }

  /* Looks of a series, read from the specification that draws it, for its entry in the legend. */
  function swatch(panel, i) {
    const { role, kind, name } = panel.series[i];
    const marks = panel.spec.marks.filter((mark) => mark.from && mark.from.data === `d${i}`);
    const set = (type, key) => marks.find((mark) => mark.type === type)?.encode.update[key]?.value;
    const colour = `var(--lab-${role})`;
    const box = drawn("svg", { viewBox: "0 0 30 14", width: 30, height: 14, "aria-hidden": "true", class: "lab-swatch" });
    if (kind === "bar" || kind === "cells") {
      const fill = kind === "bar" ? set("rect", "fill") : role === "muted" ? "var(--lab-paper)" : colour;
      box.append(drawn("rect", { x: 3, y: 1, width: kind === "cells" ? 13 : 24, height: 12, style: `fill: ${fill}; stroke: ${colour}` }));
      if (kind === "cells") {
        box.append(drawn("text", { x: 9.5, y: 11, "text-anchor": "middle", "font-size": 10, "font-weight": "bold",
          style: `fill: ${role === "muted" ? colour : "var(--lab-paper)"}` }, name.split(" ")[0]));
      }
      return box;
    }
    if (kind === "band" || kind === "area") {
      box.append(drawn("rect", { x: 1, y: 2, width: 28, height: 10, style: `fill: ${colour}; fill-opacity: 0.25` }));
    }
    if (kind !== "scatter") {
      box.append(drawn("path", { d: "M1,7H29", style: `stroke: ${colour}; stroke-width: ${set("line", "strokeWidth") || 2};
        stroke-dasharray: ${(set("line", "strokeDash") || []).join(" ") || "none"}` }));
    }
    const shape = set("symbol", "shape");
    if (shape) box.append(drawn("path", { d: SHAPES[shape], transform: "translate(15,7)", style: `fill: ${colour}` }));
    return box;
  }

  /* One chart, kept alive; `show` moves numbers into it. */
  class Chart {
    constructor(panel, lab) {
      this.panel = panel;
      this.lab = lab;
      this.place = element("div", { className: "lab-chart", role: "img" });
      this.text = element("p", { className: "lab-text" });
      const legend = element("ul", { className: "lab-legend", "aria-label": "Legend" },
        ...panel.series.map((series, i) => element("li", {}, swatch(panel, i), ` ${series.name}`)));
      this.figure = element("figure", { className: "lab-panel" },
        element("figcaption", { className: "lab-panel-title" }, panel.title), legend, this.place, this.text);
      this.view = null;
    }

    async start() {
      const spec = { ...this.panel.spec, width: this.room(), height: 220 };
      const options = { mode: "vega", renderer: "svg", actions: false, hover: false, defaultStyle: false, tooltip: false };
      this.view = (await labEmbed(this.place, spec, options)).view;
      new ResizeObserver(() => this.resize()).observe(this.figure);
    }

    room() {
      return Math.max(160, Math.floor(this.figure.clientWidth) - 2);
    }

    resize() {
      if (this.view.width() !== this.room()) this.view.width(this.room()).run();
    }

    /* Move the state into the chart; `row` holds indices from `at` on. Returns where the next panel's begin. */
    show(row, at) {
      const { strings, arrays, marks } = this.lab;
      const panel = this.panel;
      this.text.textContent = strings[row[at]];
      const lines = { vline: [], hline: [], point: [] };
      for (const [kind, x, y, label] of marks[row[at + 1]]) {
        lines[kind].push({ x, y, label: strings[label], i: lines[kind].length });
      }
      const [xdom, ydom] = [arrays[row[at + 2]], arrays[row[at + 3]]];
      this.view.signal("xdom", xdom).signal("ydom", ydom)
        .signal("xticks", panel.x.scale === "log" && !panel.categories ? logTicks(xdom) : null)
        .signal("yticks", panel.y.scale === "log" ? logTicks(ydom) : null);
      at += 4;
      let known = 0;
      panel.series.forEach((_, i) => {
        const [x, y, y2] = [0, 1, 2].map((k) => (row[at + 3 * i + k] < 0 ? null : arrays[row[at + 3 * i + k]]));
        const rows = x.map((value, k) => ({ x: value, y: y[k], y2: y2 ? y2[k] : null }));
        known += rows.filter((one) => one.y !== null).length;
        this.view.data(`d${i}`, rows);
      });
      this.view.signal("note", known ? "" : "no data");
      this.view.data("vlines", lines.vline).data("hlines", lines.hline).data("points", lines.point);
      this.view.run();
      this.place.setAttribute("aria-label", `Chart: ${panel.title}. ${this.text.textContent || (known ? "" : "No data.")}`);
      return at + 3 * panel.series.length;
    }
  }

  /* The state of every live lab of the page, in its address: #lab-id?rate=16&order=sjf;other-lab?... */
  const address = {
    read() {
      const settings = {};
      for (const part of location.hash.slice(1).split(";")) {
        const [id, query] = part.split("?");
        if (query) settings[decodeURIComponent(id)] = new URLSearchParams(query);
      }
      return settings;
    },
    write(id, query) {
      const rest = Object.entries(address.read()).filter(([other]) => other !== id).map(([other, q]) => `${other}?${q}`);
      const parts = query ? [`${id}?${query}`, ...rest] : rest;
      history.replaceState(null, "", parts.length ? `#${parts.join(";")}` : location.pathname + location.search);
    },
  };

  class Lab {
    constructor(root, data) {
      this.root = root;
      this.data = data;
      this.chosen = data.controls.map((control) => control.default);
      this.charts = data.panels.map((panel) => new Chart(panel, data));
      this.headline = element("p", { className: "lab-headline", role: "status", "aria-live": "polite" });
      this.inputs = data.controls.map((control, i) => this.input(control, i));
      const reset = element("button", { type: "button", onclick: () => this.reset() }, "Reset");
      const copy = element("button", { type: "button", onclick: () => this.copy(copy) }, "Copy link");
      this.body = element("div", { className: "lab-live" },
        ...(data.predict ? [this.prediction()] : []),
        element("div", { className: "lab-controls" }, ...this.inputs.map((one) => one.box), element("div", { className: "lab-buttons" }, reset, copy)),
        this.headline,
        element("div", { className: "lab-panels" }, ...this.charts.map((chart) => chart.figure)));
    }

    async start() {
      const still = this.root.querySelector(".lab-still");
      still.hidden = true;
      this.root.append(this.body);
      try {
        await Promise.all(this.charts.map((chart) => chart.start()));
      } catch (error) {
        this.body.remove();
        throw error;
      }
      this.follow(false);
      this.show();
      addEventListener("hashchange", () => this.follow(true));
      this.root.classList.add("lab-ready");
    }

    input(control, i) {
      const id = `${this.data.id}-${control.name}`;
      const label = element("label", { htmlFor: id }, control.label);
      if (control.choice) {
        const field = element("select", { id, oninput: () => this.choose(i, field.selectedIndex) },
          ...control.texts.map((text) => element("option", {}, text)));
        return { box: element("div", { className: "lab-control" }, label, field), set: (k) => { field.selectedIndex = k; } };
      }
      const output = element("output", { htmlFor: id });
      const field = element("input", { id, type: "range", min: 0, max: control.values.length - 1, step: 1,
        oninput: () => this.choose(i, Number(field.value)) });
      return {
        box: element("div", { className: "lab-control" }, element("div", { className: "lab-label" }, label, output), field),
        set: (k) => {
          field.value = k;
          output.textContent = control.texts[k];
          field.setAttribute("aria-valuetext", control.texts[k]);
        },
      };
    }

    /* The question comes first; a locked answer stays beside what happens. It never bars the way. */
    prediction() {
      const id = `${this.data.id}-prediction`;
      const answer = element("input", { id, type: "text", placeholder: "Your prediction", autocomplete: "off" });
      const lock = element("button", { type: "submit" }, "Lock it in");
      const form = element("form", { className: "lab-answer" }, answer, lock);
      const box = element("div", { className: "lab-predict" },
        element("label", { htmlFor: id }, element("strong", {}, "Predict first. "), this.data.predict), form);
      form.onsubmit = (event) => {
        event.preventDefault();
        if (!answer.value.trim()) return;
        form.replaceWith(element("p", { className: "lab-locked" }, `You predicted: ${answer.value.trim()}`));
      };
      return box;
    }

    choose(i, k) {
      this.chosen[i] = k;
      const { controls, id } = this.data;
      const query = new URLSearchParams(controls.map((control, j) => [control.name, control.values[this.chosen[j]]]));
      address.write(id, query.toString());
      const started = performance.now();
      this.show();
      this.root.dataset.redrawMs = (performance.now() - started).toFixed(1);
    }

    /* Take the setting from the address, if it has one for this lab. */
    follow(redraw) {
      const query = address.read()[this.data.id];
      if (!query) return;
      this.data.controls.forEach((control, i) => {
        const k = control.values.findIndex((value) => String(value) === query.get(control.name));
        if (k >= 0) this.chosen[i] = k;
      });
      if (redraw) this.show();
    }

    reset() {
      this.chosen = this.data.controls.map((control) => control.default);
      address.write(this.data.id, "");
      this.show();
    }

    async copy(button) {
      if (!address.read()[this.data.id]) this.choose(0, this.chosen[0]);
      try {
        await navigator.clipboard.writeText(location.href);
        button.textContent = "Copied";
      } catch {
        button.textContent = "The link is in the address bar";
      }
      setTimeout(() => { button.textContent = "Copy link"; }, 2500);
    }

    show() {
      const { controls, states, strings } = this.data;
      const index = controls.reduce((sum, control, i) => sum * control.values.length + this.chosen[i], 0);
      const row = states[index];
      this.inputs.forEach((input, i) => input.set(this.chosen[i]));
      this.headline.textContent = strings[row[0]];
      let at = 2;
      for (const chart of this.charts) at = chart.show(row, at);
      if (row[1] >= 0) this.body.setAttribute("aria-label", strings[row[1]]);
    }
  }

  async function bringToLife(root) {
    const { lab: id, version } = root.dataset;
    try {
      await Promise.all([load("vega-bundle.js"), load(`${id}.js`, version)]);
      addHatches();
      await new Lab(root, window.labData[id]).start();
    } catch (error) {
      root.querySelector(".lab-still").hidden = false;
      root.append(element("p", { className: "lab-problem", role: "note" },
        `The sliders of this lab are not available here (${error.message}); the picture shows its default setting.`));
      console.warn(error);
    }
  }

  function begin() {
    const asked = address.read();
    const near = new IntersectionObserver((entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        near.unobserve(target);
        bringToLife(target);
      }
    }, { rootMargin: "400px" });
    document.querySelectorAll(".lab[data-lab]").forEach((root) => {
      near.observe(root);
    });
    const first = Object.keys(asked).map((id) => document.getElementById(id)).find(Boolean);
    if (first) first.scrollIntoView();
  }

  if (document.readyState === "loading") addEventListener("DOMContentLoaded", begin);
  else begin();
})();
