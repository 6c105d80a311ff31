/* The playground: any workload and any policies, served in the page by the book's own scheduler.
 *
 * The scheduler runs as Python in a worker (labs/playground-engine.js, made by labcode.course.playground.bundle), so that the page never
 * stands still and a run can be stopped. Nothing is asked of any server.
 */
(function () {
  "use strict";
  const place = document.querySelector(".playground");
  if (!place) return;
  const base = document.currentScript.src.replace(/[^/]*$/, "");
  const { Chart, element, hatches } = window.labCharts;
  const { Player } = window.labFlow;
  const { NAMES, summary, starved, charts, lane } = window.playgroundNumbers;
  const PATIENCE = Number(place.dataset.patience || 10) * 1e3; // ms without a word from a reader's function, after which it is ended.
  const FUNCTION = "def order(request):\n    # Smaller comes first. A request has arrival, prompt, tenant, id,\n    # and expected: the tokens that a predictor counts on.\n    return request.arrival\n";
  const LIST = "# arrival (s)  prompt  output (tokens)  tenant (optional)\n0.0  400  300  ann\n0.0  300  250  ann\n0.1  350  280  ann\n0.2   60   20  ben\n0.3  380  300  ann\n0.4   50   15  ben\n";

  // ---- fields ----------------------------------------------------------------------------------------------------------
  const whole = (least, most) => ({ check: (v) => Number.isInteger(v) && v >= least && v <= most, allowed: `a whole number from ${least} to ${most.toLocaleString("en")} is needed` });
  const above = (least, most, with0) => ({ check: (v) => Number.isFinite(v) && (with0 ? v >= least : v > least) && v <= most, allowed: `a number ${with0 ? "of at least" : "above"} ${least}, at most ${most.toLocaleString("en")}, is needed` });
  const choice = (...texts) => ({ choices: texts });
  const ARRIVALS = [["poisson", "at random (Poisson)"], ["deterministic", "evenly spaced"]];
  const drawnOnly = (s) => s.workload !== "own";
  const FIELDS = [
    ["workload", "Workload", "chat", choice(["chat", "chat"], ["long_context", "long context"], ["orca_paper", "Orca's"], ["azure_conv", "Azure, conversation"], ["azure_code", "Azure, code"], ["fixed", "all alike"], ["own", "my own list"]), "load"],
    ["n", "Requests", 100, whole(1, 400), "load", drawnOnly],
    ["rate", "Rate, requests/s", 16, above(0, 10_000), "load", drawnOnly],
    ["seed", "Seed", 0, whole(0, 4_294_967_295), "load", drawnOnly],
    ["arrivals", "Arrivals", "poisson", choice(...ARRIVALS), "load", drawnOnly],
    ["prompt", "Prompt, tokens", 512, whole(1, 100_000), "load", (s) => s.workload === "fixed"],
    ["output", "Output, tokens", 128, whole(1, 100_000), "load", (s) => s.workload === "fixed"],
    ["requests", "My requests, one a line: arrival prompt output", LIST, { lines: 7 }, "load", (s) => s.workload === "own"],
    ["max_bs", "Seats (max_bs)", 64, whole(1, 4096), "engine"],
    ["memory", "Memory", "paged", choice(["max", "reserve a maximum"], ["paged", "pages"], ["declared", "reserve what is declared"], ["oracle", "reserve what is needed (oracle)"], ["pow2", "reserve a power of two"], ["unlimited", "unlimited"]), "engine"],
    ["memory_tokens", "Tokens (reserved, or a page)", 16, whole(1, 131_072), "engine", (s) => s.memory === "max" || s.memory === "paged"],
    ["watermark", "Watermark, share kept free", 0, above(0, 0.9, true), "engine", (s) => s.memory === "paged"],
    ["order", "Order of the queue", "fcfs", choice(["fcfs", "first come, first served"], ["sjf", "shortest predicted first"], ["drr", "deficit round robin"], ["vtc", "virtual token counter"], ["own", "my own function"]), "engine"],
    ["sigma", "Error of the prediction, σ", 0, above(0, 10, true), "engine", (s) => s.order === "sjf"],
    ["quantum", "Quantum, tokens", 512, above(0, 1_000_000), "engine", (s) => s.order === "drr"],
    ["prefill", "Prefill", "mixed", choice(["mixed", "mixed with decodes"], ["prefill_first", "prefill first"], ["chunked", "in chunks"]), "engine"],
    ["token_budget", "Token budget of a step (empty: none)", null, { ...whole(1, 1_000_000), empty: true }, "engine"],
    ["gpu", "GPU", "h100", choice(...["h100", "h200", "b200", "mi300x", "a100-40", "a100-80", "l4", "l40s"].map((name) => [name, name])), "engine"],
    ["model", "Model", "llama3-8b", choice(...["llama3-8b", "llama3.1-8b", "llama2-7b", "qwen3-8b", "gpt3-13b"].map((name) => [name, name])), "engine"],
    ["ttft", "TTFT limit, s", 1, above(0, 10_000), "goal"],
    ["tpot", "TPOT limit, s", 0.05, above(0, 10_000), "goal"],
    ["code", "My function", FUNCTION, { lines: 7, code: true }, "code", (s) => s.order === "own"],
  ].map(([name, label, preset, rule, group, when]) => ({ name, label, preset, rule, group, when: when || (() => true) }));

  function fieldNode(field) {
    const id = `playground-${field.name}`, { rule } = field;
    const note = element("span", { class: "playground-wrong", id: `${id}-wrong`, hidden: true });
    let input;
    if (rule.choices) input = element("select", { id, name: field.name }, ...rule.choices.map(([value, text]) => element("option", { value }, text)));
    else if (rule.lines) input = element("textarea", { id, name: field.name, rows: rule.lines, spellcheck: "false", class: "playground-text" });
    else input = element("input", { id, name: field.name, type: "text", inputmode: "decimal", autocomplete: "off" });
    input.setAttribute("aria-describedby", note.id);
    const node = element("div", { class: `lab-control playground-field${rule.lines ? " playground-long" : ""}` }, element("label", { for: id }, field.label), input, note);
    return { ...field, input, note, node };
  }

  const python = (value) => (value === null ? "None" : JSON.stringify(value));
  // A setting as Python reads it.
  const literal = (settings) => `{${Object.entries(settings).map(([name, value]) => `${JSON.stringify(name)}: ${python(value)}`).join(", ")}}`;

  // The call with the same result.
  function pythonCall(s) {
    const lines = ["from labcode import SLO, simulate, workload", ""];
    if (s.workload === "own") {
      const rows = s.requests.split("\n").map((line) => line.split("#")[0].replace(/,/g, " ").trim().split(/\s+/)).filter((words) => words[0]);
      const column = (k) => `    [${rows.map((words) => Number(words[k])).join(", ")}],`;
      lines.push("load = workload.from_arrays(", column(0), column(1), column(2));
      if (rows.some((words) => words.length > 3)) lines.push(`    tenant=${python(rows.map((words) => words[3]))},`);
      lines.push(")");
    } else {
      const lengths = s.workload === "fixed" ? `prompt=${s.prompt}, output=${s.output}, ` : "";
      lines.push(`load = workload.${s.workload}(n=${s.n}, rate=${s.rate}, ${lengths}seed=${s.seed}, arrivals="${s.arrivals}")`);
    }
    let order = python(s.order);
    if (s.order === "own") { lines.push("", "import math", s.code.trimEnd(), ""); order = "order"; }
    else if (s.order === "sjf" && s.sigma) order = `"sjf:${s.sigma}"`;
    else if (s.order === "drr") order = `"drr:${s.quantum}"`;
    const memory = s.memory === "max" || s.memory === "paged" ? `${s.memory}:${s.memory_tokens}` : s.memory;
    const given = [`model="${s.model}"`, `gpu="${s.gpu}"`, `max_bs=${s.max_bs}`, `memory="${memory}"`];
    if (s.memory === "paged" && s.watermark) given.push(`watermark=${s.watermark}`);
    given.push(`order=${order}`, `prefill="${s.prefill}"`);
    if (s.token_budget !== null) given.push(`token_budget=${s.token_budget}`);
    lines.push(`run = simulate(load, ${given.join(", ")})`, `run.summary(SLO(ttft=${s.ttft}, tpot=${s.tpot})).table()`);
    return lines.join("\n") + "\n";
  }

  // ---- the engine ------------------------------------------------------------------------------------------------------
  const loads = {};
  function load(path) {
    return loads[path] || (loads[path] = new Promise(function (resolve, reject) {
      const script = element("script", { src: base + path });
      script.onload = resolve;
      script.onerror = () => { delete loads[path]; reject(new Error(`cannot load ${path}`)); };
      document.head.append(script);
    }));
  }

  class Stopped extends Error {}

  class Engine {
    // Start a worker ahead of the first run.
    async wake() {
      await load("labs/playground-engine.js");
      if (this.worker) return;
      this.address = this.address || URL.createObjectURL(new Blob([window.playgroundEngine], { type: "text/javascript" }));
      this.worker = new Worker(this.address);
      this.worker.onmessage = ({ data }) => { if (this.hear) this.hear(data); };
      this.worker.onerror = (event) => { event.preventDefault(); this.end(new Error(event.message || "the engine could not be started")); };
    }

    // Serve a setting; `said` hears how far it is. A reader's own code that says nothing for too long is ended.
    async run(settings, said) {
      await this.wake();
      return new Promise((resolve, reject) => {
        const watch = () => {
          clearTimeout(this.watch);
          if (settings.order === "own") this.watch = setTimeout(() => this.end(new Error(`order: your function has not come back for ${PATIENCE / 1e3} s, and was ended. Does a loop in it never stop?`)), PATIENCE);
        };
        this.fail = reject;
        this.hear = (data) => {
          if (data.kind === "started") watch();
          if (data.kind === "progress") { watch(); said(data.time, data.done); }
          if (data.kind === "broken") this.end(new Error(data.text));
          if (data.kind !== "result") return;
          clearTimeout(this.watch);
          this.fail = this.hear = null;
          const answer = JSON.parse(data.text);
          if (answer.error) reject(Object.assign(new Error(answer.error), { line: answer.line }));
          else resolve(answer);
        };
        this.worker.postMessage(literal(settings));
      });
    }

    end(error) {
      clearTimeout(this.watch);
      if (this.worker) this.worker.terminate();
      const fail = this.fail;
      this.worker = this.fail = this.hear = null;
      if (fail) fail(error);
    }
  }

  // ---- the page --------------------------------------------------------------------------------------------------------
  const seconds = (value) => (value === null ? "no data" : value < 1 ? `${(1e3 * value).toPrecision(3)} ms` : `${value.toPrecision(4)} s`);
  const perSecond = (value) => (value === null ? "no data" : `${Number(value.toPrecision(3)).toLocaleString("en")}/s`);
  const ROWS = [
    ["Finished", (s) => `${s.counts[0]} of ${s.submitted}`],
    ["Within both limits", (s) => `${(100 * s.slo_of_submitted).toFixed(1)} %`], ["Goodput", (s) => perSecond(s.goodput_per_s)],
    ["Output tokens", (s) => perSecond(s.output_tokens_per_s)],
    ["TTFT, median", (s) => seconds(s.ttft_p50_s)], ["TTFT, 99 %", (s) => seconds(s.ttft_p99_s)],
    ["TPOT, median", (s) => seconds(s.tpot_p50_s)], ["TPOT, 99 %", (s) => seconds(s.tpot_p99_s)],
    ["Gap between tokens, 99 %", (s) => seconds(s.itl_p99_s)], ["Longest gap", (s) => seconds(s.itl_max_s)],
    ["Longest wait for a seat", (s) => seconds(s.waited_max_s)],
    ["Preemptions", (s) => String(s.preemptions)], ["Tokens recomputed", (s) => String(s.recomputed_tokens)],
  ];

  function table(head, rows) {
    const line = (cells, name) => element("tr", {}, ...cells.map((cell, i) => element(i || name === "th" ? name : "th", i ? {} : { scope: name === "th" ? "col" : "row" }, cell)));
    return element("table", {}, element("thead", {}, line(head, "th")), element("tbody", {}, ...rows.map((cells) => line(cells, "td"))));
  }

  const fields = FIELDS.map(fieldNode), byName = Object.fromEntries(fields.map((field) => [field.name, field]));
  const engine = new Engine();
  const run = element("button", { type: "submit", class: "lab-button playground-run" }, "Run");
  const stop = element("button", { type: "button", class: "lab-button", disabled: true }, "Stop");
  const reset = element("button", { type: "button", class: "lab-button" }, "Reset");
  const link = element("button", { type: "button", class: "lab-button" }, "Copy link");
  const copyCode = element("button", { type: "button", class: "lab-button playground-python" }, "Copy as Python");
  const status = element("p", { class: "lab-headline playground-status", role: "status", "aria-live": "polite" }, "Set what you like, then run it.");
  const trouble = element("p", { class: "playground-trouble", role: "alert" });
  const results = element("div", { class: "playground-results", hidden: true });
  const set = (group, words) => element("fieldset", { class: `playground-set playground-${group}` }, element("legend", {}, words),
    ...fields.filter((field) => field.group === group).map((field) => field.node));
  const form = element("form", { class: "playground-form", novalidate: true, "aria-label": "Settings" },
    set("load", "Who comes"), set("engine", "Who serves them"), set("goal", "What is good enough"), set("code", "The order of the queue, in Python"),
    element("div", { class: "lab-actions" }, run, stop, reset, link, copyCode));

  function value(field) {
    const text = field.input.value;
    if (field.rule.choices || field.rule.lines) return text;
    if (text.trim() === "") return field.rule.empty ? null : NaN;
    return Number(text.trim());
  }

  // Which fields matter under the others, and hide the rest.
  function arrange() {
    const now = Object.fromEntries(fields.map((field) => [field.name, field.input.value]));
    for (const field of fields) field.node.hidden = !field.when(now);
    form.querySelector(".playground-code").hidden = now.order !== "own";
  }

  // All settings, or null after saying what is wrong with which field.
  function settings() {
    let first = null;
    const found = {};
    for (const field of fields) {
      const given = value(field), used = !field.node.hidden;
      const wrong = used && field.rule.check && given !== null && !field.rule.check(given) ? `${field.label} = ${field.input.value.trim() || "nothing"}: ${field.rule.allowed}.` : "";
      field.note.textContent = wrong;
      field.note.hidden = !wrong;
      field.input.toggleAttribute("aria-invalid", Boolean(wrong));
      if (wrong && !first) first = field;
      found[field.name] = used || field.rule.choices ? given : field.preset;
    }
    trouble.textContent = first ? first.note.textContent : "";
    if (first) { first.input.focus(); return null; }
    return found;
  }

  function fill(values) {
    for (const field of fields) field.input.value = values[field.name] ?? (field.preset === null ? "" : field.preset);
    arrange();
  }

  function address() {
    const query = new URLSearchParams();
    for (const field of fields) if (!field.node.hidden && field.input.value !== String(field.preset ?? "")) query.set(field.name, field.input.value);
    return `#playground?${query}`;
  }

  let parts = null;
  // Charts and player are made for the first result, and stay.
  async function stage() {
    if (parts) return parts;
    await Promise.all([load("labs/vega-bundle.js"), load("labs/playground-engine.js")]);
    const made = window.playgroundShown.panels.map((panel) => new Chart(panel, { id: "playground" }));
    const player = new Player("The run, played", window.playgroundShown.legend, "playground");
    const numbers = element("div", { class: "lab-table playground-numbers", tabindex: "0", role: "region", "aria-label": "Numbers of the run" });
    const said = element("div", { class: "playground-said" });
    const panels = element("div", { class: "lab-panels lab-panels-2", role: "group", "aria-label": "Charts" }, ...made.map((chart) => chart.node), player.node);
    results.append(numbers, said, panels);
    results.hidden = false;
    await Promise.all(made.map((chart) => chart.start()));
    new ResizeObserver(() => { for (const chart of made) if (chart.fit()) { chart.ticks(); chart.view.runAsync(); } }).observe(panels);
    parts = { made, player, numbers, said };
    return parts;
  }

  function domains(key, rows, marks) {
    const xs = rows.flatMap((row) => row.x), ys = rows.flatMap((row) => row.y).filter((y) => y !== null);
    const most = (values, more) => Math.max(...values, ...more, 1e-6);
    if (key === "itl") return { xdom: [Math.min(...xs, marks[0][1], 1e4) * 0.8, most(xs, [marks[0][1]]) * 1.25], ydom: [0, 1.02] };
    return { xdom: [0, most(xs, [])], ydom: [0, most(ys, key === "ttft" && marks[0][2] < 4 * most(ys, []) ? [marks[0][2]] : []) * 1.06] };
  }

  async function show(s, own, other) {
    const { made, player, numbers, said } = await stage();
    const sums = summary(own, s), rival = other ? { run: other, sums: summary(other, s) } : null;
    const rows = charts(own, sums, rival);
    const marks = { ttft: [["hline", null, s.ttft, "limit"]], itl: [["vline", 1e3 * s.tpot, null, "TPOT limit"]], queue: [], kv: [] };
    const words = {
      ttft: `Median ${seconds(sums.ttft_p50_s)}, 99 % within ${seconds(sums.ttft_p99_s)}.`,
      itl: `Median ${seconds(sums.itl_p50_s)}, 99 % within ${seconds(sums.itl_p99_s)}, the longest ${seconds(sums.itl_max_s)}.`,
      queue: `At most ${Math.max(0, ...rows.queue[0].y)} run, at most ${Math.max(0, ...rows.queue[1].y)} wait.`,
      kv: `The pool holds ${own.capacity.toLocaleString("en")} tokens; at most ${(100 * Math.max(0, ...rows.kv[1].y)).toFixed(0)} % are taken.`,
    };
    for (const chart of made) {
      const { key } = chart.panel;
      const range = domains(key, rows[key], marks[key]);
      // A limit beyond the chart is said and not drawn.
      const there = marks[key].filter(([, x, y]) => (x === null || x <= range.xdom[1]) && (y === null || y <= range.ydom[1]));
      const beyond = there.length < marks[key].length ? ` The limit of ${s.ttft} s lies above the chart.` : "";
      chart.show({ series: rows[key].map((row) => ({ ...row, y2: null })), marks: there, text: words[key] + beyond, ...range });
    }
    await Promise.all(made.map((chart) => chart.view.runAsync()));
    const head = rival ? ["", "Yours", "First come, first served"] : ["", "This run"];
    numbers.replaceChildren(table(head, ROWS.map(([name, text]) => [name, text(sums), ...(rival ? [text(rival.sums)] : [])])));
    said.replaceChildren(...notes(own, other));
    const names = rival ? ["Your order", "First come, first served"] : ["The run"];
    const lanes = [own, ...(other ? [other] : [])].map((each, i) => lane(each, i ? rival.sums.tokens : sums.tokens, names[i], s.max_bs)).filter(Boolean);
    player.node.hidden = !lanes.length;
    if (lanes.length) {
      const end = Math.max(...lanes.flatMap((each) => each.lives.map((life) => life[2])));
      player.pause();
      player.show({ title: "The run, played", still: Math.round(end / 3), lanes });
      player.go(end / 3e4);
    }
    const gone = sums.counts.map((count, code) => (count && code ? `${count} ${NAMES[code]}` : "")).filter(Boolean).join(", ");
    status.textContent = `${sums.counts[0]} of ${sums.submitted} finished${gone ? ` (${gone})` : ""}; ${(100 * sums.slo_of_submitted).toFixed(1)} % within ${s.ttft} s to the first token and ${1e3 * s.tpot} ms a token.`;
  }

  // Who was turned away and why; who starves.
  function notes(own, other) {
    const out = [], reasons = Object.entries(own.reasons), most = 8;
    if (reasons.length) {
      const name = (i) => `Request ${Number(i) + 1} (${own.load.prompt[i]} + ${own.load.output[i]} tokens), ${NAMES[own.outcome[i]]}`;
      out.push(element("p", {}, element("b", {}, `${reasons.length} not served. `), `The reasons${reasons.length > most ? `, of the first ${most}` : ""}:`),
        element("ul", {}, ...reasons.slice(0, most).map(([i, reason]) => element("li", {}, `${name(i)}: ${reason}.`))));
    }
    if (!other) return out;
    const who = (result, words) => {
      const { request, wait, tenants } = starved(result);
      if (request < 0) return `${words}: nobody got a seat.`;
      const named = tenants.length ? ` The worst off is tenant ${tenants[0].name}: up to ${seconds(tenants[0].longest)}, ${seconds(tenants[0].mean)} on average.` : "";
      return `${words}: request ${request + 1} (${result.load.prompt[request]} + ${result.load.output[request]} tokens) waits longest for a seat, ${seconds(wait)}.${named}`;
    };
    out.push(element("p", {}, element("b", {}, "Who starves? "), `${who(own, "Your order")} ${who(other, "First come, first served")}`));
    return out;
  }

  let busy = false, again = false;
  async function go() {
    if (busy) { again = true; engine.end(new Stopped()); return; } // The newest setting counts.
    const s = settings();
    if (!s) return;
    busy = true;
    run.disabled = true;
    stop.disabled = false;
    status.textContent = "Starting the engine …";
    try { history.replaceState(history.state, "", address()); } catch (error) { /* A viewer that forbids it. */ }
    const since = performance.now();
    try {
      const total = s.workload === "own" ? "" : ` of ${s.n}`;
      const said = (words) => (time, done) => { status.textContent = `${words}at ${time.toFixed(1)} s, ${done}${total} finished`; };
      const other = s.order === "own" ? await engine.run({ ...s, order: "fcfs" }, said("First come, first served: ")) : null;
      const own = await engine.run(s, said(other ? "Your order: " : ""));
      place.dataset.runMs = (performance.now() - since).toFixed(0);
      place.playgroundRun = own;
      await show(s, own, other);
      place.dispatchEvent(new CustomEvent("playground:done"));
    } catch (error) {
      if (error instanceof Stopped) status.textContent = "Stopped.";
      else {
        status.textContent = "Not run.";
        trouble.textContent = error.line ? `Line ${error.line} of your function: ${error.message}` : error.message;
        const field = error.line || /^order/.test(error.message) ? byName.code : fields.find((each) => !each.node.hidden && error.message.startsWith(each.name));
        if (field && !field.node.hidden) {
          field.input.setAttribute("aria-invalid", "");
          field.note.textContent = trouble.textContent;
          field.note.hidden = false;
          if (error.line) select(field.input, error.line);
        }
      }
    }
    busy = false;
    run.disabled = false;
    stop.disabled = true;
    if (again) { again = false; go(); }
  }

  // Mark a line of the reader's code.
  function select(area, line) {
    const lines = area.value.split("\n"), from = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    area.focus();
    area.setSelectionRange(from, from + (lines[line - 1] || "").length);
  }

  async function copy(button, text) {
    const before = button.textContent;
    let said = "Copied";
    try { await navigator.clipboard.writeText(text); } catch (error) {
      const box = element("textarea", { class: "lab-unseen", readonly: true }, text);
      document.body.append(box);
      box.select();
      if (!document.execCommand("copy")) said = "Cannot copy";
      box.remove();
      button.focus();
    }
    button.textContent = said;
    setTimeout(() => { button.textContent = before; }, 1800);
  }

  form.addEventListener("submit", (event) => { event.preventDefault(); go(); });
  form.addEventListener("input", arrange);
  form.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); go(); } });
  stop.addEventListener("click", () => engine.end(new Stopped()));
  reset.addEventListener("click", () => { fill({}); trouble.textContent = ""; try { history.replaceState(history.state, "", "#playground"); } catch (error) { /* As above. */ } });
  link.addEventListener("click", () => copy(link, location.href.split("#")[0] + address()));
  copyCode.addEventListener("click", () => { const s = settings(); if (s) copy(copyCode, pythonCall(s)); });
  byName.memory.input.addEventListener("change", () => { byName.memory_tokens.input.value = byName.memory.input.value === "max" ? 8192 : 16; });
  byName.prefill.input.addEventListener("change", () => { if (byName.prefill.input.value === "chunked" && !byName.token_budget.input.value) byName.token_budget.input.value = 512; });

  function arrive() {
    const [name, query] = location.hash.slice(1).split("?");
    if (name !== "playground" || query === undefined) return false;
    const asked = new URLSearchParams(query), given = {};
    for (const field of fields) {
      const text = asked.get(field.name);
      if (text !== null && (!field.rule.choices || field.rule.choices.some(([known]) => known === text))) given[field.name] = text;
    }
    fill(given);
    return true;
  }

  hatches();
  fill({});
  const asked = arrive();
  place.replaceChildren(element("div", { class: "playground-body" }, form, trouble, status, results));
  place.playground = { pythonCall, settings, literal, summary };
  window.addEventListener("hashchange", () => { if (arrive()) go(); });
  if (asked) go();
  else (window.requestIdleCallback || setTimeout)(() => engine.wake().catch(() => {}));
})();
