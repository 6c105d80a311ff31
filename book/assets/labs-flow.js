/* Runs that move: requests from the queue into seats and out, several engines under one clock. Used by labs.js.
 *
 * `frame` is labcode.labkit.flow_picture.frame in this language: the same state gives the same markup, and a test holds both to that.
 */
window.labFlow = (function () {
  "use strict";
  const { element } = window.labCharts;
  const TICK = 1e4; // Times are whole numbers of a ten-thousandth of a second.
  const WIDE = 4200, LEFT = 1000, ROW = 220, LABEL = 150, CELLS_IN_ROW = 48, MOST_WAITING = 8, MOST_SEATS = 16;
  const NAMES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;" };
  const escape = (text) => text.replace(/[&<>"']/g, (c) => NAMES[c]);
  const colour = (name) => `var(--lab-${name})`;

  function decode(flow) {
    const lanes = flow.lanes.map(function (lane) {
      let at = 0;
      const steps = lane.steps.map((gap) => (at += gap));
      const lives = lane.lives.map(function ([arrival, admitted, left, prompt, held, seat, runs, several = [], parts = []]) {
        const tokens = [];
        for (let k = 0; k < runs.length; k += 2) for (let i = 0; i < runs[k + 1]; i++) tokens.push(steps[runs[k] + i] / TICK);
        const stays = several.length ? several : [[admitted, left, seat]];
        return { arrival: arrival / TICK, admitted: admitted / TICK, left: left / TICK, prompt, held, tokens,
          stays: stays.map(([start, end, place]) => ({ start: start / TICK, end: end / TICK, seat: place })),
          chunks: parts.map(([at, count]) => [at / TICK, count]) };
      });
      return { ...lane, lives };
    });
    const all = lanes.flatMap((lane) => lane.lives);
    const events = [...new Set(all.flatMap((v) => [v.arrival, v.left, ...v.tokens, ...v.stays.flatMap((stay) => [stay.start, stay.end]), ...v.chunks.map(([at]) => at)]))].sort((a, b) => a - b);
    return { title: flow.title, still: flow.still / TICK, lanes, events, end: Math.max(...all.map((v) => v.left)), longest: Math.max(...all.map((v) => v.tokens.length)) };
  }

  // How many of ascending numbers are not above t.
  function upTo(values, t) {
    let low = 0, high = values.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] <= t) low = middle + 1; else high = middle;
    }
    return low;
  }

  // Where a request sits at a time, if it does.
  const stayAt = (life, t) => life.stays.find((stay) => stay.start <= t && t < stay.end);

  function counts(lane, t) {
    let waiting = 0, seated = 0, idle = 0, gone = 0, tokens = 0;
    for (const life of lane.lives) {
      tokens += upTo(life.tokens, t);
      if (life.left <= t) gone++;
      else if (stayAt(life, t)) { seated++; if (life.tokens[life.tokens.length - 1] <= t) idle++; }
      else if (life.arrival <= t) waiting++;
    }
    return { waiting, running: seated - idle, idle, gone, tokens };
  }

  function sentence(lane, t) {
    const { waiting, running, idle, gone, tokens } = counts(lane, t);
    const still = idle ? `, ${idle} finished and still seated` : "";
    return `${lane.name}: ${waiting} waiting, ${running} running${still}, ${gone} of ${lane.lives.length} gone, ${tokens} tokens.`;
  }

  const rowsOf = (lane) => Math.min(Math.max(lane.seats, 4), MOST_SEATS);
  const height = (lane) => 260 + rowsOf(lane) * ROW + 120 + 170 + Math.ceil(lane.blocks / CELLS_IN_ROW) * 110 + 240;

  // `slide` seconds after a change what moved is still on its way; 0 shows it in its place.
  function frame(lane, t, longest, slide = 0) {
    const [ours, alt1, base, muted, ink, quiet, paper, axis] = ["ours", "alt1", "baseline", "muted", "ink", "quiet", "paper", "axis"].map(colour);
    const { waiting, running, idle, gone } = counts(lane, t);
    let out = "";
    const text = (x, y, words, fill, more = "") => { out += `<text x="${x}" y="${y}" fill="${fill}"${more}>${escape(words)}</text>`; };
    const rect = (x, y, w, h, fill, stroke) => { out += `<rect x="${x}" y="${y}" width="${w}" height="${h}" fill="${fill}" stroke="${stroke}" stroke-width="10"/>`; };
    const rows = rowsOf(lane), drawnSeats = Math.min(lane.seats, MOST_SEATS);
    text(0, LABEL - 30, lane.name, ink, ' font-weight="700"');
    text(0, 2 * LABEL - 40, `waiting ${waiting}`, quiet);
    text(LEFT, 2 * LABEL - 40, `seats ${running} of ${lane.seats}` + (idle ? `, ${idle} finished but taken` : "") + (drawnSeats < lane.seats ? `; the first ${drawnSeats} are drawn` : ""), quiet);
    const top = 300;
    const queue = lane.lives.map((life, i) => i).filter((i) => lane.lives[i].arrival <= t && t < lane.lives[i].left && !stayAt(lane.lives[i], t));
    const shown = queue.slice(0, Math.min(rows, MOST_WAITING));
    shown.forEach(function (i, k) {
      rect(0, top + k * ROW, 420, ROW - 50, paper, lane.lives[i].admitted <= t ? base : muted);
      text(210, top + k * ROW + 130, String(i + 1), ink, ' text-anchor="middle"');
    });
    if (queue.length > shown.length) text(480, top + (shown.length - 1) * ROW + 130, `+${queue.length - shown.length}`, quiet);
    const room = WIDE - LEFT - 340, step = Math.floor(room / longest), gap = Math.max(1, Math.floor(step / 8));
    for (let k = 0; k < drawnSeats; k++) rect(LEFT, top + k * ROW, WIDE - LEFT - 10, ROW - 50, "none", axis);
    const cells = [];
    const seated = [];
    lane.lives.forEach(function (life, i) {
      const stay = stayAt(life, t), last = life.stays[life.stays.length - 1];
      if (stay) seated.push([stay, i, false]);
      else if (slide > 0 && life.left <= t && t < life.left + slide) seated.push([last, i, true]);
    });
    seated.sort((a, b) => a[0].seat - b[0].seat || a[1] - b[1]);
    for (const [stay, i, leaving] of seated) {
      const life = lane.lives[i], { seat } = stay;
      const y = top + seat * ROW, made = upTo(life.tokens, t), over = made === life.tokens.length;
      const fresh = made > 0 && life.tokens[made - 1] > stay.start;
      const part = life.chunks.reduce((most, [at, count]) => (stay.start < at && at <= t ? Math.max(most, count) : most), 0);
      const look = over ? base : fresh ? ours : alt1;
      if (seat < drawnSeats) {
        const way = leaving ? (t - life.left) / slide : slide > 0 && t < stay.start + slide ? (stay.start + slide - t) / slide : 0;
        if (way) out += `<g transform="translate(${Math.round(way * way * (leaving ? 1200 : -LEFT))} 0)" opacity="${(1 - way * 0.8).toFixed(2)}">`;
        if (part && !fresh) {
          rect(LEFT, y, 330, ROW - 50, paper, look);
          rect(LEFT, y, Math.min(330, Math.floor((330 * part) / (life.prompt + made))), ROW - 50, look, look);
          text(LEFT + 165, y + 130, String(i + 1), ink, ' text-anchor="middle" font-weight="700"');
        } else {
          rect(LEFT, y, 330, ROW - 50, look, look);
          text(LEFT + 165, y + 130, String(i + 1), paper, ' text-anchor="middle" font-weight="700"');
        }
        const middle = y + Math.floor((ROW - 50) / 2), dash = step >= 4 ? ` stroke-dasharray="${step - gap} ${gap}"` : "";
        for (const [count, stroke, wide, opacity] of [[life.tokens.length, muted, 60, 0.5], [made, look, 130, 1]]) {
          if (count) out += `<path d="M${LEFT + 340} ${middle}h${step >= 4 ? count * step : Math.floor((room * count) / longest)}" stroke="${stroke}" stroke-width="${wide}"${dash} opacity="${opacity}"/>`;
        }
        if (way) out += "</g>";
      }
      if (leaving) continue;
      const known = life.prompt + made;
      let written = fresh ? known : part;
      if (life.held) written = Math.min(life.held, written);
      const full = Math.ceil(written / lane.block), taken = Math.ceil((life.held || known) / lane.block);
      for (let place = 0; place < taken; place++) cells.push([seat, place < full]);
    }
    let y = top + rows * ROW + 60;
    const used = cells.filter(([, full]) => full).length;
    text(0, y + 60, `KV cache: ${used} of ${lane.blocks} blocks written, ${cells.length} taken`, quiet);
    y += 110;
    const side = Math.floor(WIDE / CELLS_IN_ROW);
    const looks = [[ours, ours], [alt1, alt1], [paper, ours], [paper, alt1], ["none", axis]], drawn = ["", "", "", "", ""];
    for (let k = 0; k < lane.blocks; k++) {
      const x = side * (k % CELLS_IN_ROW), down = y + 110 * Math.floor(k / CELLS_IN_ROW);
      drawn[k < cells.length ? (cells[k][1] ? 0 : 2) + cells[k][0] % 2 : 4] += `M${x} ${down}h${side - 14}v96h-${side - 14}z`;
    }
    looks.forEach(([fill, stroke], i) => { if (drawn[i]) out += `<path d="${drawn[i]}" fill="${fill}" stroke="${stroke}" stroke-width="10"/>`; });
    y += 110 * Math.ceil(lane.blocks / CELLS_IN_ROW) + 130;
    text(0, y, `gone ${gone} of ${lane.lives.length}`, quiet);
    const wide = Math.floor((WIDE - LEFT) / lane.lives.length);
    for (let k = 0; k < lane.lives.length; k++) rect(LEFT + k * wide, y - 90, Math.max(1, wide - Math.min(20, Math.floor(wide / 3))), 100, k < gone ? ours : "none", k < gone ? ours : axis);
    return out;
  }

  const SLOWER = [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200];
  const still = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;

  // Play, pause, step, speed and clock over the lanes of a flow.
  class Player {
    constructor(title, legend, id) {
      this.play = element("button", { type: "button", class: "lab-button lab-play" }, "Play");
      this.back = element("button", { type: "button", class: "lab-button", title: "One event back" }, "‹ Back");
      this.next = element("button", { type: "button", class: "lab-button", title: "One event on" }, "Next ›");
      this.range = element("input", { type: "range", min: 0, step: 1, class: "lab-clock", "aria-label": "Time" });
      this.clock = element("output", { class: "lab-time" });
      this.speed = element("select", { id: `${id}-speed`, "aria-label": "Speed" }, ...SLOWER.map((n) => element("option", { value: n }, n === 1 ? "real time" : n > 1 ? `${n} × slower` : `${1 / n} × faster`)));
      this.text = element("p", { class: "lab-text" });
      this.lanes = element("div", { class: "lab-lanes" });
      const bar = element("div", { class: "lab-player", role: "group", "aria-label": "Playback" }, this.play, this.back, this.next, this.range, this.clock, this.speed);
      const names = element("ul", { class: "lab-legend" });
      names.innerHTML = legend;
      this.node = element("figure", { class: "lab-panel lab-flow" }, element("figcaption", { class: "lab-panel-title" }, title), names, this.lanes, bar, this.text);
      this.play.addEventListener("click", () => (this.playing ? this.pause() : this.start()));
      this.back.addEventListener("click", () => this.step(-1));
      this.next.addEventListener("click", () => this.step(1));
      this.range.addEventListener("input", () => { const t = Number(this.range.value) / TICK; this.pause(); this.go(t); });
      this.playing = false;
      this.t = 0;
    }

    show(flow) {
      if (this.raw === flow) return;
      const fresh = this.raw === undefined;
      this.raw = flow;
      this.flow = decode(flow);
      this.lanes.replaceChildren(...this.flow.lanes.map(function (lane) {
        const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
        svg.setAttribute("class", "lab-lane");
        svg.setAttribute("viewBox", `0 0 ${WIDE} ${height(lane)}`);
        svg.setAttribute("role", "img");
        return svg;
      }));
      this.range.max = Math.ceil(this.flow.end * TICK);
      const wanted = 20 / this.flow.end; // About twenty seconds to watch.
      this.speed.value = SLOWER.reduce((best, n) => (Math.abs(Math.log(n / wanted)) < Math.abs(Math.log(best / wanted)) ? n : best), 1);
      this.play.hidden = still();
      this.go(fresh ? this.flow.still : this.playing ? 0 : Math.min(this.t, this.flow.end));
    }

    go(t, slide = 0) {
      this.t = Math.max(0, Math.min(this.flow.end, t));
      this.range.value = Math.round(this.t * TICK);
      const words = `${(1000 * this.t).toFixed(0)} ms`;
      this.clock.textContent = words;
      this.range.setAttribute("aria-valuetext", words);
      const said = this.flow.lanes.map((lane) => sentence(lane, this.t));
      this.flow.lanes.forEach((lane, i) => {
        const svg = this.lanes.children[i];
        svg.innerHTML = frame(lane, this.t, this.flow.longest, slide);
        svg.setAttribute("aria-label", said[i]);
      });
      this.text.textContent = said.join(" ");
      if (this.marked) this.mark(this.marked);
      if (this.hear) this.hear(this.t);
    }

    // Frame a request, by its number from 1, wherever it stands; null frames none.
    mark(number) {
      this.marked = number;
      for (const text of this.lanes.querySelectorAll("text")) {
        const box = text.previousElementSibling;
        if (box && box.tagName === "rect" && text.getAttribute("text-anchor") === "middle") box.classList.toggle("lab-marked", text.textContent === String(number));
      }
    }

    start() {
      if (still() || this.playing) return;
      if (this.t >= this.flow.end) this.t = 0;
      this.playing = true;
      this.play.textContent = "Pause";
      this.text.removeAttribute("aria-live");
      let before = performance.now();
      const tick = (now) => {
        if (!this.playing) return;
        const slower = Number(this.speed.value);
        this.go(this.t + (now - before) / 1000 / slower, 0.35 / slower);
        before = now;
        if (this.t >= this.flow.end) this.pause(); else requestAnimationFrame(tick);
      };
      requestAnimationFrame(tick);
    }

    pause() {
      this.playing = false;
      this.play.textContent = "Play";
      this.text.setAttribute("aria-live", "polite");
      if (this.flow) this.go(this.t);
    }

    step(way) {
      this.pause();
      const { events } = this.flow, at = upTo(events, this.t);
      if (way > 0) this.go(at < events.length ? events[at] : this.flow.end);
      else this.go(events[Math.max(0, at - (events[at - 1] === this.t ? 2 : 1))]);
    }
  }

  return { Player, decode, frame, sentence };
})();
