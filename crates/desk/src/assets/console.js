// The keyboard of the desk. A key presses the visible button or link that names it in data-key, and does nothing else; whatever can
// be done so can be done with the mouse and without this file.
"use strict";

(() => {
  const isTyping = (element) =>
    element instanceof HTMLElement &&
    (element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName));

  const isVisible = (element) => element.getClientRects().length > 0 && !element.disabled;

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.repeat || event.defaultPrevented) return;
    if (isTyping(event.target) || event.key.length !== 1) return;
    const named = [...document.querySelectorAll("[data-key]")].filter((element) => element.dataset.key === event.key);
    const pressed = named.find(isVisible);
    if (!pressed) return;
    event.preventDefault();
    pressed.click();
    // The explanation of the keys stands at the end of the page.
    if (pressed.tagName === "SUMMARY") pressed.parentElement.scrollIntoView({ block: "nearest" });
  });

  // The one that is looked at is seen in its list.
  const showCurrent = () => {
    const current = document.querySelector(".queue [aria-current]");
    const queue = current && current.closest(".queue");
    if (queue && queue.scrollHeight > queue.clientHeight) {
      queue.scrollTop = current.offsetTop - queue.offsetTop - queue.clientHeight / 3;
    }
  };

  // A page that replaced another begins where it should be read from.
  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.target !== document.body) return;
    showCurrent();
    const start = document.querySelector("[data-start]") || document.getElementById("main");
    if (!start) return;
    start.focus({ preventScroll: true });
    window.scrollTo(0, 0);
    if (start.getBoundingClientRect().top > window.innerHeight / 2) start.scrollIntoView({ block: "start" });
  });

  // Folded parts are open on paper.
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((details) => (details.open = true));
  });
  window.addEventListener("afterprint", () => {
    opened.forEach((details) => (details.open = false));
    opened = [];
  });

  showCurrent();
})();
