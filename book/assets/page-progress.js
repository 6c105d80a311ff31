/* Which chapters were read to the end and which labs were opened: kept in this browser, shown beside the chapters. */
"use strict";

(function () {
  const READ = "labcode-read:", ANSWER = "labcode-answer:"; // the latter is written by labs-ask.js
  const CHAPTER = /^(?:\d\d|a\d)-/;
  const nameOf = (address) => new URL(address, location.href).pathname.split("/").pop().replace(/\.html$/, "");
  let button = null;

  // What a browser keeps that keeps nothing: an empty list.
  function keys() {
    try { return Object.keys(localStorage); } catch (error) { return []; }
  }

  function draw() {
    const there = keys();
    let any = false;
    document.querySelectorAll(".bd-sidenav .toctree-l1 > a").forEach((link) => {
      const name = nameOf(link.href);
      link.querySelectorAll(".progress-mark").forEach((old) => { old.previousSibling.remove(); old.remove(); });
      if (!CHAPTER.test(name)) return;
      const labs = there.filter((key) => key.startsWith(`${ANSWER}${/^\d/.test(name) ? "ch" : ""}${name.slice(0, 3)}`)).length;
      const read = there.includes(READ + name);
      if (!read && !labs) return;
      any = true;
      const mark = document.createElement("span");
      mark.className = `progress-mark ${read ? "progress-read" : "progress-begun"}`;
      mark.setAttribute("role", "img");
      mark.setAttribute("aria-label", [read ? "read" : "begun", labs ? `${labs} ${labs === 1 ? "lab" : "labs"} opened` : ""].filter(Boolean).join(", "));
      mark.title = mark.getAttribute("aria-label");
      link.append(" ", mark);
    });
    if (button && any) button.hidden = false;
  }

  function clear() {
    try {
      keys().filter((key) => key.startsWith(READ) || key.startsWith(ANSWER)).forEach((key) => localStorage.removeItem(key));
    } catch (error) { /* Nothing was kept. */ }
    draw();
    button.textContent = "Progress cleared";
  }

  const foot = document.querySelector(".bd-sidebar-primary .sidebar-primary-items__end");
  if (foot) {
    button = document.createElement("button");
    Object.assign(button, { type: "button", className: "progress-clear", hidden: true });
    button.title = "Forgets which chapters you read and what you answered before their labs. Both are kept in this browser only.";
    button.innerHTML = 'Clear my progress · <span lang="zh-Hans">清除我的进度</span>';
    button.addEventListener("click", clear);
    foot.append(button);
  }

  const end = document.querySelector(".prev-next-footer");
  if (end && CHAPTER.test(nameOf(location.href)) && window.IntersectionObserver) {
    const watch = new IntersectionObserver((seen) => {
      if (!seen.some((one) => one.isIntersecting)) return;
      try { localStorage.setItem(READ + nameOf(location.href), "1"); } catch (error) { /* Then nothing is kept. */ }
      draw();
    });
    watch.observe(end);
  }
  addEventListener("lab:judged", draw);
  addEventListener("storage", draw); // another tab
  addEventListener("pageshow", draw); // back in the history
  draw();
})();
