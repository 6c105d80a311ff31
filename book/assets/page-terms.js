/* A link to the glossary shows a card with what is written there: on hover, on focus, on the first tap. Without it, it is a link. */
"use strict";

(function () {
  const LINKS = '.bd-article a[href*="glossary.html#"]';
  let terms = null; // what the glossary says, asked for at the first card
  let card = null;
  let shown = null; // the link whose card is open, or about to be
  let timer = 0;
  let touch = false; // what was used last is a finger

  function load(link) {
    terms ||= new Promise((done) => {
      const script = document.createElement("script");
      script.src = new URL("../_static/glossary-terms.js", link.href).href;
      script.onload = script.onerror = () => done(window.bookTerms || {});
      document.head.append(script);
    });
    return terms;
  }

  function make() {
    card = document.createElement("div");
    card.className = "term-card";
    card.innerHTML = '<div role="tooltip" id="term-card-text"></div><a class="term-more">Open the glossary · <span lang="zh-Hans">打开术语表</span></a>';
    document.body.append(card);
  }

  // Under the link, or above it where there is more room; never wider than the page.
  function place(link) {
    const lines = link.getClientRects(), first = lines[0], last = lines[lines.length - 1], box = card.getBoundingClientRect();
    const above = last.bottom + box.height + 8 > innerHeight && first.top > box.height + 8;
    const right = document.documentElement.clientWidth - box.width - 8;
    card.style.left = `${scrollX + Math.max(8, Math.min(above ? first.left : last.left, right))}px`;
    card.style.top = `${scrollY + (above ? first.top - box.height - 4 : last.bottom + 4)}px`;
  }

  // Returns whether there is something to show.
  async function show(link) {
    if (shown === link) return true;
    hide();
    shown = link;
    const text = (await load(link))[decodeURIComponent(link.hash.slice(1))];
    if (shown !== link) return true;
    if (!text) { shown = null; return false; }
    if (!card) make();
    card.firstChild.innerHTML = text;
    card.lastChild.href = link.href;
    card.lastChild.hidden = !touch;
    card.hidden = false;
    link.setAttribute("aria-describedby", "term-card-text");
    place(link);
    return true;
  }

  function hide() {
    clearTimeout(timer);
    if (shown) shown.removeAttribute("aria-describedby");
    if (card) card.hidden = true;
    shown = null;
  }

  const linkAt = (event) => (event.target instanceof Element ? event.target.closest(LINKS) : null);
  const inside = (event) => linkAt(event) || (card && card.contains(event.target));

  addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch" || !inside(event)) return;
    const link = linkAt(event);
    touch = false;
    clearTimeout(timer);
    if (link) timer = setTimeout(() => show(link), 120);
  });
  addEventListener("pointerout", (event) => { // The way from the link to its card takes a moment.
    if (event.pointerType === "touch" || !inside(event)) return;
    clearTimeout(timer);
    timer = setTimeout(hide, 250);
  });
  addEventListener("pointerdown", (event) => {
    touch = event.pointerType === "touch";
    if (shown && !inside(event)) hide();
  });
  addEventListener("focusin", (event) => { const link = linkAt(event); if (link && !touch && link.matches(":focus-visible")) show(link); });
  addEventListener("focusout", (event) => { if (!touch && linkAt(event) === shown) hide(); });
  addEventListener("keydown", (event) => { touch = false; if (event.key === "Escape") hide(); });
  addEventListener("click", (event) => {
    const link = linkAt(event);
    if (!link || !touch || shown === link) return;
    event.preventDefault();
    show(link).then((there) => { if (!there) location.assign(link.href); });
  });
})();
