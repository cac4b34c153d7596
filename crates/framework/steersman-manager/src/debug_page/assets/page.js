// Replaces the content of the page whenever the server sends a new one. Without this script the pages work, and stand still.
"use strict";
const main = document.querySelector("main");
const state = document.getElementById("state");
const button = document.getElementById("pause");
let source, paused = false, failed = 0;

const say = (text) => { state.textContent = text; };

// An update must not take a selection, an open part or the focus away.
const isSelecting = () => {
  const selection = getSelection();
  return selection && !selection.isCollapsed && main.contains(selection.anchorNode);
};

function show(html) {
  const open = new Set([...main.querySelectorAll("details[open]")].map((part) => part.dataset.key));
  const focused = main.contains(document.activeElement) ? document.activeElement : null;
  if (focused && /^(INPUT|SELECT|TEXTAREA)$/.test(focused.tagName)) return;
  const id = focused && (focused.id || focused.getAttribute("href"));
  const scrolls = [...main.querySelectorAll(".scroll")].map((part) => part.scrollLeft);
  main.innerHTML = html;
  for (const part of main.querySelectorAll("details")) part.open ||= open.has(part.dataset.key);
  main.querySelectorAll(".scroll").forEach((part, at) => { part.scrollLeft = scrolls[at] || 0; });
  if (id) {
    const same = [...main.querySelectorAll("a, button, summary")]
      .find((part) => part.id === id || part.getAttribute("href") === id);
    if (same) same.focus({ preventScroll: true });
  }
}

function listen() {
  source = new EventSource("live/" + main.dataset.view + location.search);
  source.onmessage = (event) => {
    failed = 0;
    say("live");
    if (!paused && !isSelecting()) show(event.data);
  };
  source.onerror = () => {
    failed += 1;
    if (failed > 2) say("no connection to the operator; trying again");
    // A browser gives up after an error response, such as 401 or 503.
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 3000);
  };
}

function pause() {
  paused = !paused;
  button.textContent = paused ? "Go on" : "Pause";
  button.setAttribute("aria-pressed", paused);
  say(paused ? "paused" : "live");
}

if (main && main.dataset.view && button) {
  button.hidden = false;
  button.addEventListener("click", pause);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (event.key === "p") pause();
    if (event.key === "/") {
      const field = main.querySelector("input[type=search]");
      if (field) { event.preventDefault(); field.focus(); }
    }
    const link = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
    if (link) location.assign(link.href);
  });
  listen();
}
