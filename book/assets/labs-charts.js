/* One chart of a lab: a Vega view that stays alive, its legend, tip and table of numbers. Used by labs.js. */
window.labCharts = (function () {
  "use strict";

  function element(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value === true) made.setAttribute(key, "");
      else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
    }
    made.append(...children.filter((child) => child !== null));
    return made;
  }

  const SVG = "http://www.w3.org/2000/svg";
  function drawn(markup, width, height) {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
    svg.setAttribute("aria-hidden", "true");
    svg.setAttribute("focusable", "false");
    svg.innerHTML = markup;
    return svg;
  }

  function number(value) {
    if (value === null || value === undefined) return "no data";
    if (typeof value === "string") return value;
    return Number(value.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 });
  }

  // Hatches of bars; the chart library takes a fill by its address in the page.
  function hatches() {
    const tiles = {
      baseline: "M-1,6L6,-1M-1,1L1,-1M4,6L6,4", alt1: "M1.5,2.5h2", alt2: "M0,0L5,5M5,0L0,5", alt3: "M0,2.5h5", muted: "M2.5,0v5",
    };
    const patterns = Object.entries(tiles).map(([role, path]) =>
      `<pattern id="lab-hatch-${role}" width="5" height="5" patternUnits="userSpaceOnUse">` +
      `<rect width="5" height="5" fill="var(--lab-paper)"/><path d="${path}" stroke="var(--lab-${role})" fill="none"/></pattern>`);
    const svg = drawn(`<defs>${patterns.join("")}</defs>`, 0, 0);
    svg.classList.add("lab-hatches");
    document.body.append(svg);
  }

  // The sample of a series in legend and tip, as labcode/labkit/swatch.py drew it.
  function swatch(series, shapes) {
    const box = document.createElement("span");
    box.innerHTML = series.swatch[shapes && series.swatch.length > 1 ? 1 : 0];
    return box.firstElementChild;
  }

  // Ticks of a log axis: powers of ten, with 2 and 5 in between where there is room for little else.
  function logTicks([low, high], room) {
    const decades = Math.log10(high / low);
    const steps = decades * 3 <= room ? [1, 2, 5] : [1];
    const skip = Math.max(1, Math.ceil(decades / room));
    const ticks = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
      if (power % skip) continue;
      for (const step of steps) {
        const tick = Number((step * 10 ** power).toPrecision(1));
        if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
      }
    }
    return ticks.length > 1 ? ticks : null;
  }

  // ---- one chart -------------------------------------------------------------------------------------------------------
  class Chart {
    constructor(panel, lab) {
      this.panel = panel;
      this.lab = lab;
      const id = `${lab.id}-${panel.key}`.replace(/[^\w-]/g, "-");
      this.title = element("figcaption", { class: "lab-panel-title", id: `${id}-title` }, panel.title);
      this.legend = element("ul", { class: "lab-legend", "aria-label": "Legend" });
      this.plot = element("div", { class: "lab-chart", role: "img" });
      this.tip = element("div", { class: "lab-tip", hidden: true, "aria-hidden": "true" });
      this.text = element("p", { class: "lab-text" });
      this.numbers = element("details", { class: "lab-numbers" }, element("summary", {}, "Numbers"));
      this.numbers.addEventListener("toggle", () => this.tabulate());
      this.node = element("figure", { class: "lab-panel", "aria-labelledby": `${id}-title` }, this.title, this.legend,
        element("div", { class: "lab-frame" }, this.plot, this.tip), this.text, this.numbers);
      this.named = "";
    }

    async start() {
      // The library writes roles and names of its own into its drawing; the place around it has ours.
      const inner = element("div", { "aria-hidden": "true" });
      this.plot.append(inner);
      const size = { width: this.room(), height: this.height() };
      const options = { mode: "vega", renderer: "svg", actions: false, hover: false, defaultStyle: false, tooltip: false };
      this.view = (await window.labEmbed(inner, { ...this.panel.spec, ...size }, options)).view;
      this.width = size.width;
      this.plot.addEventListener("pointermove", (event) => this.point(event));
      this.plot.addEventListener("pointerdown", (event) => this.point(event));
      // A finger that lifts leaves its tip behind, until the next touch elsewhere.
      this.plot.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") this.leave(); });
      document.addEventListener("pointerdown", (event) => { if (!this.plot.contains(event.target) && !this.tip.hidden) this.leave(); });
      if (this.lab.links && this.lab.links(this)) this.listen();
    }

    // Where other panels show the same requests, steps or rates, arrow keys walk along the axis and mark each in all of them.
    listen() {
      this.plot.tabIndex = 0;
      this.plot.addEventListener("keydown", (event) => {
        const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (event.key === "Escape") this.leave();
        if (!way) return;
        event.preventDefault();
        const places = this.panel.categories || [...new Set(this.state.series.flatMap((series) => series.x))].sort((a, b) => a - b);
        const at = places.indexOf(this.marked);
        const next = places[Math.max(0, Math.min(places.length - 1, at < 0 ? (way > 0 ? 0 : places.length - 1) : at + way))];
        if (next === undefined) return;
        this.tell(next);
        this.lab.said(this.tip.hidden ? `${this.panel.x.title} ${next}` : [...this.tip.children].map((line) => line.textContent).join("; "));
      });
      this.plot.addEventListener("blur", () => this.leave());
    }

    leave() {
      this.tip.hidden = true;
      if (this.marked !== undefined && this.lab.mark) this.lab.mark(this, null);
      this.marked = undefined;
    }

    // Mark a place on the axis, or none (null); what lies off the axis is not drawn.
    link(x) {
      if (this.linkedTo === x) return;
      this.linkedTo = x;
      this.view.signal("linked", x).runAsync();
    }

    // The chart takes the room it is given: on a phone it is drawn anew, not shrunk.
    fit() {
      const width = this.room();
      if (this.width === width) return false;
      this.width = width;
      this.view.width(width).height(this.height());
      return true;
    }

    room() {
      return Math.max(200, Math.floor(this.plot.clientWidth));
    }

    height() {
      return this.plot.clientHeight; // The style sheet decides, for the still picture and for the live chart.
    }

    // Labels of limits and points that would lie over each other, or over a point, move up or down by a line.
    apart() {
      const where = (node) => (/translate\(([-\d.e]+)[ ,]+([-\d.e]+)\)/.exec(node.getAttribute("transform") || "") || []).slice(1).map(Number);
      const taken = [];
      for (const point of this.plot.querySelectorAll(".point-marks path")) {
        const [x, y] = where(point);
        if (x !== undefined) taken.push([x - 8, x + 8, y - 8, y + 8]);
      }
      const high = this.view.height();
      for (const label of this.plot.querySelectorAll('[class*="labels-"] text')) {
        const [x, y] = where(label), wide = label.textContent.length * 6.3;
        if (x === undefined || !wide) continue;
        const left = x - { start: 0, middle: wide / 2, end: wide }[label.getAttribute("text-anchor") || "start"];
        const free = (shift) => y + shift > 6 && y + shift < high + 4 && !taken.some(([a, b, c, d]) => left < b && left + wide > a && y + shift - 9 < d && y + shift + 3 > c);
        const shift = [0, 13, -13, 26, -26, 39, -39].find(free) || 0;
        label.setAttribute("dy", shift);
        taken.push([left, left + wide, y + shift - 9, y + shift + 3]);
      }
    }

    show(state) {
      this.state = state;
      const { panel, view } = this;
      const rows = { vlines: [], hlines: [], points: [] };
      for (const [kind, x, y, label] of state.marks) {
        const list = rows[kind + "s"];
        list.push({ x, y, label, i: list.length });
      }
      for (const name in rows) view.data(name, rows[name]);
      let any = false;
      state.series.forEach(function (series, i) {
        const values = series.x.map((x, j) => ({ x, y: series.y[j], y2: series.y2 ? series.y2[j] : null }));
        any = any || series.y.some((y) => y !== null);
        view.data("d" + i, values);
      });
      this.rescale(state);
      view.signal("note", any ? "" : "no data").signal("linked", null);
      this.linkedTo = this.marked = undefined;
      this.ticks();
      this.text.textContent = state.text;
      this.plot.setAttribute("aria-label", `${panel.title}. ${panel.y.label} against ${panel.x.label}. ${state.text}`);
      this.name(state);
      this.tip.hidden = true;
      if (this.numbers.open) this.tabulate();
    }

    // New ranges come gently, unless the reader wants no motion; `rescaled` says whether they are new.
    rescale({ xdom, ydom }) {
      const { view, panel } = this, before = this.range;
      this.range = { xdom, ydom };
      cancelAnimationFrame(this.easing);
      const moved = (name) => Boolean(before) && !(name === "xdom" && panel.categories) && String(before[name]) !== String(this.range[name]);
      this.rescaled = ["xdom", "ydom"].filter(moved);
      const now = this.rescaled.length && !window.matchMedia("(prefers-reduced-motion: reduce)").matches ? { xdom: view.signal("xdom"), ydom: view.signal("ydom") } : null;
      if (!now) { view.signal("xdom", xdom).signal("ydom", ydom); return; }
      const between = (scale, from, to, part) => from.map((value, i) => (scale === "log" ? value * (to[i] / value) ** part : value + (to[i] - value) * part));
      for (const name of ["xdom", "ydom"]) if (!this.rescaled.includes(name)) view.signal(name, this.range[name]);
      const since = performance.now();
      const step = (time) => {
        const part = Math.min(1, Math.max(0, (time - since) / 260)), soft = part * part * (3 - 2 * part);
        for (const name of this.rescaled) view.signal(name, part < 1 ? between(panel[name[0]].scale, now[name], this.range[name], soft) : this.range[name]);
        view.runAsync().then(() => { if (part === 1) this.apart(); });
        if (part < 1) this.easing = requestAnimationFrame(step);
      };
      this.easing = requestAnimationFrame(step);
    }

    // What has become of the axes, in words; "" if nothing has.
    newScale() {
      const end = (name) => number(this.range[name][1]), axis = { xdom: this.panel.x, ydom: this.panel.y };
      return this.rescaled.map((name) => `${axis[name].title} now up to ${end(name)} ${axis[name].unit}`.trim()).join(", ");
    }

    // The series "ours" of a pinned setting, dotted; null takes them away.
    pin(state) {
      this.panel.series.forEach((series, i) => {
        if (series.role !== "ours" || series.kind === "cells") return;
        const held = state ? state.series[i] : null;
        const rows = held ? held.x.map((x, j) => ({ x, y: held.y[j], y2: held.y2 ? held.y2[j] : null })) : [];
        this.view.data("p" + i, rows.filter((row) => row.y !== null || series.kind !== "bar"));
      });
    }

    ticks() {
      const { panel, view, state } = this;
      if (panel.x.scale === "log") view.signal("xticks", logTicks(state.xdom, this.width / 45));
      if (panel.y.scale === "log") view.signal("yticks", logTicks(state.ydom, 8));
    }

    name(state) {
      const entries = this.panel.series.map((series, i) => ({
        ...series, shapes: series.kind === "line" && state.series[i].x.length <= 16 && state.series[i].x.length > 0,
        none: series.kind !== "cells" && !state.series[i].y.some((y) => y !== null) }));
      const key = JSON.stringify(entries);
      if (key === this.named) return;
      this.named = key;
      this.legend.replaceChildren(...entries.map((entry) =>
        element("li", entry.none ? { class: "lab-none" } : {}, swatch(entry, entry.shapes), entry.name + (entry.none ? " (no data)" : ""))));
    }

    // Values nearest to the pointer.
    point(event) {
      const { panel, view, state } = this;
      const box = this.plot.getBoundingClientRect(), origin = view.origin();
      const at = event.clientX - box.left - origin[0], inside = view.width();
      if (at < -4 || at > inside + 4) { this.leave(); return; }
      const centre = (x, other) => this.centre(x, other);
      let best = null, gap = Infinity;
      state.series.forEach(function (series, i) {
        const numeric = panel.series[i].kind === "bar" && !panel.categories;
        series.x.forEach(function (x, j) {
          const px = centre(x, numeric ? series.y2[j] : null), away = Math.abs(px - at);
          if (away < gap) { gap = away; best = { x: numeric ? (x + series.y2[j]) / 2 : x, px }; }
        });
      });
      if (best) this.tell(best.x, best.px);
    }

    centre(x, other) {
      const scale = this.view.scale("x");
      return scale.bandwidth ? scale(x) + scale.bandwidth() / 2 : scale(other === null || other === undefined ? x : (x + other) / 2);
    }

    // The values of every series at a place on the axis, beside it; the same place is marked in the panels that share it.
    tell(x, px = this.centre(x)) {
      const { panel, view, state } = this, best = { x, px }, origin = view.origin(), inside = view.width();
      const centre = (x, other) => this.centre(x, other);
      if (this.marked !== x && this.lab.mark) this.lab.mark(this, x);
      this.marked = x;
      if (panel.series.every((series) => series.kind === "cells")) return; // Their letters say it all.
      const lines = [element("div", { class: "lab-tip-x" }, panel.categories ? best.x : `${panel.x.title}: ${number(best.x)} ${panel.x.unit}`)];
      state.series.forEach(function (series, i) {
        const kind = panel.series[i].kind, numeric = kind === "bar" && !panel.categories;
        let near = -1, distance = Infinity;
        series.x.forEach(function (x, j) {
          const px = centre(x, numeric ? series.y2[j] : null);
          const away = kind === "step" ? (px <= best.px + 1e-6 ? best.px - px : Infinity) : Math.abs(px - best.px);
          if (away < distance) { distance = away; near = j; }
        });
        if (near < 0 || series.y[near] === null || (kind !== "step" && distance > Math.max(14, inside / 12))) return;
        const value = kind === "band" ? `${number(Math.min(series.y[near], series.y2[near]))} to ${number(Math.max(series.y[near], series.y2[near]))}` : number(series.y[near]);
        lines.push(element("div", {}, swatch(panel.series[i]), `${panel.series[i].name}: ${value} ${panel.y.unit}`));
      });
      this.tip.replaceChildren(...lines);
      this.tip.hidden = false;
      const room = this.plot.clientWidth, left = origin[0] + best.px;
      const wide = this.tip.offsetWidth;
      this.tip.style.left = `${Math.max(0, Math.min(room - wide, left + (left > room / 2 ? -wide - 12 : 12)))}px`;
      this.tip.style.top = `${origin[1] + 4}px`;
    }

    // The chart as a table, for those who want digits or cannot see curves.
    tabulate() {
      if (!this.numbers.open || !this.state) return;
      const { panel, state } = this;
      const table = element("table", {}, element("thead", {}, element("tr", {}, ...["Series", panel.x.label, panel.y.label].map((name) =>
        element("th", { scope: "col" }, name)))));
      const body = element("tbody");
      state.series.forEach(function (series, i) {
        const kind = panel.series[i].kind, numeric = kind === "bar" && !panel.categories;
        series.x.forEach(function (x, j) {
          const value = kind === "band" ? `${number(series.y[j])} to ${number(series.y2[j])}` : number(series.y[j]);
          body.append(element("tr", {}, element("td", {}, panel.series[i].name),
            element("td", {}, number(numeric ? (x + series.y2[j]) / 2 : x)), element("td", {}, value)));
        });
      });
      table.append(body);
      const box = element("div", { class: "lab-table", tabindex: "0", role: "region", "aria-label": `Numbers of ${panel.title}` }, table);
      this.numbers.replaceChildren(this.numbers.firstElementChild, box);
    }
  }

  return { Chart, element, hatches };
})();
