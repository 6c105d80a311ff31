/* Exercises answered in the page: a field at each, with the verdict that labcode's `check` gives in a notebook.
 *
 * The rules are those of labcode.course.exercises.verdict; a test holds both to each other for every exercise. What was answered is kept in
 * this browser. Without JavaScript the solution is folded below the question, as ever.
 */
window.labExercise = (function () {
  "use strict";
  const { element } = window.labCharts;
  const base = new URL("labs/", document.currentScript.src).href;
  const KEY = "labcode-exercise:";

  // What labcode.course.exercise_page.veiled made.
  function unveiled(text, key) {
    const bytes = Uint8Array.from(atob(text), (c, i) => c.charCodeAt(0) ^ key.charCodeAt(i % key.length) ^ (31 * i & 0xff));
    return new TextDecoder().decode(bytes);
  }

  const close = (a, b, relative, absolute = 0) => a === b || Math.abs(a - b) <= Math.max(relative * Math.max(Math.abs(a), Math.abs(b)), absolute);

  function verdict(id, given, entries, slips) {
    const [question, veil] = entries[id], [right, tolerance, share] = JSON.parse(unveiled(veil, id));
    if ((share ? [right, 100 * right] : [right]).some((one) => close(given, one, Math.max(tolerance, 1e-9), 1e-12))) return "right";
    if (right && given) {
      for (const [factor, meaning] of slips) if (close(given, factor * right, Math.max(tolerance, 1e-6))) return `not yet: ${meaning}`;
    }
    return `not yet: ${given > right ? "too large" : "too small"} (${question})`;
  }

  // A number as people write it: 1,200 or 1 200, 12 %, 3e8, −0.5. NaN if it is none.
  function read(text) {
    const plain = text.trim().replace(/[\u2212\u2013]/g, "-").replace(/\s*%$/, "").replace(/[\s_\u202f]/g, "");
    const whole = /^-?\d{1,3}(,\d{3})+(\.\d*)?$/.test(plain) ? plain.replace(/,/g, "") : plain;
    return /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(whole) ? Number(whole) : NaN;
  }

  function kept(id, text) {
    try {
      if (text === undefined) return localStorage.getItem(KEY + id);
      localStorage.setItem(KEY + id, text);
    } catch (error) { /* A browser that keeps nothing. */ }
    return null;
  }

  function field(id, question) {
    const name = `exercise-field-${id.replace(".", "-")}`;
    const input = element("input", { id: name, type: "text", inputmode: "decimal", autocomplete: "off", "aria-describedby": `${name}-asked` });
    const said = element("output", { class: "exercise-said", for: name, role: "status" });
    const button = element("button", { type: "submit", class: "exercise-check" }, "Check");
    const form = element("form", { class: "exercise-field", novalidate: true }, element("label", { for: name }, id), input, button, said,
      element("span", { class: "exercise-asked", id: `${name}-asked` }, question));
    const judge = (fresh) => {
      const value = read(input.value);
      const words = Number.isNaN(value) ? `“${input.value.trim()}”: a number is needed, as in 12.5 or 3e8` : verdict(id, value, window.labExercises, window.labSlips);
      form.dataset.verdict = words === "right" ? "right" : "other";
      said.textContent = words === "right" ? "✓ right" : words;
      if (fresh) {
        kept(id, input.value);
        form.dispatchEvent(new CustomEvent("exercise:answered", { bubbles: true, detail: { id, right: words === "right" } }));
      }
    };
    form.addEventListener("submit", (event) => { event.preventDefault(); if (input.value.trim()) judge(true); });
    input.addEventListener("input", () => { delete form.dataset.verdict; said.textContent = ""; });
    const before = kept(id);
    if (before) { input.value = before; judge(false); }
    return form;
  }

  function load(url) {
    return new Promise(function (resolve, reject) {
      const script = element("script", { src: url });
      script.onload = resolve;
      script.onerror = reject;
      document.head.append(script);
    });
  }

  // Fields go between an exercise's question and its folded solution, when the first of them comes near.
  function begin() {
    const places = [...document.querySelectorAll("section h3")].flatMap(function (heading) {
      const number = /^Exercise ([A-Z]?\d+\.\d+)\b/.exec(heading.textContent.trim());
      return number ? [{ section: heading.parentElement, number: number[1] }] : [];
    });
    if (!places.length) return;
    const put = async () => {
      await load(`${base}exercises-${places[0].number.split(".")[0]}.js`);
      for (const { section, number } of places) {
        const ids = Object.keys(window.labExercises).filter((id) => id === number || (id.startsWith(number) && /^[a-z]$/.test(id.slice(number.length))));
        if (!ids.length || section.querySelector(".exercise-fields")) continue;
        const fields = element("div", { class: "exercise-fields", role: "group", "aria-label": `Your answers to exercise ${number}` }, ...ids.map((id) => field(id, window.labExercises[id][0])));
        const solution = section.querySelector(":scope > details");
        if (solution) solution.before(fields); else section.append(fields);
      }
    };
    const watcher = new IntersectionObserver(function (entries) {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      watcher.disconnect();
      put().catch(() => { /* The check cell and the folded solution are there. */ });
    }, { rootMargin: "1200px 0px" });
    for (const { section } of places) watcher.observe(section);
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
  else begin();
  return { verdict, unveiled, read };
})();
