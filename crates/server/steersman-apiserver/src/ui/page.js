"use strict";
// Follows the server: when it says that something changed, the parts with `data-live` are loaded again.

const byId = (id) => document.getElementById(id);
const pause = byId("pause");
let paused = sessionStorage.getItem("paused") === "yes";
let late = false;
let loading = false;
let events;
let last;

const filterRows = () => {
  for (const input of document.querySelectorAll("input[data-filter]")) {
    const words = input.value.toLowerCase().split(/\s+/);
    for (const row of document.querySelectorAll(`#${input.dataset.filter} [data-row]`)) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  }
};

const isSelected = (part) => {
  const selection = getSelection();
  return !selection.isCollapsed && part.contains(selection.anchorNode);
};

const replace = (part, fresh) => {
  if (part.innerHTML === fresh.innerHTML) return;
  const open = new Map([...part.querySelectorAll("details[id]")].map((one) => [one.id, one.open]));
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  const [id, href] = [focused?.id, focused?.getAttribute("href")];
  const summaryOf = focused?.localName === "summary" ? focused.parentElement.id : "";
  part.replaceChildren(...fresh.childNodes);
  for (const [id, is] of open) if (byId(id)) byId(id).open = is;
  const again = (id && byId(id)) || (summaryOf && byId(summaryOf)?.querySelector("summary")) ||
    (href && [...part.querySelectorAll("a")].find((one) => one.getAttribute("href") === href));
  again?.focus?.({ preventScroll: true });
};

const load = async () => {
  if (paused || document.hidden || loading) {
    late = true;
    return;
  }
  loading = true;
  late = false;
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const fresh = page.getElementById(part.id);
      if (fresh && !isSelected(part)) replace(part, fresh);
    }
    filterRows();
  } catch {
    // The server is gone, or restarts. The next event loads the page again.
  } finally {
    loading = false;
  }
  if (late) load();
};

const showPause = () => {
  pause.hidden = false;
  pause.setAttribute("aria-pressed", paused);
  pause.textContent = paused ? "Paused" : "Pause";
};

const toggle = () => {
  paused = !paused;
  sessionStorage.setItem("paused", paused ? "yes" : "no");
  showPause();
  if (!paused && late) load();
};

// A hidden page has no connection, because a browser has only six to a server.
const follow = () => {
  if (document.hidden || events) return;
  events = new EventSource("/api/events");
  events.addEventListener("message", (event) => {
    const state = JSON.parse(event.data);
    // Only the log of requests changes with requests that read.
    if (!location.pathname.startsWith("/requests")) delete state.requests;
    const told = JSON.stringify(state);
    if (last !== undefined && last !== told) load();
    last = told;
  });
};

addEventListener("keydown", (event) => {
  const at = event.target;
  const types = at.matches?.("input, select, textarea");
  if (event.key === "Escape" && types) at.blur();
  if (types || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    const filter = document.querySelector("main :is(.filter, .search) input");
    if (filter) {
      event.preventDefault();
      filter.focus();
      filter.select();
    }
  } else if (event.key === "p") {
    toggle();
  }
});
addEventListener("input", (event) => { if (event.target.dataset.filter) filterRows(); });
addEventListener("visibilitychange", () => {
  if (document.hidden) {
    events?.close();
    events = undefined;
  } else {
    follow();
    if (late) load();
  }
});
// Empty fields stay out of the address.
addEventListener("submit", (event) => {
  if (!event.target.matches("[data-filter-form]")) return;
  for (const field of event.target.elements) field.disabled = field.name !== "" && field.value === "";
});
addEventListener("pageshow", () => {
  for (const field of document.querySelectorAll("[data-filter-form] [disabled]")) field.disabled = false;
});

const json = byId("json");
const path = location.pathname === "/" ? "/kinds" : location.pathname;
json.href = json.textContent = `/api${path}${location.search}`;
pause.addEventListener("click", toggle);
showPause();
filterRows();
follow();
