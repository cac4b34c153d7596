// Replaces the content of the page whenever the server sends a new one. Without this script the pages work, and stand still.
"use strict";
const main = document.querySelector("main");
const state = document.getElementById("state");
const button = document.getElementById("pause");
let source, isPaused = false, problem = "";

// An update must not take a selection or the text of a field away.
function reasonToStand() {
  if (isPaused) return "paused";
  const selection = getSelection();
  if (selection && !selection.isCollapsed && main.contains(selection.anchorNode)) return "paused: text is selected";
  if (main.contains(document.activeElement) && document.activeElement.matches("input")) return "paused: a field has the focus";
  return "";
}

// The text is a live region for screen readers, so it is set only if it differs.
function tell() {
  const text = problem || reasonToStand() || "live";
  if (state.textContent !== text) state.textContent = text;
}

const parts = (selector) => [...main.querySelectorAll(selector)];
const focusable = "a, button, summary, .scroll";

function show(html) {
  const open = new Map(parts("details").map((part) => [part.dataset.key, part.open]));
  const focused = parts(focusable).indexOf(document.activeElement);
  const scrolls = parts(".scroll").map((part) => part.scrollLeft);
  main.innerHTML = html;
  for (const part of parts("details")) {
    if (open.has(part.dataset.key)) part.open = open.get(part.dataset.key);
  }
  parts(".scroll").forEach((part, at) => { part.scrollLeft = scrolls[at] || 0; });
  if (focused >= 0) parts(focusable)[focused]?.focus({ preventScroll: true });
}

const now = () => new Date().toLocaleTimeString();

async function explain(address) {
  let status = 0;
  try { status = (await fetch(address, { signal: AbortSignal.timeout(2000) })).status; } catch { /* No connection. */ }
  if (status === 401) problem = "signed out: reload the page to sign in";
  else if (status === 403) problem = "the permission is gone";
  else if (status === 404) problem = "this controller or object is gone";
  else if (status === 503) problem = "16 pages are live already: close one";
  tell();
}

function listen() {
  const address = "live/" + main.dataset.view + location.search;
  source = new EventSource(address);
  source.onmessage = (event) => {
    problem = "";
    tell();
    if (!reasonToStand()) show(event.data);
  };
  source.onerror = () => {
    if (!problem) problem = `no connection since ${now()}`;
    tell();
    // A browser gives up after an error response.
    if (source.readyState === EventSource.CLOSED) {
      explain(address);
      setTimeout(() => document.hidden || listen(), 3000);
    }
  };
}

function pause() {
  isPaused = !isPaused;
  button.textContent = isPaused ? "Go on" : "Pause";
  button.setAttribute("aria-pressed", isPaused);
  tell();
}

if (main && main.dataset.view && button) {
  button.hidden = false;
  button.addEventListener("click", pause);
  for (const kind of ["selectionchange", "focusin", "focusout"]) document.addEventListener(kind, tell);
  // A browser has few connections for a host: a page that is not seen needs none.
  document.addEventListener("visibilitychange", () => {
    source.close();
    if (!document.hidden) listen();
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input")) return;
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
